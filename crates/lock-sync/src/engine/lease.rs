//! The lease as its holders in this process see it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Clock, Instant};

use crate::error::{LeaseLost, LossReason};
use crate::foreign::Bell;

/// The lease as its holders see it: a deadline that renewals move, and an end that is final.
///
/// Only the clock and these fields decide whether the lease is valid. The decision is right even if the driver, a
/// timer or a message is late.
#[derive(Debug)]
pub(crate) struct Lease {
    clock: Clock,
    /// The deadline in nanoseconds on `clock`.
    deadline: AtomicU64,
    /// Whether the lease is lost, at its deadline or before.
    ended: AtomicBool,
    losses: Mutex<Losses>,
    lost: Bell,
}

/// The losses of single holds, by serial number. A lease may outlive many holds.
#[derive(Debug, Default)]
struct Losses {
    /// The holds that lost the lease.
    lost: BTreeMap<u64, Loss>,
    /// How many futures wait for the loss of a hold.
    awaited: BTreeMap<u64, usize>,
}

#[derive(Debug)]
struct Loss {
    reason: LossReason,
    /// Whether the guard is gone: then only futures may still ask for the reason.
    gone: bool,
}

impl Lease {
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

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Moves the deadline. Only the machine calls this, and never after [`end`](Self::end).
    pub(super) fn extend(&self, valid_until: Instant) {
        self.deadline.fetch_max(valid_until.as_nanos(), Ordering::AcqRel);
    }

    /// Declares the whole lease lost, with a reason for these holds. The caller must call
    /// [`announce`](Self::announce) after it has unlocked the entry.
    pub(super) fn end(&self, holds: impl IntoIterator<Item = u64>, reason: LossReason) {
        self.end_for(holds, reason);
        self.ended.store(true, Ordering::Release);
    }

    /// Declares the lease lost for these holds alone.
    pub(super) fn end_for(&self, holds: impl IntoIterator<Item = u64>, reason: LossReason) {
        let loss = |hold| (hold, Loss { reason, gone: false });
        self.losses().lost.extend(holds.into_iter().map(loss));
    }

    pub(super) fn announce(&self) {
        self.lost.ring();
    }

    /// The guard of a hold that lost the lease is gone.
    pub(super) fn leave(&self, hold: u64) {
        let mut losses = self.losses();
        if let Some(loss) = losses.lost.get_mut(&hold) {
            loss.gone = true;
        }
        losses.forget_unless_awaited(hold);
    }

    /// The reason why this hold has lost the lease, if it has and the machine has noticed.
    pub(crate) fn loss(&self, hold: u64) -> Option<LeaseLost> {
        self.losses().lost.get(&hold).map(|loss| LeaseLost::new(loss.reason))
    }

    /// How many losses the lease remembers.
    #[cfg(test)]
    pub(super) fn known_losses(&self) -> usize {
        self.losses().lost.len()
    }

    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Losses {
    fn forget_unless_awaited(&mut self, hold: u64) {
        let gone = self.lost.get(&hold).is_some_and(|loss| loss.gone);
        if gone && !self.awaited.contains_key(&hold) {
            self.lost.remove(&hold);
        }
    }
}

/// A wait for the loss of one hold. It may outlive the guard, so the lease remembers the loss for it.
#[derive(Debug)]
pub(crate) struct Losing {
    lease: Arc<Lease>,
    hold: u64,
}

impl Losing {
    /// For a hold whose guard is alive.
    pub(crate) fn new(lease: Arc<Lease>, hold: u64) -> Self {
        *lease.losses().awaited.entry(hold).or_default() += 1;
        Self { lease, hold }
    }

    /// Waits until this hold has lost the lease. Waits for ever if the hold is given up first.
    pub(crate) async fn wait(&self) -> LeaseLost {
        loop {
            let lost = self.lease.lost.listen();
            if let Some(lost) = self.lease.loss(self.hold) {
                return lost;
            }
            lost.await;
        }
    }
}

impl Drop for Losing {
    fn drop(&mut self) {
        let mut losses = self.lease.losses();
        if let Some(waiting) = losses.awaited.get_mut(&self.hold) {
            *waiting -= 1;
            if *waiting == 0 {
                losses.awaited.remove(&self.hold);
            }
        }
        losses.forget_unless_awaited(self.hold);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    fn lease() -> Arc<Lease> {
        let clock = Clock::boot();
        Arc::new(Lease::new(clock, clock.now() + Duration::from_secs(3600)))
    }

    #[test]
    fn a_lease_forgets_the_losses_of_guards_that_are_gone() {
        let lease = lease();
        for hold in 1..=1000 {
            lease.end_for([hold], LossReason::HeldTooLong);
            assert!(lease.loss(hold).is_some());
            lease.leave(hold);
        }
        assert_eq!(lease.known_losses(), 0);
    }

    #[test]
    fn a_future_that_outlives_its_guard_hears_of_the_loss() {
        let lease = lease();
        let (one, two) = (Losing::new(Arc::clone(&lease), 7), Losing::new(Arc::clone(&lease), 7));
        lease.end_for([7], LossReason::HeldTooLong);
        lease.leave(7);
        drop(one);
        let lost = two.wait().now_or_never();
        assert_eq!(lost.map(|lost| lost.reason()), Some(LossReason::HeldTooLong));
        drop(two);
        assert_eq!(lease.known_losses(), 0);
    }
}
