//! The hints that a watcher has not seen yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use lock_core::Hint;

/// The hints that a watcher has not seen yet. Two alike are one: a mailbox never grows.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    unseen: AtomicU8,
    waker: AtomicWaker,
}

const ENDED: u8 = 1 << 7;
/// In the order in which they are told.
const HINTS: [(u8, Hint); 3] =
    [(1, Hint::Resync), (1 << 1, Hint::Released), (1 << 2, Hint::Expired)];

impl Mailbox {
    /// Leaves a hint.
    pub(crate) fn post(&self, hint: Hint) {
        let bit = HINTS.iter().find(|(_, known)| *known == hint).map_or(0, |(bit, _)| *bit);
        self.set(bit);
    }

    /// Says that there will be no more hints.
    pub(crate) fn end(&self) {
        self.set(ENDED);
    }

    /// The next hint; `None` at the end.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Hint>> {
        if let ready @ Poll::Ready(_) = self.take() {
            return ready;
        }
        self.waker.register(context.waker());
        self.take()
    }

    fn set(&self, bit: u8) {
        self.unseen.fetch_or(bit, Ordering::AcqRel);
        self.waker.wake();
    }

    fn take(&self) -> Poll<Option<Hint>> {
        let unseen = self.unseen.load(Ordering::Acquire);
        for (bit, hint) in HINTS {
            if unseen & bit != 0 {
                self.unseen.fetch_and(!bit, Ordering::AcqRel);
                return Poll::Ready(Some(hint));
            }
        }
        if unseen & ENDED != 0 { Poll::Ready(None) } else { Poll::Pending }
    }
}

/// A mailbox that is ended when its keeper goes.
#[derive(Debug)]
pub(crate) struct Keeper(pub(crate) Arc<Mailbox>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker;

    use super::*;

    fn drain(mailbox: &Mailbox) -> Vec<Poll<Option<Hint>>> {
        let waker = noop_waker();
        let context = Context::from_waker(&waker);
        let mut all = Vec::new();
        while let next @ Poll::Ready(Some(_)) = mailbox.poll_next(&context) {
            all.push(next);
        }
        all.push(mailbox.poll_next(&context));
        all
    }

    #[test]
    fn hints_wait_until_they_are_seen_and_are_seen_once() {
        let mailbox = Mailbox::default();
        mailbox.post(Hint::Released);
        mailbox.post(Hint::Resync);
        mailbox.post(Hint::Released);
        let some = |hint| Poll::Ready(Some(hint));
        assert_eq!(drain(&mailbox), [some(Hint::Resync), some(Hint::Released), Poll::Pending]);
        assert_eq!(drain(&mailbox), [Poll::Pending]);
    }

    #[test]
    fn the_end_comes_last_and_stays() {
        let keeper = Keeper(Arc::default());
        let mailbox = Arc::clone(&keeper.0);
        drop(keeper);
        mailbox.post(Hint::Expired);
        assert_eq!(drain(&mailbox), [Poll::Ready(Some(Hint::Expired)), Poll::Ready(None)]);
        assert_eq!(drain(&mailbox), [Poll::Ready(None)]);
    }
}
