//! What the store keeps about one key, and what the verbs do to it.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::connection::Connection;
use super::fence::{Fence, Ticks};
use super::leases::{Lease, Leases};
use super::post::Post;
use super::queue::{Queue, Slot};
use super::room::{Conversion, check, last_end, when_alone, when_free};
use super::visit::Visit;
use super::watchers::Watchers;
use crate::{Acquire, Attempt, Claim, Demand, Error, ErrorKind, Grant, Hint, Instant, Mode};
use crate::{Released, Renew, Renewal};

/// One key: who holds it, who waits for it, the counter of its tokens, and who wants to hear of it.
#[derive(Debug, Default)]
pub(super) struct Entry {
    leases: Leases,
    queue: Queue,
    fence: Fence,
    pub(super) watchers: Watchers,
}

impl Entry {
    /// Grants the request, gives it a place in the queue, or says when to ask again.
    pub(super) fn acquire(
        &mut self,
        request: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<Attempt, Error> {
        check(request.claim.mode)?;
        let conversion = match request.from {
            Some(from) => Some((from, Conversion::between(from, request.claim.mode)?)),
            None => None,
        };
        self.drop_ended(visit.now);
        if let Some(grant) = self.repeat(request, visit) {
            return Ok(Attempt::Granted(grant));
        }
        match conversion {
            None => self.ask(request, visit, limit, post),
            Some((from, Conversion::Weaker)) => self.weaken(from, request, visit, post),
            Some((from, Conversion::Upgrade)) => self.upgrade(from, request, visit, limit, post),
        }
    }

    /// Moves the end of a lease, if it is held.
    pub(super) fn renew(&mut self, request: &Renew, visit: &Visit<'_>) -> Renewal {
        let Renew { claim, ttl, .. } = request;
        self.drop_ended(visit.now);
        let Some(lease) = self.leases.find(claim.owner, claim.mode) else { return Renewal::Lost };
        lease.ttl = *ttl;
        lease.ends = visit.now + ttl.duration();
        lease.belongs_to(visit.client);
        let wanted = NonZeroU32::new(request.tokens);
        Renewal::Renewed {
            valid_until: ttl.valid_until(visit.sent),
            tokens: wanted.map(|wanted| self.fence.reserve(wanted, Ticks::now())),
            demand: self.demand(visit.client),
        }
    }

    /// Ends a lease, or gives up a place in the queue, and serves who comes next.
    pub(super) fn release(
        &mut self,
        claim: &Claim,
        client: &Arc<Connection>,
        now: Instant,
        post: &mut Post,
    ) -> Released {
        self.leases.drop_expired(now);
        let held = self.leases.remove(claim.owner, claim.mode);
        if !held {
            self.queue.leave(claim);
        }
        self.serve(None, now, post);
        if !held {
            return Released::NotHeld;
        }
        // Whoever was served holds the key and has been told. The others need not know.
        let is_free = self.leases.is_empty();
        let contended = is_free && self.watchers.tell_all(Hint::Released, client, post);
        Released::Freed { contended }
    }

    /// Ends a lease that others wait for, and puts the request behind them. `None` if that cannot be
    /// done, and nothing was.
    pub(super) fn exchange(
        &mut self,
        claim: &Claim,
        next: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Option<Attempt> {
        self.drop_ended(visit.now);
        if self.queue.is_empty()
            || !next.queue
            || next.from.is_some()
            || !self.watchers.reach(visit.client)
            || self.leases.find(claim.owner, claim.mode).is_none()
            || self.queue.join(next, visit, limit).is_err()
        {
            return None;
        }
        self.leases.remove(claim.owner, claim.mode);
        self.serve(None, visit.now, post);
        Some(Attempt::Queued { retry_after: Some(next.ttl.place().duration() / 3) })
    }

    pub(super) fn forget(&mut self) {
        self.leases.clear();
        self.queue.clear();
    }

    pub(super) fn live_leases(&self, now: Instant) -> usize {
        self.leases.live(now)
    }

    /// Whether nothing would be lost with this entry.
    pub(super) fn is_idle(&mut self, now: Instant, ticks: Ticks) -> bool {
        self.leases.drop_expired(now);
        self.queue.drop_lapsed(now);
        self.leases.is_empty()
            && self.queue.is_empty()
            && self.watchers.is_empty()
            && self.fence.is_at_rest(ticks)
    }

    fn drop_ended(&mut self, now: Instant) {
        self.leases.drop_expired(now);
        self.queue.drop_dead_heads(&self.leases, now);
    }

    /// The grant of a request whose claim holds the key already: the same again, for no less time.
    fn repeat(&mut self, request: &Acquire, visit: &Visit<'_>) -> Option<Grant> {
        let lease = self.leases.find(request.claim.owner, request.claim.mode)?;
        lease.extend(request.ttl, visit.now);
        lease.belongs_to(visit.client);
        let grant = lease.grant(visit);
        Some(grant.in_demand(self.demand(visit.client)))
    }

    /// A request for a lease beside those that there are. Those who wait go first, whoever they are:
    /// nobody overtakes, not even in a mode for which there would be room.
    fn ask(
        &mut self,
        request: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<Attempt, Error> {
        if !self.queue.is_empty() {
            self.serve(Some(&request.claim), visit.now, post);
            if let Some(grant) = self.repeat(request, visit) {
                return Ok(Attempt::Granted(grant));
            }
        }
        let leases = self.leases.as_slice();
        let free = match when_free(leases, request.claim.mode) {
            Ok(free) => free,
            Err(error) => {
                // It cannot be granted, and must not hold up those for whom there is room.
                self.queue.leave(&request.claim);
                return Err(error);
            }
        };
        match free {
            None if self.queue.is_empty() => Ok(Attempt::Granted(self.grant(request, visit))),
            free => self.refuse(free.or(last_end(leases)), request, visit, limit, post),
        }
    }

    /// Converts a lease to a weaker mode, which lets in who waits for that, and nobody else before.
    fn weaken(
        &mut self,
        from: Mode,
        request: &Acquire,
        visit: &Visit<'_>,
        post: &mut Post,
    ) -> Result<Attempt, Error> {
        let lease = self.leases.find(request.claim.owner, from).ok_or_else(not_held)?;
        lease.mode = request.claim.mode;
        lease.extend(request.ttl, visit.now);
        lease.belongs_to(visit.client);
        let grant = lease.grant(visit);
        self.serve(None, visit.now, post);
        Ok(Attempt::Granted(grant.in_demand(self.demand(visit.client))))
    }

    /// Makes an upgradable lease exclusive once nobody else holds the key, before anybody who waits.
    fn upgrade(
        &mut self,
        from: Mode,
        request: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<Attempt, Error> {
        let owner = request.claim.owner;
        self.leases.find(owner, from).ok_or_else(not_held)?;
        let alone = when_alone(self.leases.as_slice(), owner, from);
        if alone.is_some() {
            return self.refuse(alone, request, visit, limit, post);
        }
        self.queue.leave(&request.claim);
        self.leases.remove(owner, from);
        Ok(Attempt::Granted(self.grant(request, visit)))
    }

    /// Refuses a request for which there may be room at `free`, and gives it a place in the queue if
    /// it asks for one and its client can be told of the grant.
    fn refuse(
        &mut self,
        free: Option<Instant>,
        request: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<Attempt, Error> {
        let retry_after = free.map(|at| at.saturating_duration_since(visit.now));
        if !request.queue || !self.watchers.reach(visit.client) {
            return Ok(Attempt::Busy { retry_after });
        }
        let was_empty = self.queue.is_empty();
        let is_new = self.queue.join(request, visit, limit)?;
        if was_empty && is_new {
            self.tell_holders(post);
        }
        let repeat_after = request.ttl.place().duration() / 3;
        let retry_after = retry_after.map_or(repeat_after, |time| time.min(repeat_after));
        Ok(Attempt::Queued { retry_after: Some(retry_after) })
    }

    /// Writes a new lease for the client that asks.
    fn grant(&mut self, request: &Acquire, visit: &Visit<'_>) -> Grant {
        let lease = Lease {
            owner: request.claim.owner,
            mode: request.claim.mode,
            tokens: self.fence.reserve(request.tokens, Ticks::now()),
            ttl: request.ttl,
            ends: visit.now + request.ttl.duration(),
            client: Arc::clone(visit.client),
        };
        let grant = lease.grant(visit);
        self.leases.add(lease);
        grant.in_demand(self.demand(visit.client))
    }

    /// Hands the key to those at the head of the queue, as long as there is room for the first, and
    /// tells them. Only `asker` is not told: it waits for an answer, and gets one.
    fn serve(&mut self, asker: Option<&Claim>, now: Instant, post: &mut Post) {
        let mut told = Vec::new();
        while let Some(slot) = self.next_in_line(asker, now) {
            let grant = self.hand_over(&slot, now);
            if !asker.is_some_and(|asker| slot.is_of(asker)) {
                told.push((slot, grant));
            }
        }
        for (Slot { owner, client, .. }, grant) in told {
            // Known only now, because those behind may have been served as well.
            let grant = Some(grant.in_demand(self.demand(&client)));
            self.watchers.tell(&client, Hint::Granted { owner, grant }, post);
        }
    }

    /// Takes the first place of the queue, if there is room for it. Places of clients that have gone
    /// are dropped: nobody would hear of the grant.
    fn next_in_line(&mut self, asker: Option<&Claim>, now: Instant) -> Option<Slot> {
        loop {
            self.queue.drop_dead_heads(&self.leases, now);
            let slot = self.queue.first()?;
            let leases = self.leases.as_slice();
            let waits = match slot.from {
                Some(from) => when_alone(leases, slot.owner, from).is_some(),
                // On an error, too: its limit is not that of the present holders.
                None => !matches!(when_free(leases, slot.mode), Ok(None)),
            };
            if waits {
                return None;
            }
            let slot = self.queue.take_first()?;
            if asker.is_some_and(|asker| slot.is_of(asker)) || self.watchers.reach(&slot.client) {
                return Some(slot);
            }
        }
    }

    /// Writes the lease of a waiter, which lives only until its owner has had time to renew it.
    fn hand_over(&mut self, slot: &Slot, now: Instant) -> Grant {
        if let Some(from) = slot.from {
            self.leases.remove(slot.owner, from);
        }
        let ttl = slot.ttl.claim();
        let tokens = self.fence.reserve(slot.tokens, Ticks::now());
        self.leases.add(Lease {
            owner: slot.owner,
            mode: slot.mode,
            tokens,
            ttl,
            ends: now + ttl.duration(),
            client: Arc::clone(&slot.client),
        });
        // The store's clock is the clients' as well, so there is nothing to convert.
        Grant::new(tokens, ttl.valid_until(now))
    }

    /// What a holder is told about those who wait. That nobody does is worth something only to a
    /// client that will be told when this changes.
    fn demand(&self, client: &Arc<Connection>) -> Demand {
        if !self.queue.is_empty() {
            Demand::Wanted
        } else if self.watchers.reach(client) {
            Demand::Quiet
        } else {
            Demand::Unknown
        }
    }

    /// Tells every client that holds the key that it is wanted.
    fn tell_holders(&self, post: &mut Post) {
        let holders = self.leases.as_slice();
        for (index, lease) in holders.iter().enumerate() {
            let is_told = |told: &Lease| Arc::ptr_eq(&told.client, &lease.client);
            if !holders[..index].iter().any(is_told) {
                self.watchers.tell(&lease.client, Hint::Wanted, post);
            }
        }
    }
}

fn not_held() -> Error {
    Error::new(ErrorKind::NotHeld, "the lease that was to be converted is over")
}
