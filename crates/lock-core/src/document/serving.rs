//! How a key passes to its waiters.

use std::time::Duration;

use super::entry::Document;
use super::leases::Lease;
use super::queue::Slot;
use super::room::{Room, when_alone};
use super::visit::{Audience, Party, Visit};
use crate::{Claim, Contention, Grant, Hint, Instant};

impl<P: Party> Document<P> {
    /// Hands the key to the claims at the head of the queue, as long as there is room for the first one. Sends
    /// a hint to each of them, and to the claim that is next. Only `asker` gets no hint, because it gets an
    /// answer.
    pub(crate) fn serve(&mut self, asker: Option<&Claim>, visit: &mut Visit<'_, P>) {
        let mut told = Vec::new();
        while let Some(slot) = self.next_in_line(asker, visit) {
            let grant = self.hand_over(&slot, visit);
            if !asker.is_some_and(|asker| slot.is_of(asker)) {
                told.push((slot, grant));
            }
        }
        let handed_over = !told.is_empty();
        for (Slot { owner, client, .. }, grant) in told {
            // Only now is the contention known, because the claims behind may have been served as well.
            let contention = self.contention_for(&client, visit.audience);
            let grant = Some(grant.with_contention(contention));
            visit.audience.tell(&client, Hint::Granted { owner, grant });
        }
        if handed_over {
            self.tell_next(asker, visit);
        }
    }

    /// Tells the first claim in the queue when its turn comes if the claims that were just served never renew.
    /// Skips claims whose client has gone, as the next hand-over does.
    fn tell_next(&self, asker: Option<&Claim>, visit: &mut Visit<'_, P>) {
        let asks = |slot: &Slot<P>| asker.is_some_and(|asker| slot.is_of(asker));
        let is_there = |slot: &&Slot<P>| asks(slot) || visit.audience.reach(&slot.client);
        let Some(next) = self.queue.iter().find(is_there).filter(|next| !asks(next)) else {
            return;
        };
        let Some(after) = self.time_to_first_end(visit.now) else { return };
        visit.audience.tell(&next.client, Hint::Next { owner: next.owner, after });
    }

    /// The time until the first lease ends, if no holder renews. At its end, a waiter asks again: the dead
    /// owner may have had other leases as well.
    pub(crate) fn time_to_first_end(&self, now: Instant) -> Option<Duration> {
        let first = self.leases.as_slice().iter().map(|lease| lease.ends).min();
        first.map(|ends| ends.saturating_duration_since(now))
    }

    /// The contention in the answer to a holder. Only a client that hears of a change may be told
    /// `Quiet`.
    pub(crate) fn contention(&self, visit: &Visit<'_, P>) -> Contention {
        self.contention_for(visit.client, visit.audience)
    }

    fn contention_for(&self, client: &P, audience: &dyn Audience<P>) -> Contention {
        if !self.queue.is_empty() {
            Contention::Contended
        } else if audience.reach(client) {
            Contention::Quiet
        } else {
            Contention::Unknown
        }
    }

    /// Tells every client that holds the key that other claims want it.
    pub(crate) fn tell_holders(&self, visit: &mut Visit<'_, P>) {
        let holders = self.leases.as_slice();
        for (index, lease) in holders.iter().enumerate() {
            let is_told = |told: &Lease<P>| told.client.is(&lease.client);
            if !holders[..index].iter().any(is_told) {
                visit.audience.tell(&lease.client, Hint::Contended);
            }
        }
    }

    /// Takes the place that is served next. On the way, drops the places of clients that have gone,
    /// because these clients would not hear of the grant.
    fn next_in_line(&mut self, asker: Option<&Claim>, visit: &Visit<'_, P>) -> Option<Slot<P>> {
        loop {
            let slot = self.take_next(visit.now)?;
            if asker.is_some_and(|asker| slot.is_of(asker)) || visit.audience.reach(&slot.client) {
                return Some(slot);
            }
        }
    }

    /// Takes the first place of the queue, if there is room for its claim. Else takes the place of a member of
    /// the group that holds the key, at any position.
    fn take_next(&mut self, now: Instant) -> Option<Slot<P>> {
        self.queue.drop_dead_heads(&self.leases, now);
        if let Some((group, _)) = self.leases.group()
            && let Some(member) = self.queue.take_first_of(group, now)
        {
            return Some(member);
        }
        let first = self.queue.first()?;
        let is_served = match first.from {
            Some(from) => when_alone(self.leases.as_slice(), first.owner, from).is_none(),
            None => self.room(first.mode) == Room::Now,
        };
        if is_served { self.queue.take_first() } else { None }
    }

    /// Writes the lease of a waiter. The lease lives just long enough for the waiter to renew it.
    /// The lease of a conversion takes the place of the former lease: it lives at least as long, and belongs to
    /// the client of that lease.
    fn hand_over(&mut self, slot: &Slot<P>, visit: &Visit<'_, P>) -> Grant {
        let now = visit.now;
        let mut ttl = slot.ttl.for_grant();
        let mut ends = now + ttl.duration();
        let mut client = slot.client.clone();
        if let Some(from) = slot.from {
            if let Some(former) = self.leases.find(slot.owner, from) {
                client.clone_from(&former.client);
                if former.ends > ends {
                    (ttl, ends) = (former.ttl, former.ends);
                }
            }
            self.leases.remove(slot.owner, from);
        }
        let tokens = self.next_tokens(slot.mode, slot.tokens, None, visit.ticks);
        self.leases.add(Lease { owner: slot.owner, mode: slot.mode, tokens, ttl, ends, client });
        // The store and its clients share a clock, so there is nothing to convert.
        let left = ends.saturating_duration_since(now).saturating_sub(ttl.drift());
        let grant = Grant::new(tokens, now + left);
        if slot.value { grant.bringing(self.value(now)) } else { grant }
    }
}
