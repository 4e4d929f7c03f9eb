//! What a hold shares with the handles of its lease.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::select;
use lock_core::{Clock, FencingToken, Instant, Key, Ttl};

use super::observed::Told;
use super::right::Right;
use super::validity::Validity;
use super::{Asks, Entry, HoldId};
use crate::error::{LeaseLost, LossReason};
use crate::foreign::Bell;
use crate::sync::atomic::{AtomicU64, Ordering};

/// One hold, as handles see it that may outlive its guard. It is made for the first handle or for observers, and keeps
/// neither the lock nor the lease.
#[derive(Debug)]
pub(crate) struct HoldView {
    key: Key,
    hold: HoldId,
    clock: Clock,
    /// The guard keeps the lease and the entry alive. Once the guard has gone, the lease may be in use for another
    /// grant.
    lease: Weak<Validity>,
    entry: Weak<Entry>,
    /// The end of the maximum hold.
    hold_until: Instant,
    /// The present token: an upgrade brings a higher one.
    token: AtomicU64,
    /// Why the guard has no lease any more, and when the guard gave it up.
    end: OnceLock<(LeaseLost, Instant)>,
    /// Rings when the guard gives the lease up.
    given_up: Bell,
    /// What observers have heard of the hold, if they have.
    told: Option<Told>,
}

impl HoldView {
    pub(super) fn new(
        entry: &Arc<Entry>,
        right: &Right,
        lease: &Arc<Validity>,
        told: Option<Told>,
    ) -> Self {
        let Right { hold, token, until: hold_until, .. } = *right;
        Self {
            key: entry.key.clone(),
            hold,
            clock: lease.clock(),
            lease: Arc::downgrade(lease),
            entry: Arc::downgrade(entry),
            hold_until,
            token: AtomicU64::new(token.get()),
            end: OnceLock::new(),
            given_up: Bell::default(),
            told,
        }
    }

    /// What observers have heard of the hold, if they have.
    pub(super) fn told(&self) -> Option<Told> {
        self.told
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn fencing_token(&self) -> FencingToken {
        FencingToken::new(self.token.load(Ordering::Acquire))
    }

    /// The hold has another token from now on.
    pub(super) fn set_token(&self, token: FencingToken) {
        self.token.store(token.get(), Ordering::Release);
    }

    /// The guard gives the lease up. Must be called before another holder can have the lease.
    pub(super) fn give_up(&self) {
        let now = self.clock.now();
        let why = self.check_lease(now).err().unwrap_or(LeaseLost::new(LossReason::Released));
        if self.end.set((why, self.lease_until().min(now))).is_ok() {
            self.given_up.ring();
        }
    }

    pub(crate) fn check(&self) -> Result<(), LeaseLost> {
        let checked = self.check_lease(self.clock.now());
        // In this order: the lease may be in use for another grant, and then this guard has given it up.
        self.end.get().map_or(checked, |(why, _)| Err(*why))
    }

    /// Whether the hold has its lease at this instant, unless the guard has given it up.
    fn check_lease(&self, now: Instant) -> Result<(), LeaseLost> {
        let lease = self.lease.upgrade().ok_or(LeaseLost::new(LossReason::Released))?;
        lease.check(self.hold.serial(), self.hold_until, now)
    }

    pub(crate) fn valid_until(&self) -> Instant {
        let until = self.lease_until();
        self.end.get().map_or(until, |(_, until)| *until)
    }

    /// The instant at which the hold ends unless the lease is renewed or the guard has given it up.
    fn lease_until(&self) -> Instant {
        self.lease.upgrade().map_or(self.hold_until, |lease| lease.deadline().min(self.hold_until))
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.check() {
            Ok(()) => self.valid_until().saturating_duration_since(self.clock.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// Renews the lease if it ends earlier than in this time, and waits until the store has confirmed that or the lease
    /// is over.
    pub(crate) async fn extend(&self, ttl: Ttl) -> Result<(), LeaseLost> {
        self.check()?;
        let hold = self.hold;
        if let Some(entry) = self.entry.upgrade()
            && let Some(until) = entry.event(|machine| machine.extend(hold, ttl))
        {
            entry.extended(hold, until).await;
        }
        self.check()
    }

    /// Waits until the lease is lost, or the guard gives it up.
    pub(crate) async fn over(&self) -> LeaseLost {
        let Some(lease) = self.lease.upgrade() else {
            return self.check().err().unwrap_or(LeaseLost::new(LossReason::Released));
        };
        loop {
            let news = select(lease.listen(), self.given_up.listen());
            if let Err(lost) = self.check() {
                return lost;
            }
            news.await;
        }
    }
}
