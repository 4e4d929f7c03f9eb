//! The holds behind one permit, usually a single hold.

use futures::future::join_all;
use lock_core::Key;

use crate::bare::Hold;
use crate::error::ReleaseError;
use crate::lease::Lease;

/// Any number of holds of one semaphore. A single hold takes no allocation.
#[derive(Debug, Default)]
pub(super) struct Holds {
    first: Option<Hold>,
    /// Empty if `first` is `None`.
    rest: Vec<Hold>,
}

impl Holds {
    pub(super) fn one(hold: Hold) -> Self {
        Self { first: Some(hold), rest: Vec::new() }
    }

    /// The number of permits of all holds together.
    pub(super) fn permits(&self) -> usize {
        self.iter().map(permits).sum()
    }

    pub(super) fn merge(&mut self, other: Self) {
        for hold in other {
            self.push(hold);
        }
    }

    /// Takes out `count` permits, if there are that many: first whole holds, and then a part of another hold.
    pub(super) fn split(&mut self, count: usize) -> Option<Self> {
        if count > self.permits() {
            return None;
        }
        let mut left = count;
        let mut taken = Self::default();
        while left > 0 {
            let last = self.rest.last_mut().or(self.first.as_mut())?;
            let here = permits(last);
            if here > left {
                // The permits of one hold fit into 32 bits.
                taken.push(last.split(left as u32)?);
                break;
            }
            left -= here;
            taken.push(self.rest.pop().or_else(|| self.first.take())?);
        }
        Some(taken)
    }

    pub(super) fn forget(self) {
        self.into_iter().for_each(Hold::forget);
    }

    pub(super) async fn release(self) -> Result<(), ReleaseError> {
        if self.rest.is_empty() {
            return match self.first {
                Some(hold) => hold.release().await,
                None => Ok(()),
            };
        }
        // All at once, so that the first poll of the future begins every release.
        join_all(self.into_iter().map(Hold::release)).await.into_iter().collect()
    }

    /// A handle to the leases of all holds.
    pub(super) fn lease(&self, key: &Key) -> Lease {
        match &self.first {
            Some(hold) if self.rest.is_empty() => Lease::of(hold),
            _ => Lease::of_all(Some(key), self.iter()),
        }
    }

    fn push(&mut self, hold: Hold) {
        match self.first {
            None => self.first = Some(hold),
            Some(_) => self.rest.push(hold),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Hold> {
        self.first.iter().chain(&self.rest)
    }
}

impl IntoIterator for Holds {
    type Item = Hold;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Hold>, std::vec::IntoIter<Hold>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

fn permits(hold: &Hold) -> usize {
    hold.permits() as usize
}
