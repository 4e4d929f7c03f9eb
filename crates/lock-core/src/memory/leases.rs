//! The leases on a key.

use std::sync::Arc;

use super::connection::Connection;
use super::visit::Visit;
use crate::{Grant, Instant, Mode, OwnerToken, TokenRange, Ttl};

/// The leases on one key, in no particular order.
#[derive(Debug, Default)]
pub(super) struct Leases(Vec<Lease>);

/// One lease. Owner and mode together name it, as in a [`Claim`](crate::Claim).
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) owner: OwnerToken,
    pub(super) mode: Mode,
    pub(super) tokens: TokenRange,
    pub(super) ttl: Ttl,
    pub(super) ends: Instant,
    /// The client that last spoke for the lease. The store tells this client when other claims want the key.
    pub(super) client: Arc<Connection>,
}

impl Leases {
    pub(super) fn as_slice(&self) -> &[Lease] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the only lease is one that could be upgraded now.
    pub(super) fn can_be_upgraded(&self) -> bool {
        matches!(&self.0[..], [lease] if lease.mode == Mode::Upgradable)
    }

    /// The mode of the group that holds the key together, and the tokens of all its members.
    pub(super) fn group(&self) -> Option<(Mode, TokenRange)> {
        let first = self.0.first().filter(|lease| lease.mode.is_joint())?;
        Some((first.mode, first.tokens))
    }

    pub(super) fn add(&mut self, lease: Lease) {
        self.0.push(lease);
    }

    pub(super) fn find(&mut self, owner: OwnerToken, mode: Mode) -> Option<&mut Lease> {
        self.0.iter_mut().find(|lease| lease.owner == owner && lease.mode == mode)
    }

    pub(super) fn has(&self, owner: OwnerToken, mode: Mode) -> bool {
        self.0.iter().any(|lease| lease.owner == owner && lease.mode == mode)
    }

    /// Ends a lease. Returns whether there was one.
    pub(super) fn remove(&mut self, owner: OwnerToken, mode: Mode) -> bool {
        let is_named = |lease: &Lease| lease.owner == owner && lease.mode == mode;
        let Some(index) = self.0.iter().position(is_named) else { return false };
        self.0.swap_remove(index);
        true
    }

    pub(super) fn drop_expired(&mut self, now: Instant) {
        self.0.retain(|lease| lease.ends > now);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn live(&self, now: Instant) -> usize {
        self.0.iter().filter(|lease| lease.ends > now).count()
    }
}

impl Lease {
    /// Extends the lease to `ttl` from now on, if it would end earlier.
    pub(super) fn extend(&mut self, ttl: Ttl, now: Instant) {
        let ends = now + ttl.duration();
        if ends > self.ends {
            self.ends = ends;
            self.ttl = ttl;
        }
    }

    /// Notes which client speaks for the lease.
    pub(super) fn belongs_to(&mut self, client: &Arc<Connection>) {
        if !Arc::ptr_eq(&self.client, client) {
            self.client = Arc::clone(client);
        }
    }

    /// The grant as its owner may rely on it. The time that is left of the lease counts from the sending of the
    /// request, which is not later than now. So the owner's deadline comes before the
    /// store's.
    pub(super) fn grant(&self, visit: &Visit<'_>) -> Grant {
        let left = self.ends.saturating_duration_since(visit.now);
        Grant::new(self.tokens, visit.sent + left.saturating_sub(self.ttl.drift()))
    }
}
