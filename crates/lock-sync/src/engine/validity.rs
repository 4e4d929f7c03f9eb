//! Until when a lease is valid, as its holders in this process see it.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use lock_core::{Clock, Instant};

use crate::error::{LeaseLost, LossReason};
use crate::foreign::{Bell, Listening};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard, now};

/// The lease as its holders see it: a deadline that renewals move, and an end that is final.
///
/// Only the clock and these fields decide whether the lease is valid. The decision is right even if the driver, a
/// timer or a message is late.
#[derive(Debug)]
pub(crate) struct Validity {
    clock: Clock,
    /// The deadline in nanoseconds on `clock`.
    deadline: AtomicU64,
    /// Whether the lease is lost, at its deadline or before.
    ended: AtomicBool,
    /// The holds that lost the lease and whose guards live, by serial number. A lease may outlive many holds.
    losses: Mutex<BTreeMap<u64, LossReason>>,
    lost: Bell,
}

impl Validity {
    pub(super) fn new(clock: Clock, valid_until: Instant) -> Self {
        Self {
            clock,
            deadline: AtomicU64::new(valid_until.as_nanos()),
            ended: AtomicBool::new(false),
            losses: Mutex::default(),
            lost: Bell::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Whether the lease is valid at this instant. A lease that was not valid once is never valid again: the first call
    /// after the deadline makes the end final, so a renewal that comes too late has no effect.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        if self.ended.load(Ordering::Acquire) {
            return false;
        }
        let valid = now < self.deadline();
        if !valid {
            self.ended.store(true, Ordering::Release);
        }
        valid
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn now(&self) -> Instant {
        now(self.clock)
    }

    /// Whether this hold, which ends at `until` at the latest, has the lease at this instant.
    pub(crate) fn check(&self, hold: u64, until: Instant, now: Instant) -> Result<(), LeaseLost> {
        if self.is_valid(now) && now < until {
            return Ok(());
        }
        // The machine may not have noticed yet.
        let unnoticed =
            if until <= self.deadline() { LossReason::HeldTooLong } else { LossReason::Expired };
        Err(self.loss(hold).unwrap_or(LeaseLost::new(unnoticed)))
    }

    /// Becomes the next lease. Only if no holder refers to the former lease. Its handles know that their guards
    /// have gone, and look at it no more.
    pub(super) fn restart(&self, valid_until: Instant) {
        // Whatever the holders of the former lease have noted comes before.
        fence(Ordering::Acquire);
        self.losses().clear();
        self.deadline.store(valid_until.as_nanos(), Ordering::Release);
        self.ended.store(false, Ordering::Release);
    }

    /// Moves the deadline. Only the machine calls this. A lease that is over stays over: a guard that has reported the
    /// loss must not become valid again.
    pub(super) fn extend(&self, valid_until: Instant, now: Instant) {
        if self.is_valid(now) {
            self.deadline.fetch_max(valid_until.as_nanos(), Ordering::AcqRel);
        }
    }

    /// Declares the whole lease lost, with a reason for these holds. The caller must call
    /// [`announce`](Self::announce) after it has unlocked the entry.
    pub(super) fn end(&self, holds: impl IntoIterator<Item = u64>, reason: LossReason) {
        self.end_for(holds, reason);
        self.ended.store(true, Ordering::Release);
    }

    /// Declares the lease lost for these holds alone.
    pub(super) fn end_for(&self, holds: impl IntoIterator<Item = u64>, reason: LossReason) {
        self.losses().extend(holds.into_iter().map(|hold| (hold, reason)));
    }

    pub(super) fn announce(&self) {
        self.lost.ring();
    }

    /// Listens for the next announcement.
    pub(super) fn listen(&self) -> Listening<'_> {
        self.lost.listen()
    }

    /// The guard of a hold that lost the lease is gone.
    pub(super) fn leave(&self, hold: u64) {
        self.losses().remove(&hold);
    }

    /// The reason why this hold has lost the lease, if it has and the machine has noticed.
    pub(crate) fn loss(&self, hold: u64) -> Option<LeaseLost> {
        self.losses().get(&hold).copied().map(LeaseLost::new)
    }

    /// How many losses the lease remembers.
    #[cfg(test)]
    pub(super) fn known_losses(&self) -> usize {
        self.losses().len()
    }

    fn losses(&self) -> MutexGuard<'_, BTreeMap<u64, LossReason>> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_drops_the_losses_of_guards_that_are_gone() {
        let clock = Clock::boot();
        let lease = Validity::new(clock, clock.now() + Duration::from_secs(3600));
        for hold in 1..=1000 {
            lease.end_for([hold], LossReason::HeldTooLong);
            assert!(lease.loss(hold).is_some());
            lease.leave(hold);
        }
        assert_eq!(lease.known_losses(), 0);
    }
}
