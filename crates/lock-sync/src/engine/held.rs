//! What a hold shares with the handles of its lease.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::select;
use lock_core::{FencingToken, Instant, Key};

use super::Ticket;
use crate::error::{LeaseLost, LossReason};
use crate::foreign::Bell;

/// One hold, as handles see it that may outlive its guard. It is made for the first handle, and keeps neither the
/// lock nor the lease.
#[derive(Debug)]
pub(crate) struct Held {
    key: Key,
    ticket: Ticket,
    /// The present token: an upgrade brings a higher one.
    token: AtomicU64,
    /// Why the guard has no lease any more, and when the guard gave it up.
    end: OnceLock<(LeaseLost, Instant)>,
    /// Rings when the guard gives the lease up.
    given_up: Bell,
}

impl Held {
    pub(super) fn new(key: Key, ticket: Ticket) -> Self {
        let token = AtomicU64::new(ticket.token.get());
        Self { key, ticket, token, end: OnceLock::new(), given_up: Bell::default() }
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
        let why = self.ticket.check().err().unwrap_or(LeaseLost::new(LossReason::Released));
        let until = self.ticket.valid_until().min(self.ticket.lease.now());
        if self.end.set((why, until)).is_ok() {
            self.given_up.ring();
        }
    }

    pub(crate) fn check(&self) -> Result<(), LeaseLost> {
        let checked = self.ticket.check();
        // In this order: the next holder may have the lease, and then this guard has given it up.
        self.end.get().map_or(checked, |(why, _)| Err(*why))
    }

    pub(crate) fn valid_until(&self) -> Instant {
        let until = self.ticket.valid_until();
        self.end.get().map_or(until, |(_, until)| *until)
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.check() {
            Ok(()) => self.valid_until().saturating_duration_since(self.ticket.lease.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// Waits until the lease is lost, or the guard gives it up.
    pub(crate) async fn over(&self) -> LeaseLost {
        loop {
            let news = select(self.ticket.lease.listen(), self.given_up.listen());
            if let Err(lost) = self.check() {
                return lost;
            }
            news.await;
        }
    }
}
