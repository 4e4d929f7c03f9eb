//! Whether a semaphore is closed for all, as far as this process knows.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Whether a semaphore is closed for all, as far as this process knows. All handles of one name share it.
///
/// The number grows with each change, and is odd while the semaphore is closed. So an answer of the store that is late
/// does not count after a change.
#[derive(Debug, Default)]
pub(crate) struct ClosedForAll(AtomicU64);

/// What the process knew when a request began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known(u64);

impl Known {
    pub(crate) fn is_closed(self) -> bool {
        self.0 % 2 == 1
    }
}

impl ClosedForAll {
    pub(crate) fn known(&self) -> Known {
        Known(self.0.load(Ordering::Acquire))
    }

    /// The store has answered a request that began with this knowledge.
    pub(crate) fn learn(&self, before: Known, is_closed: bool) {
        if before.is_closed() != is_closed {
            let Known(number) = before;
            // If there was a change since, this fails: the change may be newer than the answer.
            let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
            let _ = self.0.compare_exchange(number, number + 1, set, fetch);
        }
    }

    /// This process has destroyed the semaphore. The next one with its name is open.
    pub(crate) fn reopen(&self) {
        // Also if the semaphore was not known to be closed: the store may yet refuse an earlier request.
        let next = |number: u64| Some((number | 1) + 1);
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_request_says_all_know_until_another_request_says_otherwise() {
        let closed = ClosedForAll::default();
        let first = closed.known();
        closed.learn(first, false);
        assert_eq!(closed.known(), first);
        closed.learn(first, true);
        // Another request that was under way.
        closed.learn(first, true);
        closed.learn(first, false);
        let second = closed.known();
        assert!(second.is_closed());
        closed.learn(second, true);
        assert_eq!(closed.known(), second);
        closed.learn(second, false);
        assert!(!closed.known().is_closed());
    }

    #[test]
    fn a_refusal_that_is_older_than_the_end_of_the_semaphore_closes_no_later_one() {
        let closed = ClosedForAll::default();
        let first = closed.known();
        closed.reopen();
        closed.learn(first, true);
        assert!(!closed.known().is_closed());
        let second = closed.known();
        closed.learn(second, true);
        assert!(closed.known().is_closed());
        closed.reopen();
        closed.learn(second, true);
        assert!(!closed.known().is_closed());
    }
}
