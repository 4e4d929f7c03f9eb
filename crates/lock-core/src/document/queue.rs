//! The waiters for a key, in order.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use super::leases::Leases;
use super::visit::{Party, Visit};
use crate::{Acquire, Claim, Error, ErrorKind, Instant, Mode, OwnerToken, Ttl};

/// The queue of one key.
#[derive(Debug)]
pub(crate) struct Queue<P>(pub(crate) VecDeque<Slot<P>>);

impl<P> Default for Queue<P> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

/// One place in the queue: a request, kept as long as its owner repeats it.
#[derive(Debug)]
pub(crate) struct Slot<P> {
    pub(crate) owner: OwnerToken,
    pub(crate) mode: Mode,
    pub(crate) from: Option<Mode>,
    pub(crate) ttl: Ttl,
    pub(crate) tokens: NonZeroU32,
    /// Whether the grant carries the value beside the lock.
    pub(crate) value: bool,
    pub(crate) ends: Instant,
    /// When the request joined the queue, if that is known.
    pub(crate) joined: Option<Instant>,
    pub(crate) client: P,
}

impl<P: Party> Queue<P> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot<P>> {
        self.0.iter()
    }

    pub(crate) fn first(&self) -> Option<&Slot<P>> {
        self.0.front()
    }

    pub(crate) fn take_first(&mut self) -> Option<Slot<P>> {
        self.0.pop_front()
    }

    /// Takes the first place for a lease in this mode, at any position in the queue.
    pub(crate) fn take_first_of(&mut self, mode: Mode, now: Instant) -> Option<Slot<P>> {
        let index = self.0.iter().position(|slot| slot.mode == mode && slot.ends > now)?;
        self.0.remove(index)
    }

    /// Keeps or makes a place for a refused request. Returns whether the place is new.
    ///
    /// A new place is at the end of the queue. The place of a conversion is at the head, because the other
    /// claims wait for the lease that the conversion changes. A conversion names its present mode in `from`.
    pub(crate) fn join(
        &mut self,
        request: &Acquire,
        from: Option<Mode>,
        visit: &Visit<'_, P>,
    ) -> Result<bool, Error> {
        let place = self.0.iter().position(|slot| slot.is_of(&request.claim));
        let mut slot = Slot::new(request, from, visit);
        if let Some(kept) = place.and_then(|index| self.0.get_mut(index))
            && kept.from == slot.from
        {
            slot.joined = kept.joined;
            *kept = slot;
            return Ok(false);
        }
        if let Some(index) = place {
            self.0.remove(index);
        }
        let limit = visit.limit.get() as usize;
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
    pub(crate) fn leave(&mut self, claim: &Claim) {
        if let Some(index) = self.0.iter().position(|slot| slot.is_of(claim)) {
            self.0.remove(index);
        }
    }

    /// Gives up the place of a conversion, if it has one.
    pub(crate) fn leave_conversion(&mut self, claim: &Claim, from: Mode) -> bool {
        let is_it = |slot: &Slot<P>| slot.is_of(claim) && slot.from == Some(from);
        let place = self.0.iter().position(is_it);
        place.and_then(|index| self.0.remove(index)).is_some()
    }

    /// The lease of a holder belongs to this client now, and so does the place of its conversion.
    pub(crate) fn follow(&mut self, owner: OwnerToken, from: Mode, client: &P) {
        let is_it = |slot: &&mut Slot<P>| slot.owner == owner && slot.from == Some(from);
        for slot in self.0.iter_mut().filter(is_it) {
            slot.client.clone_from(client);
        }
    }

    /// Drops dead places from the head of the queue: places that were not kept, and conversions of leases
    /// that are over.
    ///
    /// Each place is dropped once, so the work for one place is bounded by the request that made
    /// the place.
    pub(crate) fn drop_dead_heads(&mut self, leases: &Leases<P>, now: Instant) {
        while self.0.front().is_some_and(|slot| slot.is_dead(leases, now)) {
            self.0.pop_front();
        }
    }

    /// Drops all places that were not kept.
    pub(crate) fn drop_lapsed(&mut self, now: Instant) {
        self.0.retain(|slot| slot.ends > now);
    }

    /// Drops all places of requests for permits.
    pub(crate) fn drop_counting(&mut self) {
        self.0.retain(|slot| !slot.mode.counts());
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl<P: Party> Slot<P> {
    fn new(request: &Acquire, from: Option<Mode>, visit: &Visit<'_, P>) -> Self {
        Self {
            owner: request.claim.owner,
            mode: request.claim.mode,
            from,
            ttl: request.ttl,
            tokens: request.tokens,
            value: request.value,
            ends: visit.now + request.ttl.for_place().duration(),
            joined: Some(visit.now),
            client: visit.waiter.clone(),
        }
    }

    pub(crate) fn is_of(&self, claim: &Claim) -> bool {
        self.owner == claim.owner && self.mode == claim.mode
    }

    /// How long the place is kept unless its request is repeated.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.ends.saturating_duration_since(now)
    }

    /// How long the request has been in the queue, if that is known.
    pub(crate) fn waited(&self, now: Instant) -> Option<Duration> {
        self.joined.map(|joined| now.saturating_duration_since(joined))
    }

    fn is_dead(&self, leases: &Leases<P>, now: Instant) -> bool {
        self.ends <= now || self.from.is_some_and(|from| !leases.has(self.owner, from))
    }
}
