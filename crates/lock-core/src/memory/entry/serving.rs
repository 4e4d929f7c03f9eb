//! How a key passes to its waiters.

use std::sync::Arc;
use std::time::Duration;

use super::super::connection::Connection;
use super::super::leases::Lease;
use super::super::post::Post;
use super::super::queue::Slot;
use super::super::room::{Room, when_alone};
use super::Entry;
use crate::{Claim, Contention, Grant, Hint, Instant};

impl Entry {
    /// Hands the key to the claims at the head of the queue, as long as there is room for the first one. Tells
    /// each of them, and the claim that is next. Only `asker` gets no hint, because it gets an answer.
    pub(super) fn serve(&mut self, asker: Option<&Claim>, now: Instant, post: &mut Post) {
        let mut told = Vec::new();
        while let Some(slot) = self.next_in_line(asker, now) {
            let grant = self.hand_over(&slot, now);
            if !asker.is_some_and(|asker| slot.is_of(asker)) {
                told.push((slot, grant));
            }
        }
        let handed_over = !told.is_empty();
        for (Slot { owner, client, .. }, grant) in told {
            // The contention is known only now, because the claims behind may have been served as well.
            let grant = Some(grant.with_contention(self.contention(&client)));
            self.watchers.tell(&client, Hint::Granted { owner, grant }, post);
        }
        if handed_over {
            self.tell_next(asker, now, post);
        }
    }

    /// Tells the first claim in the queue when its turn comes if the claims that were just served stay silent.
    /// Passes over claims whose client has gone, as the next hand-over does.
    fn tell_next(&self, asker: Option<&Claim>, now: Instant, post: &mut Post) {
        let asks = |slot: &Slot| asker.is_some_and(|asker| slot.is_of(asker));
        let is_there = |slot: &&Slot| asks(slot) || self.watchers.reach(&slot.client);
        let Some(next) = self.queue.iter().find(is_there).filter(|next| !asks(next)) else {
            return;
        };
        let Some(after) = self.time_to_first_end(now) else { return };
        self.watchers.tell(&next.client, Hint::Next { owner: next.owner, after }, post);
    }

    /// The time until the first lease ends, if no holder renews. By then its owner may have given up other
    /// leases as well, so there may be less to wait for.
    pub(super) fn time_to_first_end(&self, now: Instant) -> Option<Duration> {
        let first = self.leases.as_slice().iter().map(|lease| lease.ends).min();
        first.map(|ends| ends.saturating_duration_since(now))
    }

    /// The contention that the answer to a holder names. `Quiet` is worth telling only to a
    /// client that will hear of a change.
    pub(super) fn contention(&self, client: &Arc<Connection>) -> Contention {
        if !self.queue.is_empty() {
            Contention::Contended
        } else if self.watchers.reach(client) {
            Contention::Quiet
        } else {
            Contention::Unknown
        }
    }

    /// Tells every client that holds the key that other claims want it.
    pub(super) fn tell_holders(&self, post: &mut Post) {
        let holders = self.leases.as_slice();
        for (index, lease) in holders.iter().enumerate() {
            let is_told = |told: &Lease| Arc::ptr_eq(&told.client, &lease.client);
            if !holders[..index].iter().any(is_told) {
                self.watchers.tell(&lease.client, Hint::Contended, post);
            }
        }
    }

    /// Takes the place that is served next. Drops the places of clients that have gone on the
    /// way, because they would not hear of the grant.
    fn next_in_line(&mut self, asker: Option<&Claim>, now: Instant) -> Option<Slot> {
        loop {
            let slot = self.take_next(now)?;
            if asker.is_some_and(|asker| slot.is_of(asker)) || self.watchers.reach(&slot.client) {
                return Some(slot);
            }
        }
    }

    /// Takes the first place of the queue, if there is room for it. Or takes the place of a member of the group
    /// that holds the key, at any position.
    fn take_next(&mut self, now: Instant) -> Option<Slot> {
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

    /// Writes the lease of a waiter. It lives only until its owner has had time to renew it, or for
    /// the time that is left of the lease that it replaces.
    fn hand_over(&mut self, slot: &Slot, now: Instant) -> Grant {
        let mut ttl = slot.ttl.for_grant();
        let mut ends = now + ttl.duration();
        if let Some(from) = slot.from {
            let former = self.leases.find(slot.owner, from);
            if let Some(former) = former.filter(|former| former.ends > ends) {
                (ttl, ends) = (former.ttl, former.ends);
            }
            self.leases.remove(slot.owner, from);
        }
        let tokens = self.next_tokens(slot.mode, slot.tokens, None);
        self.leases.add(Lease {
            owner: slot.owner,
            mode: slot.mode,
            tokens,
            ttl,
            ends,
            client: Arc::clone(&slot.client),
        });
        // Store and clients share a clock, so there is nothing to convert.
        let left = ends.saturating_duration_since(now).saturating_sub(ttl.drift());
        let grant = Grant::new(tokens, now + left);
        if slot.value { grant.bringing(self.value(now)) } else { grant }
    }
}
