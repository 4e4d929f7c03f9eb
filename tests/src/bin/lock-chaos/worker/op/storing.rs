//! Storing the value of a stored mutex.

use lock_core::FencingToken;
use lock_sync::StoredMutexGuard;
use lock_tests::chaos::history::{Deed, Op, Refusal, Sight};

use super::{Holding, Scribe};
use crate::worker::pages::{Page, Pages};
use crate::worker::polls::Whim;
use crate::worker::refusal::Unstored;

/// A value that is being stored. If this is dropped, the outcome is unknown.
#[derive(Debug)]
struct Storing {
    scribe: Scribe,
    op: Op,
    outcome: Result<FencingToken, (Refusal, bool)>,
}

impl Storing {
    fn begin(scribe: &Scribe, op: Op, value: u64, base: u64) -> Self {
        scribe.record(scribe.now(), [Deed::Store { op, value, base }].into_iter());
        Self { scribe: scribe.clone(), op, outcome: Err((Refusal::GivenUp, false)) }
    }

    fn ended<E: Unstored>(&mut self, outcome: &Result<FencingToken, E>) {
        self.outcome = outcome.as_ref().map(|version| *version).map_err(Unstored::unstored);
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        let op = self.op;
        let deed = match &self.outcome {
            Ok(version) => Deed::Stored { op, version: *version },
            Err((why, certain)) => Deed::Unstored { op, why: why.clone(), certain: *certain },
        };
        self.scribe.record(self.scribe.now(), [deed].into_iter());
    }
}

impl Holding<StoredMutexGuard<Page, Pages>> {
    /// Records the value that the guard began with.
    pub(crate) fn finds(&mut self) {
        let Some(guard) = self.guard() else { return };
        let sight = Sight { version: StoredMutexGuard::version(guard), value: guard.number };
        self.record(|op| Deed::Found { op, sight });
    }

    /// Stores a value, and keeps the lock.
    pub(crate) async fn save(&mut self, value: u64, whim: Whim) {
        let Some((mut storing, base)) = self.store(value) else { return };
        let Some(guard) = self.guard() else { return };
        **guard = Page::new(value);
        let outcome = whim.bear(guard.save()).await;
        if let Some(outcome) = outcome {
            storing.ended(&outcome);
        }
        // The next value is made of this one, unless it was certainly not stored.
        if matches!(storing.outcome, Err((_, true))) {
            **guard = base;
        }
    }

    /// Stores a value, and releases the lock.
    pub(crate) async fn commit(mut self, value: u64, whim: Whim) {
        let Some((mut storing, _)) = self.store(value) else { return };
        let Some((ending, mut guard)) = self.let_go() else { return };
        *guard = Page::new(value);
        let _calling = ending.scribe().calls(ending.parts());
        let outcome = whim.bear(guard.commit()).await;
        let Some(outcome) = outcome else { return };
        storing.ended(&outcome);
        drop(storing);
        if outcome.is_ok() {
            ending.confirmed();
        }
    }

    /// Records that this value is to be stored. Returns also the value before. There is none if that is half a value.
    fn store(&mut self, value: u64) -> Option<(Storing, Page)> {
        let base = **self.guard()?;
        let op = self.parts.first()?.op;
        Some((Storing::begin(&self.scribe, op, value, base.number?), base))
    }
}
