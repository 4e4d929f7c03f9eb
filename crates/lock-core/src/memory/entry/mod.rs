//! The data of the store about one key, and what the verbs do to them.

mod converting;
mod counting;
mod inspecting;
mod keeping;
mod serving;
mod together;
mod voting;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::together::Prospect;

use self::keeping::Kept;
use super::connection::Connection;
use super::fence::{Fence, Ticks};
use super::leases::{Lease, Leases};
use super::post::Post;
use super::queue::Queue;
use super::room::{Room, last_end};
use super::semaphore::Semaphore;
use super::visit::Visit;
use super::watchers::Watchers;
use crate::{Acquire, AcquireOutcome, Claim, Error, FencingToken, Grant, Hint, Instant, Mode};
use crate::{Released, Renew, Renewal, TokenRange};

/// One key: its leases, its queue, the counter of its tokens, its permits, the
/// value beside it, and its watches.
#[derive(Debug, Default)]
pub(super) struct Entry {
    leases: Leases,
    queue: Queue,
    fence: Fence,
    semaphore: Option<Semaphore>,
    kept: Option<Kept>,
    pub(super) watchers: Watchers,
}

impl Entry {
    /// The entry of an unknown key, whose counter may have been thrown away.
    pub(super) fn counting_above(swept: Fence) -> Self {
        Self { fence: swept, ..Self::default() }
    }

    /// Grants the request, gives it a place in the queue, or says when to ask again.
    pub(super) fn acquire(
        &mut self,
        request: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<AcquireOutcome, Error> {
        self.drop_ended(visit.now);
        self.declare_for(request, visit.now)?;
        let attempt = match self.repeat(request, visit) {
            Some(grant) => AcquireOutcome::Granted(grant),
            None => self.ask(request, visit, limit, post)?,
        };
        Ok(self.with_value(request, attempt, visit.now))
    }

    /// Extends a lease, if it is held.
    pub(super) fn renew(&mut self, request: &Renew, visit: &Visit<'_>) -> Renewal {
        let Renew { claim, ttl, .. } = request;
        self.drop_ended(visit.now);
        let Some(lease) = self.leases.find(claim.owner, claim.mode) else { return Renewal::Lost };
        lease.ttl = *ttl;
        lease.ends = visit.now + ttl.duration();
        lease.belongs_to(visit.client);
        if let (true, Some(semaphore)) = (lease.mode.counts(), &mut self.semaphore) {
            semaphore.used_until(lease.ends);
        }
        // Further tokens of one member could not be told from tokens of the next group.
        let is_joint = claim.mode.is_joint();
        let wanted = NonZeroU32::new(request.tokens).filter(|_| !is_joint);
        Renewal::Renewed {
            valid_until: ttl.valid_until(visit.sent),
            tokens: wanted.map(|wanted| self.fence.reserve(wanted, Ticks::now())),
            contention: self.contention(visit.client),
        }
    }

    /// Ends a lease, or gives up a place in the queue, and serves the queue.
    pub(super) fn release(
        &mut self,
        claim: &Claim,
        client: &Arc<Connection>,
        now: Instant,
        post: &mut Post,
    ) -> Released {
        self.leases.drop_expired(now);
        let held = self.leases.remove(claim.owner, claim.mode);
        self.let_go(claim, held, client, now, post)
    }

    /// Ends a lease for which other claims wait, and puts the request behind them. `None` if that cannot be
    /// done; then nothing was done.
    pub(super) fn release_and_requeue(
        &mut self,
        claim: &Claim,
        next: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Option<AcquireOutcome> {
        self.drop_ended(visit.now);
        if self.queue.is_empty()
            || !next.queue
            || !self.watchers.reach(visit.client)
            || self.leases.find(claim.owner, claim.mode).is_none()
            || self.declare_for(next, visit.now).is_err()
            || self.admit(next.claim.mode).is_err()
            || self.queue.join(next, None, visit, limit).is_err()
        {
            return None;
        }
        self.leases.remove(claim.owner, claim.mode);
        self.serve(None, visit.now, post);
        Some(self.queued(next, None, visit.now))
    }

    pub(super) fn forget(&mut self, ticks: Ticks) {
        self.leases.clear();
        self.queue.clear();
        self.fence.forget(ticks);
        self.semaphore = None;
        self.kept = None;
    }

    pub(super) fn live_leases(&self, now: Instant) -> usize {
        self.leases.live(now)
    }

    /// Whether this entry can be dropped without a loss.
    pub(super) fn is_idle(&mut self, now: Instant, ticks: Ticks) -> bool {
        self.leases.drop_expired(now);
        self.queue.drop_lapsed(now);
        self.leases.is_empty()
            && self.queue.is_empty()
            && self.watchers.is_empty()
            && self.fence.is_at_rest(ticks)
            && self.semaphore.as_ref().is_none_or(|semaphore| semaphore.is_spent(now))
            && self.kept.is_none()
    }

    pub(super) fn fence(&self) -> Fence {
        self.fence
    }

    fn drop_ended(&mut self, now: Instant) {
        self.leases.drop_expired(now);
        self.queue.drop_dead_heads(&self.leases, now);
    }

    /// The grant of a request whose claim holds the key already: the former grant, for no less time.
    fn repeat(&mut self, request: &Acquire, visit: &Visit<'_>) -> Option<Grant> {
        let lease = self.leases.find(request.claim.owner, request.claim.mode)?;
        lease.extend(request.ttl, visit.now);
        lease.belongs_to(visit.client);
        let grant = lease.grant(visit);
        Some(grant.with_contention(self.contention(visit.client)))
    }

    /// A request for a lease beside the existing ones. It never overtakes a waiter, not even in a mode for which
    /// there is room. Only a member of the group that holds the key enters at once, because the group
    /// is one holder.
    fn ask(
        &mut self,
        request: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<AcquireOutcome, Error> {
        let mode = request.claim.mode;
        if let Err(error) = self.admit(mode) {
            // A closed semaphore grants nothing, so this request must not hold up the others.
            self.queue.leave(&request.claim);
            self.serve(None, visit.now, post);
            return Err(error);
        }
        if self.leases.group().is_some_and(|(group, _)| group == mode) {
            return Ok(AcquireOutcome::Granted(self.grant(request, visit)));
        }
        if !self.queue.is_empty() {
            self.serve(Some(&request.claim), visit.now, post);
            if let Some(grant) = self.repeat(request, visit) {
                return Ok(AcquireOutcome::Granted(grant));
            }
        }
        let free = match self.room(mode) {
            Room::Now if self.queue.is_empty() => {
                return Ok(AcquireOutcome::Granted(self.grant(request, visit)));
            }
            Room::Now => last_end(self.leases.as_slice()),
            Room::Later(free) => free,
        };
        self.refuse(free, (request, None), visit, limit, post)
    }

    /// Refuses a request for which there may be room at `free`. Gives it a place in the queue if
    /// it asks for one and its client can be told of the grant. A conversion names its present mode.
    fn refuse(
        &mut self,
        free: Option<Instant>,
        (request, from): (&Acquire, Option<Mode>),
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<AcquireOutcome, Error> {
        let retry_after = free.map(|at| at.saturating_duration_since(visit.now));
        if !request.queue || !self.watchers.reach(visit.client) {
            return Ok(AcquireOutcome::Busy { retry_after });
        }
        let was_empty = self.queue.is_empty();
        let is_new = self.queue.join(request, from, visit, limit)?;
        if was_empty && is_new {
            self.tell_holders(post);
        }
        Ok(self.queued(request, retry_after, visit.now))
    }

    /// The answer to a request that has a place in the queue: ask again in time to keep the place, or
    /// earlier if there may be room by then.
    fn queued(&self, request: &Acquire, free: Option<Duration>, now: Instant) -> AcquireOutcome {
        let repeat_after = Some(request.ttl.for_place().duration() / 3);
        let times = [repeat_after, free, self.time_to_first_end(now)];
        AcquireOutcome::Queued { retry_after: times.into_iter().flatten().min() }
    }

    /// Writes a new lease for the client that asks.
    fn grant(&mut self, request: &Acquire, visit: &Visit<'_>) -> Grant {
        let lease = Lease {
            owner: request.claim.owner,
            mode: request.claim.mode,
            tokens: self.next_tokens(request.claim.mode, request.tokens, visit.floor),
            ttl: request.ttl,
            ends: visit.now + request.ttl.duration(),
            client: Arc::clone(visit.client),
        };
        let grant = lease.grant(visit);
        self.leases.add(lease);
        grant.with_contention(self.contention(visit.client))
    }

    /// The tokens of a new lease: those of the group that it joins, or new ones.
    fn next_tokens(
        &mut self,
        mode: Mode,
        wanted: NonZeroU32,
        floor: Option<FencingToken>,
    ) -> TokenRange {
        match self.leases.group() {
            Some((group, tokens)) if group == mode => tokens,
            _ => self.new_tokens(wanted, floor),
        }
    }

    /// Tokens that were never given out: those that a quorum wants, if it asks, or the store's own.
    fn new_tokens(&mut self, wanted: NonZeroU32, floor: Option<FencingToken>) -> TokenRange {
        match floor {
            Some(floor) => self.fence.reserve_up_to(floor, wanted, Ticks::now()),
            None => self.fence.reserve(wanted, Ticks::now()),
        }
    }

    /// Whether there is room for another lease, regardless of the queue.
    fn room(&self, mode: Mode) -> Room {
        let limit = self.semaphore.as_ref().map_or(0, Semaphore::limit);
        Room::beside(self.leases.as_slice(), mode, limit)
    }

    /// Serves the queue after a lease has ended, or after a claim has given up its
    /// place.
    fn let_go(
        &mut self,
        claim: &Claim,
        held: bool,
        client: &Arc<Connection>,
        now: Instant,
        post: &mut Post,
    ) -> Released {
        if !held {
            self.queue.leave(claim);
        }
        self.serve(None, now, post);
        if !held {
            return Released::NotHeld;
        }
        // A claim that was served holds the key and has been told. The others need not know.
        let is_free = self.leases.is_empty();
        let told = if is_free { self.watchers.tell_all(Hint::Released, client, post) } else { 0 };
        // An upgrade in the queue was served. An upgrade without a place can only ask again.
        let is_reader = claim.mode == Mode::Shared;
        if is_reader && self.queue.is_empty() && self.leases.can_be_upgraded() {
            self.watchers.tell_all(Hint::Released, client, post);
        }
        Released::Freed { told }
    }
}
