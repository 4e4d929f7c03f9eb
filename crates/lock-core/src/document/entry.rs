//! The data of the store about one key, and how each verb changes them.

use std::num::NonZeroU32;
use std::time::Duration;

use super::fence::{Fence, Ticks};
use super::keeping::Kept;
use super::leases::{Lease, Leases};
use super::queue::Queue;
use super::room::{Room, last_end};
use super::semaphore::Semaphore;
use super::visit::{Party, Visit};
use crate::{Acquire, AcquireOutcome, Claim, Error, FencingToken, Grant, Hint, Instant, Mode};
use crate::{OwnerToken, Released, Renew, Renewal, TokenRange, Ttl};

/// The state of one key: its leases, its queue, the counter of its tokens, its permits, and the value beside it.
///
/// Each verb is a method. It changes the document, returns the answer, and tells the [`Audience`](super::Audience) the
/// hints for other parties. It does no I/O. [`MemoryBackend`](crate::memory::MemoryBackend) decides by these methods. A
/// store that keeps one document for each key and changes it by compare-and-swap can decide by them, too. It reads the
/// bytes, [decodes](Self::decode) them with the leases that live, calls the verb, [encodes](Self::encode) the document,
/// and writes it if nothing has changed; else it repeats all that. The answers, errors and obligations are those of
/// [`Backend`](crate::Backend) and of the capability traits.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lock_core::document::{Audience, Document, Party, StoredParty, Visit};
/// use lock_core::{Acquire, AcquireOutcome, Claim, Hint, Instant, Key, OwnerToken, Released, Ttl};
///
/// /// A client of the store.
/// #[derive(Clone, Debug, PartialEq)]
/// struct Client(u8);
///
/// impl Party for Client {
///     fn is(&self, other: &Self) -> bool {
///         self == other
///     }
/// }
///
/// impl StoredParty for Client {
///     fn write(&self, bytes: &mut Vec<u8>) {
///         bytes.push(self.0);
///     }
///
///     fn read(bytes: &mut &[u8]) -> Option<Self> {
///         bytes.split_off_first().map(|name| Self(*name))
///     }
/// }
///
/// /// Every client lives. The audience keeps the hints.
/// #[derive(Default)]
/// struct Letters(Vec<(u8, Hint)>);
///
/// impl Audience<Client> for Letters {
///     fn reach(&self, _: &Client) -> bool {
///         true
///     }
///
///     fn tell(&mut self, party: &Client, hint: Hint) {
///         self.0.push((party.0, hint));
///     }
///
///     fn tell_all(&mut self, _: &Client, _: Hint) -> u32 {
///         0
///     }
/// }
///
/// # fn main() -> lock_core::Result<()> {
/// let now = Instant::from_nanos(0);
/// let (holder, waiter, mut letters) = (Client(1), Client(2), Letters::default());
/// let claim = || Ok::<_, lock_core::Error>(Claim::exclusive(Key::new("a")?, OwnerToken::generate()?));
/// let (held, wanted) = (claim()?, claim()?);
/// let mut document = Document::default();
///
/// let mut visit = Visit::new(&holder, now, now, &mut letters);
/// let granted = document.acquire(&Acquire::new(held.clone(), Ttl::DEFAULT), &mut visit)?;
/// assert!(matches!(granted, AcquireOutcome::Granted(_)));
/// let mut visit = Visit::new(&waiter, now, now, &mut letters);
/// let queued = document.acquire(&Acquire::new(wanted.clone(), Ttl::DEFAULT).queued(), &mut visit)?;
/// assert!(matches!(queued, AcquireOutcome::Queued { .. }));
/// assert_eq!((document.place(&wanted), document.waiters().count()), (Some(&waiter), 1));
///
/// // The store writes the document, and reads it again for the next request.
/// let bytes = document.encode();
/// let mut document = Document::<Client>::decode(&bytes, now, |_, ttl| Some(ttl.duration()))?;
/// let mut visit = Visit::new(&holder, now, now, &mut letters);
/// assert_eq!(document.release(&held, &mut visit), Released::Freed { told: 0 });
/// assert_eq!(document.holder(&wanted).map(|(party, _)| party), Some(&waiter));
/// assert!(letters.0.iter().any(|(to, hint)| *to == 2 && matches!(hint, Hint::Granted { .. })));
///
/// // The waiter dies before it asks again.
/// let dead = Document::<Client>::decode(&document.encode(), now, |_, _| None)?;
/// assert!(dead.is_at_rest() && dead.holders().count() == 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Document<P> {
    pub(crate) leases: Leases<P>,
    pub(crate) queue: Queue<P>,
    pub(crate) fence: Fence,
    pub(crate) semaphore: Option<Semaphore>,
    pub(crate) kept: Option<Kept>,
}

impl<P> Default for Document<P> {
    /// The document of an unknown key.
    fn default() -> Self {
        let (leases, queue) = (Leases::default(), Queue::default());
        Self { leases, queue, fence: Fence::default(), semaphore: None, kept: None }
    }
}

impl<P: Party> Document<P> {
    /// The document of an unknown key, whose counter the store may have dropped.
    pub(crate) fn counting_above(swept: Fence) -> Self {
        Self { fence: swept, ..Self::default() }
    }

    /// Grants the request, gives it a place in the queue, or says when to ask again.
    pub fn acquire(
        &mut self,
        request: &Acquire,
        visit: &mut Visit<'_, P>,
    ) -> Result<AcquireOutcome, Error> {
        self.drop_ended(visit.now);
        self.declare_for(request, visit.now)?;
        let attempt = match self.repeat(request, visit) {
            Some(grant) => AcquireOutcome::Granted(grant),
            None => self.ask(request, visit)?,
        };
        Ok(self.with_value(request, attempt, visit.now))
    }

    /// Extends the lease of this claim, if the claim holds the key.
    ///
    /// The errors are those of [`Backend::renew`](crate::Backend::renew). The [example](Document#examples) of a
    /// document shows a verb.
    pub fn renew(&mut self, request: &Renew, visit: &mut Visit<'_, P>) -> Renewal {
        let Renew { claim, ttl, .. } = request;
        self.drop_ended(visit.now);
        let Some(lease) = self.leases.find(claim.owner, claim.mode) else { return Renewal::Lost };
        lease.ttl = *ttl;
        lease.ends = visit.now + ttl.duration();
        lease.belongs_to(visit.client);
        self.queue.follow(claim.owner, claim.mode, visit.client);
        self.use_until(claim.mode, visit.now + ttl.duration());
        // A further token of one member would look like a token of the next group.
        let is_joint = claim.mode.is_joint();
        let wanted = NonZeroU32::new(request.tokens).filter(|_| !is_joint);
        Renewal::Renewed {
            valid_until: ttl.valid_until(visit.sent),
            tokens: wanted.map(|wanted| self.fence.reserve(wanted, visit.ticks)),
            contention: self.contention(visit),
        }
    }

    /// Ends a lease, or gives up a place in the queue, and serves the queue.
    pub fn release(&mut self, claim: &Claim, visit: &mut Visit<'_, P>) -> Released {
        self.leases.drop_expired(visit.now);
        let held = self.leases.remove(claim.owner, claim.mode);
        self.let_go(claim, held, visit)
    }

    /// Ends a lease for which other claims wait, and puts the request behind these claims. Returns `None`,
    /// and keeps the lease, if that is not possible.
    ///
    /// The errors are those of [`Backend::release_and_requeue`](crate::Backend::release_and_requeue). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn release_and_requeue(
        &mut self,
        claim: &Claim,
        next: &Acquire,
        visit: &mut Visit<'_, P>,
    ) -> Option<AcquireOutcome> {
        self.drop_ended(visit.now);
        if self.queue.is_empty()
            || !next.queue
            || !visit.audience.reach(visit.waiter)
            || self.leases.find(claim.owner, claim.mode).is_none()
            || self.declare_for(next, visit.now).is_err()
            || self.admit(next.claim.mode).is_err()
            || self.queue.join(next, None, visit).is_err()
        {
            return None;
        }
        self.leases.remove(claim.owner, claim.mode);
        self.serve(None, visit);
        Some(self.queued(next, None, visit.now))
    }

    pub(crate) fn forget(&mut self, ticks: Ticks) {
        self.leases.clear();
        self.queue.clear();
        self.fence.forget(ticks);
        self.semaphore = None;
        self.kept = None;
    }

    pub(crate) fn live_leases(&self, now: Instant) -> usize {
        self.leases.live(now)
    }

    /// Whether the store can drop this entry without a loss.
    pub(crate) fn is_idle(&mut self, now: Instant, ticks: Ticks) -> bool {
        self.leases.drop_expired(now);
        self.queue.drop_lapsed(now);
        self.leases.is_empty()
            && self.queue.is_empty()
            && self.fence.is_at_rest(ticks)
            && self.semaphore.as_ref().is_none_or(|semaphore| semaphore.is_spent(now))
            && self.kept.is_none()
    }

    /// Whether a store that drops this document loses only the counter of tokens. That is so if no claim holds the key
    /// or waits, there is no value, and the permits are as declared. The counter may be ahead of the clock, so drop the
    /// document only after a few seconds.
    pub fn is_at_rest(&self) -> bool {
        self.leases.is_empty()
            && self.queue.is_empty()
            && self.kept.is_none()
            && self.semaphore.as_ref().is_none_or(Semaphore::is_unchanged)
    }

    /// The party that speaks for the lease of this claim, and the ttl of the lease, if the claim holds the key.
    pub fn holder(&self, claim: &Claim) -> Option<(&P, Ttl)> {
        let mut leases = self.leases.as_slice().iter();
        let lease = leases.find(|it| it.owner == claim.owner && it.mode == claim.mode)?;
        Some((&lease.client, lease.ttl))
    }

    /// The party that speaks for the place of this claim, if the claim waits.
    pub fn place(&self, claim: &Claim) -> Option<&P> {
        self.queue.iter().find(|slot| slot.is_of(claim)).map(|slot| &slot.client)
    }

    /// The owners that hold the key, with the parties that speak for them.
    pub fn holders(&self) -> impl Iterator<Item = (OwnerToken, &P)> {
        self.leases.as_slice().iter().map(|lease| (lease.owner, &lease.client))
    }

    /// The owners that wait, in their order, with the parties that speak for them.
    pub fn waiters(&self) -> impl Iterator<Item = (OwnerToken, &P)> {
        self.queue.iter().map(|slot| (slot.owner, &slot.client))
    }

    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    pub(crate) fn drop_ended(&mut self, now: Instant) {
        self.leases.drop_expired(now);
        self.queue.drop_dead_heads(&self.leases, now);
    }

    /// The grant of a request whose claim holds the key already: the former grant, whose lease ends no earlier.
    pub(crate) fn repeat(&mut self, request: &Acquire, visit: &mut Visit<'_, P>) -> Option<Grant> {
        let lease = self.leases.find(request.claim.owner, request.claim.mode)?;
        lease.extend(request.ttl, visit.now);
        lease.belongs_to(visit.client);
        let grant = lease.grant(visit);
        Some(grant.with_contention(self.contention(visit)))
    }

    /// Answers a request for a lease beside the existing leases. The request overtakes no waiter, not even in a
    /// mode for which there is room. Only a member of the group that holds the key enters at once, because the
    /// group is one holder.
    fn ask(
        &mut self,
        request: &Acquire,
        visit: &mut Visit<'_, P>,
    ) -> Result<AcquireOutcome, Error> {
        let mode = request.claim.mode;
        if let Err(error) = self.admit(mode) {
            // A closed semaphore refuses this request, so the request must not stay in the way of
            // the others.
            self.queue.leave(&request.claim);
            self.serve(None, visit);
            return Err(error);
        }
        if self.leases.group().is_some_and(|(group, _)| group == mode) {
            return Ok(AcquireOutcome::Granted(self.grant(request, visit)));
        }
        if !self.queue.is_empty() {
            self.serve(Some(&request.claim), visit);
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
        self.refuse(free, (request, None), visit)
    }

    /// Refuses a request for which there may be room at `free`. Gives the request a place in the
    /// queue if it asks for a place and its client can hear of the grant. A conversion names its
    /// present mode.
    pub(crate) fn refuse(
        &mut self,
        free: Option<Instant>,
        (request, from): (&Acquire, Option<Mode>),
        visit: &mut Visit<'_, P>,
    ) -> Result<AcquireOutcome, Error> {
        let retry_after = free.map(|at| at.saturating_duration_since(visit.now));
        if !request.queue || !visit.audience.reach(visit.waiter) {
            return Ok(AcquireOutcome::Busy { retry_after });
        }
        let was_empty = self.queue.is_empty();
        let is_new = self.queue.join(request, from, visit)?;
        if was_empty && is_new {
            self.tell_holders(visit);
        }
        Ok(self.queued(request, retry_after, visit.now))
    }

    /// The answer to a request that has a place in the queue. The client asks again in time to keep
    /// the place, or earlier if there may be room earlier.
    pub(crate) fn queued(
        &self,
        request: &Acquire,
        free: Option<Duration>,
        now: Instant,
    ) -> AcquireOutcome {
        let repeat_after = Some(request.ttl.for_place().duration() / 3);
        let times = [repeat_after, free, self.time_to_first_end(now)];
        AcquireOutcome::Queued { retry_after: times.into_iter().flatten().min() }
    }

    /// Writes a new lease for the client that asks.
    pub(crate) fn grant(&mut self, request: &Acquire, visit: &mut Visit<'_, P>) -> Grant {
        let lease = Lease {
            owner: request.claim.owner,
            mode: request.claim.mode,
            tokens: self.next_tokens(request.claim.mode, request.tokens, visit.floor, visit.ticks),
            ttl: request.ttl,
            ends: visit.now + request.ttl.duration(),
            client: visit.client.clone(),
        };
        let grant = lease.grant(visit);
        self.leases.add(lease);
        grant.with_contention(self.contention(visit))
    }

    /// The tokens of a new lease: those of the group that it joins, or new ones.
    pub(crate) fn next_tokens(
        &mut self,
        mode: Mode,
        wanted: NonZeroU32,
        floor: Option<FencingToken>,
        ticks: Ticks,
    ) -> TokenRange {
        match self.leases.group() {
            Some((group, tokens)) if group == mode => tokens,
            _ => self.new_tokens(wanted, floor, ticks),
        }
    }

    /// Tokens that were never given out: those that a quorum wants for its vote, or else the next
    /// tokens of the store.
    pub(crate) fn new_tokens(
        &mut self,
        wanted: NonZeroU32,
        floor: Option<FencingToken>,
        ticks: Ticks,
    ) -> TokenRange {
        match floor {
            Some(floor) => self.fence.reserve_up_to(floor, wanted, ticks),
            None => self.fence.reserve(wanted, ticks),
        }
    }

    /// Whether there is room for another lease, regardless of the queue.
    pub(crate) fn room(&self, mode: Mode) -> Room {
        let limit = self.semaphore.as_ref().map_or(0, Semaphore::limit);
        Room::beside(self.leases.as_slice(), mode, limit)
    }

    /// Serves the queue after a lease has ended, or after a claim has given up its
    /// place.
    pub(crate) fn let_go(
        &mut self,
        claim: &Claim,
        held: bool,
        visit: &mut Visit<'_, P>,
    ) -> Released {
        if !held {
            self.queue.leave(claim);
        }
        self.serve(None, visit);
        if !held {
            return Released::NotHeld;
        }
        // A claim that was served holds the key and has its hint. The others need no hint.
        let is_free = self.leases.is_empty();
        let told = if is_free { visit.audience.tell_all(visit.client, Hint::Released) } else { 0 };
        // An upgrade with a place in the queue was served. An upgrade without a place needs a hint
        // to ask again.
        let is_reader = claim.mode == Mode::Shared;
        if is_reader && self.queue.is_empty() && self.leases.can_be_upgraded() {
            visit.audience.tell_all(visit.client, Hint::Released);
        }
        Released::Freed { told }
    }
}
