//! One event, and what it asks the shell to do.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Claim, Convert, Instant, Renew};

use super::super::lease::Lease;
use crate::error::LeaseLost;

/// A request to the store. The shell reports the answer of each, except of `Forget` and `Unwatch`.
#[derive(Clone, Debug)]
pub(in super::super) enum Op {
    /// Ask for a lease.
    Attempt(Acquire),
    /// Renew a lease. The answer may take this long.
    Renew(Renew, Duration),
    /// Convert a lease to another mode. The answer may take this long.
    Convert(Convert, Duration),
    /// Release a claim that no longer matters to the machine.
    Forget(Claim),
    Watch,
    Unwatch,
}

/// When a machine has something to do, if no event comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// It renews a lease or keeps a place. Both may happen earlier, by the
    /// [window](super::renewal_window).
    pub(crate) flexible: bool,
}

/// The time of an event, and what the event asks for. The shell carries that out after it has unlocked the machine.
///
/// A waker that the machine lets go of comes out here as well: its drop is foreign code, which may want the lock.
#[derive(Debug)]
pub(in super::super) struct Pass<W> {
    pub(in super::super) now: Instant,
    wake: Option<W>,
    more: Vec<W>,
    dropped: Vec<W>,
    lost: Vec<(Arc<Lease>, LeaseLost)>,
    /// The request for a lease. Most passes ask for nothing else, and so take no memory.
    attempt: Option<Acquire>,
    pub(super) ops: Vec<Op>,
}

impl<W> Pass<W> {
    pub(in super::super) fn at(now: Instant) -> Self {
        let (wake, more, dropped) = (None, Vec::new(), Vec::new());
        Self { now, wake, more, dropped, lost: Vec::new(), attempt: None, ops: Vec::new() }
    }

    pub(super) fn wake(&mut self, waker: Option<W>) {
        match (&self.wake, waker) {
            (None, waker) => self.wake = waker,
            (Some(_), Some(waker)) => self.more.push(waker),
            (Some(_), None) => {}
        }
    }

    /// Lets go of a waker whose waiter has left.
    pub(in super::super) fn discard(&mut self, waker: Option<W>) {
        self.dropped.extend(waker);
    }

    pub(super) fn lose(&mut self, lease: Arc<Lease>, loss: LeaseLost) {
        self.lost.push((lease, loss));
    }

    /// Asks for a lease.
    pub(super) fn attempt(&mut self, request: Acquire) {
        self.ops.extend(self.attempt.replace(request).map(Op::Attempt));
    }

    /// Takes out the request for a lease, for a caller that sends it itself.
    pub(super) fn take_attempt(&mut self) -> Option<Acquire> {
        self.attempt.take()
    }

    #[cfg(test)]
    pub(in super::super) fn asks(&self) -> bool {
        self.attempt.is_some()
    }

    /// Takes all requests.
    pub(in super::super) fn requests(&mut self) -> impl Iterator<Item = Op> {
        self.attempt.take().map(Op::Attempt).into_iter().chain(std::mem::take(&mut self.ops))
    }

    /// Announces losses, then wakes waiters.
    pub(in super::super) fn wake_all(&mut self, wake: impl Fn(W), announced: impl Fn(LeaseLost)) {
        for (lease, loss) in std::mem::take(&mut self.lost) {
            lease.announce();
            announced(loss);
        }
        if let Some(first) = self.wake.take() {
            wake(first);
        }
        for waker in std::mem::take(&mut self.more) {
            wake(waker);
        }
    }

    /// The wakers to be dropped.
    pub(in super::super) fn dropped(&mut self) -> Vec<W> {
        std::mem::take(&mut self.dropped)
    }
}
