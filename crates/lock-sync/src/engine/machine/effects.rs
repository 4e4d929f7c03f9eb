//! What events ask for.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Claim, Instant, Renew};

use super::super::lease::Lease;
use crate::error::LeaseLost;

/// Something to be done on the store. Each is reported back when it is done.
#[derive(Clone, Debug)]
pub(in super::super) enum Op {
    Attempt(Acquire),
    /// With how long its answer may take.
    Renew(Renew, Duration),
    /// Convert a lease to a weaker mode, with how long the answer may take.
    Convert(Acquire, Duration),
    /// Take the claim with [`begin_release`](super::Machine::begin_release) and release it.
    Release {
        /// Somebody elsewhere waits for it.
        urgent: bool,
    },
    /// Release a claim that no longer matters to the machine.
    Forget(Claim),
    Watch,
    Unwatch,
}

/// When a machine wants to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// It is to renew a lease or to keep a place. That may happen earlier by the
    /// [window](super::renewal_window).
    pub(crate) flexible: bool,
}

/// What an event asks for, to be done after the machine was unlocked.
#[derive(Debug)]
pub(in super::super) struct Effects<W> {
    wake: Option<W>,
    more: Vec<W>,
    lost: Vec<(Arc<Lease>, LeaseLost)>,
    pub(in super::super) ops: Vec<Op>,
}

impl<W> Effects<W> {
    pub(in super::super) fn new() -> Self {
        Self { wake: None, more: Vec::new(), lost: Vec::new(), ops: Vec::new() }
    }

    pub(super) fn wake(&mut self, waker: Option<W>) {
        match (&self.wake, waker) {
            (None, waker) => self.wake = waker,
            (Some(_), Some(waker)) => self.more.push(waker),
            (Some(_), None) => {}
        }
    }

    pub(super) fn lose(&mut self, lease: Arc<Lease>, loss: LeaseLost) {
        self.lost.push((lease, loss));
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
}
