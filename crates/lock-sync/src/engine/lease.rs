//! The lease that successive holders in this process share.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lock_core::{Clock, Instant};
use tokio::sync::Notify;

use crate::error::{LeaseLost, LossReason};

/// What the store granted, as its holders see it: a deadline that renewals move, and an end that is
/// final.
///
/// The answer to "is it still mine?" comes from the clock and these fields alone. No driver, timer
/// or message has to be on time for it to be true.
#[derive(Debug)]
pub(crate) struct Lease {
    clock: Clock,
    /// The deadline in nanoseconds on `clock`.
    deadline: AtomicU64,
    /// Whether it is lost, before its deadline or at it.
    ended: AtomicBool,
    /// Which holds lost it, and why.
    losses: Mutex<Vec<(u64, LossReason)>>,
    lost: Notify,
}

impl Lease {
    pub(super) fn new(clock: Clock, valid_until: Instant) -> Self {
        Self {
            clock,
            deadline: AtomicU64::new(valid_until.as_nanos()),
            ended: AtomicBool::new(false),
            losses: Mutex::default(),
            lost: Notify::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Whether it is held at this instant. Once it was not, it never is again: whoever sees that the
    /// deadline has passed makes it final, so that a renewal that comes too late moves nothing back.
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

    /// Moves the deadline. Only the machine calls it, and never after [`end`](Self::end).
    pub(super) fn extend(&self, valid_until: Instant) {
        self.deadline.fetch_max(valid_until.as_nanos(), Ordering::AcqRel);
    }

    /// Declares the lease lost by these holds, and by whoever else may have it. Whoever calls it calls
    /// [`announce`](Self::announce) once no engine lock is held.
    pub(super) fn end(&self, holds: impl IntoIterator<Item = u64>, reason: LossReason) {
        self.end_for(holds, reason);
        self.ended.store(true, Ordering::Release);
    }

    /// Declares the lease lost by these holds alone.
    pub(super) fn end_for(&self, holds: impl IntoIterator<Item = u64>, reason: LossReason) {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses.extend(holds.into_iter().map(|hold| (hold, reason)));
    }

    pub(super) fn announce(&self) {
        self.lost.notify_waiters();
    }

    /// Why the lease is lost to this hold, if it is and the machine has noticed.
    pub(crate) fn loss(&self, hold: u64) -> Option<LeaseLost> {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let loss = losses.iter().find(|(loser, _)| *loser == hold);
        loss.map(|(_, reason)| LeaseLost::new(*reason))
    }

    /// Waits until the lease is lost to this hold; for ever if it was given up first.
    pub(crate) async fn wait_lost(&self, hold: u64) -> LeaseLost {
        loop {
            let notified = self.lost.notified();
            if let Some(lost) = self.loss(hold) {
                return lost;
            }
            notified.await;
        }
    }
}
