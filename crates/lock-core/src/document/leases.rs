//! The leases on a key.

use super::visit::{Party, Visit};
use crate::{Grant, Instant, Mode, OwnerToken, TokenRange, Ttl};

/// The leases on one key, in no particular order.
#[derive(Debug)]
pub(crate) struct Leases<P>(pub(crate) Vec<Lease<P>>);

impl<P> Default for Leases<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// One lease. Its name is the owner and the mode, as in a [`Claim`](crate::Claim).
#[derive(Debug)]
pub(crate) struct Lease<P> {
    pub(crate) owner: OwnerToken,
    pub(crate) mode: Mode,
    pub(crate) tokens: TokenRange,
    pub(crate) ttl: Ttl,
    pub(crate) ends: Instant,
    /// The client that last spoke for the lease. The store tells this client when other claims want the key.
    pub(crate) client: P,
}

impl<P: Party> Leases<P> {
    pub(crate) fn as_slice(&self) -> &[Lease<P>] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is only one lease, and an upgrade of this lease would succeed now.
    pub(crate) fn can_be_upgraded(&self) -> bool {
        matches!(&self.0[..], [lease] if lease.mode == Mode::Upgradable)
    }

    /// The mode of the group that holds the key together, and the tokens of all its members.
    pub(crate) fn group(&self) -> Option<(Mode, TokenRange)> {
        let first = self.0.first().filter(|lease| lease.mode.is_joint())?;
        Some((first.mode, first.tokens))
    }

    pub(crate) fn add(&mut self, lease: Lease<P>) {
        self.0.push(lease);
    }

    pub(crate) fn find(&mut self, owner: OwnerToken, mode: Mode) -> Option<&mut Lease<P>> {
        self.0.iter_mut().find(|lease| lease.owner == owner && lease.mode == mode)
    }

    pub(crate) fn has(&self, owner: OwnerToken, mode: Mode) -> bool {
        self.0.iter().any(|lease| lease.owner == owner && lease.mode == mode)
    }

    /// Ends a lease. Returns whether there was one.
    pub(crate) fn remove(&mut self, owner: OwnerToken, mode: Mode) -> bool {
        let is_named = |lease: &Lease<P>| lease.owner == owner && lease.mode == mode;
        let Some(index) = self.0.iter().position(is_named) else { return false };
        self.0.swap_remove(index);
        true
    }

    pub(crate) fn drop_expired(&mut self, now: Instant) {
        self.0.retain(|lease| lease.ends > now);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn live(&self, now: Instant) -> usize {
        self.0.iter().filter(|lease| lease.ends > now).count()
    }
}

impl<P: Party> Lease<P> {
    /// Extends the lease to `ttl` from now on, unless it ends later than that.
    pub(crate) fn extend(&mut self, ttl: Ttl, now: Instant) {
        let ends = now + ttl.duration();
        if ends > self.ends {
            self.ends = ends;
            self.ttl = ttl;
        }
    }

    /// Notes which client speaks for the lease.
    pub(crate) fn belongs_to(&mut self, client: &P) {
        self.client.clone_from(client);
    }

    /// The grant for the owner of the lease. It counts the rest of the lease from the sending of the request,
    /// which is not later than now. So the deadline of the owner comes before the deadline of the store.
    pub(crate) fn grant(&self, visit: &Visit<'_, P>) -> Grant {
        let left = self.ends.saturating_duration_since(visit.now);
        Grant::new(self.tokens, visit.sent + left.saturating_sub(self.ttl.drift()))
    }
}
