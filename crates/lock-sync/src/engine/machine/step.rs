//! What a plan consists of: one step that is due, and the instants at which others fall due.

use std::time::Duration;

use lock_core::Instant;

use super::Deadline;
use crate::error::LossReason;

/// One step that brings a seat nearer to what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask the store for the claim. `insists`: the waiter has waited for so long that it wants a place in
    /// any case.
    Ask { insists: bool },
    /// Let go of a claim that no waiter here needs.
    Drop,
    /// The lease is over.
    Lose(LossReason),
    /// One holder has held for too long.
    EndHold,
    /// Return the lease to the store.
    GiveUp,
    /// Have the store make the lease weaker.
    Weaken { hurried: bool },
    /// Ask the store for the conversion under way, first or again.
    Convert,
    /// Have the store make the lease exclusive.
    Strengthen,
    /// The lease is exclusive and has one holder, which wants that: the upgrade is done.
    GrantUpgrade,
    /// The upgrade would wait for other holders, and its caller does not wait.
    RefuseUpgrade,
    /// Renew the lease, and ask for tokens if there are few.
    Renew,
    /// The same, for the token that an upgrade lacks.
    Stock,
    /// A failed release is due again.
    ReleaseAgain,
    /// The release has been under way for the rest of the lease.
    LookAfterRelease,
    /// The last guard of a lost lease has gone.
    Clear,
}

/// What is due, and when to look again.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) now: Instant,
    /// How much earlier a flexible step may be taken.
    window: Duration,
    pub(super) step: Option<Step>,
    exact: Instant,
    flexible: Instant,
}

impl Plan {
    pub(super) fn new(now: Instant, window: Duration) -> Self {
        let never = Instant::FAR_FUTURE;
        Self { now, window, step: None, exact: never, flexible: never }
    }

    /// A step for this instant. Of several that are due the first counts.
    #[inline]
    pub(super) fn at(&mut self, at: Instant, step: Step) {
        if at <= self.now {
            self.step.get_or_insert(step);
        } else {
            self.wake(at);
        }
    }

    /// The same. If `relaxed`, the step may be a little earlier.
    #[inline]
    pub(super) fn about(&mut self, at: Instant, relaxed: bool, step: Step) {
        if relaxed && self.now + self.window < at {
            self.flexible = self.flexible.min(at);
        } else if relaxed {
            self.step.get_or_insert(step);
        } else {
            self.at(at, step);
        }
    }

    #[inline]
    pub(super) fn do_now(&mut self, step: Step) {
        self.step.get_or_insert(step);
    }

    /// There is something to look at by then.
    #[inline]
    pub(super) fn wake(&mut self, at: Instant) {
        self.exact = self.exact.min(at);
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let at = self.exact.min(self.flexible);
        let flexible = self.flexible < self.exact;
        (at < Instant::FAR_FUTURE).then_some(Deadline { at, flexible })
    }
}
