//! The waiters for a key, in order.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use super::leases::Leases;
use super::visit::Visit;
use crate::{Acquire, Claim, Error, ErrorKind, Instant, Mode, OwnerToken, Ttl};

/// The queue of one key.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Slot>);

/// One place in the queue: a request that is kept as long as its owner repeats it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) owner: OwnerToken,
    pub(super) mode: Mode,
    pub(super) from: Option<Mode>,
    pub(super) ttl: Ttl,
    pub(super) tokens: NonZeroU32,
    /// Whether the grant is to bring the value beside the lock.
    pub(super) value: bool,
    ends: Instant,
    pub(super) client: Arc<Connection>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }

    pub(super) fn first(&self) -> Option<&Slot> {
        self.0.front()
    }

    pub(super) fn take_first(&mut self) -> Option<Slot> {
        self.0.pop_front()
    }

    /// Takes the first place for a lease in this mode, at any position in the queue.
    pub(super) fn take_first_of(&mut self, mode: Mode, now: Instant) -> Option<Slot> {
        let index = self.0.iter().position(|slot| slot.mode == mode && slot.ends > now)?;
        self.0.remove(index)
    }

    /// Keeps or makes a place for a refused request. Returns whether the place is new.
    ///
    /// A new place is at the end of the queue. The place of a conversion is at the head, because the others wait
    /// for the lease that it converts. A conversion names its present mode in `from`.
    pub(super) fn join(
        &mut self,
        request: &Acquire,
        from: Option<Mode>,
        visit: &Visit<'_>,
        limit: NonZeroU32,
    ) -> Result<bool, Error> {
        let place = self.0.iter().position(|slot| slot.is_of(&request.claim));
        let slot = Slot::new(request, from, visit);
        if let Some(kept) = place.and_then(|index| self.0.get_mut(index))
            && kept.from == slot.from
        {
            *kept = slot;
            return Ok(false);
        }
        if let Some(index) = place {
            self.0.remove(index);
        }
        let limit = limit.get() as usize;
        if self.0.len() >= limit {
            self.drop_lapsed(visit.now);
        }
        if self.0.len() >= limit {
            return Err(Error::new(
                ErrorKind::QueueFull,
                format!("the queue for this key is full: {limit} requests wait already"),
            ));
        }
        if slot.from.is_some() {
            self.0.push_front(slot);
        } else {
            self.0.push_back(slot);
        }
        Ok(true)
    }

    /// Gives up a place, if the claim has one.
    pub(super) fn leave(&mut self, claim: &Claim) {
        if let Some(index) = self.0.iter().position(|slot| slot.is_of(claim)) {
            self.0.remove(index);
        }
    }

    /// Gives up the place of a conversion, if it has one.
    pub(super) fn leave_conversion(&mut self, claim: &Claim, from: Mode) -> bool {
        let is_it = |slot: &Slot| slot.is_of(claim) && slot.from == Some(from);
        let place = self.0.iter().position(is_it);
        place.and_then(|index| self.0.remove(index)).is_some()
    }

    /// Drops dead places from the head of the queue: places that were not kept, and conversions of leases
    /// that are over.
    ///
    /// Each place is dropped once, so the request that made it has paid for this.
    pub(super) fn drop_dead_heads(&mut self, leases: &Leases, now: Instant) {
        while self.0.front().is_some_and(|slot| slot.is_dead(leases, now)) {
            self.0.pop_front();
        }
    }

    /// Drops all places that were not kept.
    pub(super) fn drop_lapsed(&mut self, now: Instant) {
        self.0.retain(|slot| slot.ends > now);
    }

    /// Drops all places of requests for permits.
    pub(super) fn drop_counting(&mut self) {
        self.0.retain(|slot| !slot.mode.counts());
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Slot {
    fn new(request: &Acquire, from: Option<Mode>, visit: &Visit<'_>) -> Self {
        Self {
            owner: request.claim.owner,
            mode: request.claim.mode,
            from,
            ttl: request.ttl,
            tokens: request.tokens,
            value: request.value,
            ends: visit.now + request.ttl.for_place().duration(),
            client: Arc::clone(visit.client),
        }
    }

    pub(super) fn is_of(&self, claim: &Claim) -> bool {
        self.owner == claim.owner && self.mode == claim.mode
    }

    /// How long the place is kept unless its request is repeated.
    pub(super) fn remaining(&self, now: Instant) -> Duration {
        self.ends.saturating_duration_since(now)
    }

    fn is_dead(&self, leases: &Leases, now: Instant) -> bool {
        self.ends <= now || self.from.is_some_and(|from| !leases.has(self.owner, from))
    }
}
