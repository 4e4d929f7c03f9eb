//! The store: one key, who holds it, who waits for it, and what it protects.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Acquire, Attempt, Claim, Demand, FencingToken, Grant, Hint, Instant, OwnerToken, Released,
    Renew, Renewal, TokenRange,
};

use super::super::lease::Lease;
use super::{chance, ttl};

/// How many tokens a request gets at most: few enough that they run out.
const MOST_TOKENS: NonZeroU32 = NonZeroU32::new(3).unwrap();

#[derive(Default)]
pub(super) struct Store {
    held: Option<Held>,
    line: VecDeque<Slot>,
    counter: u64,
    /// The watch of the process, by its number: where messages to it go.
    watch: Option<u64>,
    messages: Vec<(u64, Hint)>,
    /// The latest grant that the process was told of.
    told: Option<Hint>,
    /// Whose release has failed: it need not be tried again once the lease is over for its holder,
    /// and a renewal whose answer was lost may have made it longer than that.
    excused: Vec<OwnerToken>,
    protected: Protected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Process,
    /// It renews in time, whatever it has.
    Rival,
}

#[derive(Debug)]
struct Held {
    owner: OwnerToken,
    client: Client,
    end: Instant,
    tokens: TokenRange,
}

#[derive(Debug)]
struct Slot {
    owner: OwnerToken,
    client: Client,
    end: Instant,
}

/// What only one may touch at a time, and only with a token above all that came before.
#[derive(Debug, Default)]
struct Protected {
    token: u64,
    inside: Option<Inside>,
}

#[derive(Debug)]
pub(super) enum Inside {
    /// A guard's view of its lease, and the end of its maximum hold.
    Task(Arc<Lease>, Instant),
    Rival,
}

impl Inside {
    fn is_valid(&self, now: Instant) -> bool {
        match self {
            Self::Task(lease, hold_until) => lease.is_valid(now) && now < *hold_until,
            Self::Rival => true,
        }
    }
}

impl Store {
    // ---- The verbs ----

    pub(super) fn acquire(
        &mut self,
        now: Instant,
        sent: Instant,
        client: Client,
        request: &Acquire,
    ) -> Attempt {
        let owner = request.claim.owner;
        self.serve(now, Some(owner));
        if self.held.is_none() && self.line.is_empty() {
            self.hold(client, owner, now + request.ttl.duration(), request.tokens);
        }
        let demand = self.demand();
        let place = request.ttl.place().duration();
        let left = match &mut self.held {
            Some(held) if held.owner == owner => {
                held.end = held.end.max(now + request.ttl.duration());
                let valid_until = request.ttl.valid_until(sent);
                return Attempt::Granted(Grant::new(held.tokens, valid_until).in_demand(demand));
            }
            Some(held) => held.end.saturating_duration_since(now),
            None => place,
        };
        let retry_after = Some(left.min(place / 3));
        if !request.queue || client == Client::Process && self.watch.is_none() {
            return Attempt::Busy { retry_after };
        }
        match self.line.iter_mut().find(|slot| slot.owner == owner) {
            Some(slot) => slot.end = slot.end.max(now + place),
            None => {
                let end = if client == Client::Rival { Instant::FAR_FUTURE } else { now + place };
                self.line.push_back(Slot { owner, client, end });
                let ours = self.held.as_ref().is_some_and(|held| held.client == Client::Process);
                if self.line.len() == 1 && ours {
                    self.tell(Hint::Wanted);
                }
            }
        }
        Attempt::Queued { retry_after }
    }

    pub(super) fn renew(&mut self, now: Instant, sent: Instant, request: &Renew) -> Renewal {
        self.expire(now);
        let demand = self.demand();
        if self.token_of(request.claim.owner).is_none() {
            return Renewal::Lost;
        }
        let tokens = NonZeroU32::new(request.tokens).map(|wish| self.reserve(wish));
        if let Some(held) = &mut self.held {
            held.end = held.end.max(now + request.ttl.duration());
        }
        Renewal::Renewed { valid_until: request.ttl.valid_until(sent), tokens, demand }
    }

    pub(super) fn release(&mut self, now: Instant, claim: &Claim) -> Released {
        self.expire(now);
        self.line.retain(|slot| slot.owner != claim.owner);
        let freed = self.held.take_if(|held| held.owner == claim.owner).is_some();
        self.serve(now, None);
        if !freed {
            return Released::NotHeld;
        }
        if self.held.is_none() {
            self.tell(Hint::Released);
        }
        // Now and then somebody listens who is in no queue.
        Released::Freed { contended: self.held.is_none() && chance(1, 8) }
    }

    /// A release and a place at the end of the queue, if both can be had.
    pub(super) fn exchange(
        &mut self,
        now: Instant,
        claim: &Claim,
        next: &Acquire,
    ) -> (Released, Option<Attempt>) {
        self.expire(now);
        if self.token_of(claim.owner).is_none() || self.line.is_empty() || self.watch.is_none() {
            return (self.release(now, claim), None);
        }
        let place = next.ttl.place().duration();
        let (owner, client) = (next.claim.owner, Client::Process);
        self.line.push_back(Slot { owner, client, end: now + place });
        self.held = None;
        self.serve(now, None);
        let queued = Attempt::Queued { retry_after: Some(place / 3) };
        (Released::Freed { contended: false }, Some(queued))
    }

    pub(super) fn watch(&mut self, number: u64) {
        self.watch = Some(number);
    }

    pub(super) fn unwatch(&mut self, number: u64) {
        self.watch.take_if(|watch| *watch == number);
    }

    pub(super) fn take_messages(&mut self) -> Vec<(u64, Hint)> {
        std::mem::take(&mut self.messages)
    }

    /// The rival renews no more.
    pub(super) fn crash(&mut self, now: Instant) {
        if let Some(held) = &mut self.held {
            held.end = now + ttl().duration();
        }
    }

    /// The first token of this owner's lease, if it has one.
    pub(super) fn token_of(&self, owner: OwnerToken) -> Option<u64> {
        let held = self.held.as_ref().filter(|held| held.owner == owner)?;
        Some(held.tokens.first().get())
    }

    // ---- How ----

    /// Hands a free key to the first in line who lives. Who asks is not told.
    pub(super) fn serve(&mut self, now: Instant, asking: Option<OwnerToken>) {
        self.expire(now);
        while self.held.is_none()
            && let Some(Slot { owner, client, end }) = self.line.pop_front()
        {
            let told = asking != Some(owner) && client == Client::Process;
            if end <= now || told && self.watch.is_none() {
                continue;
            }
            let claim = ttl().claim();
            let tokens = self.hold(client, owner, now + claim.duration(), MOST_TOKENS);
            if told {
                let grant = Grant::new(tokens, claim.valid_until(now)).in_demand(self.demand());
                // It cannot always be proved how much is left.
                let hint = Hint::Granted { owner, grant: chance(3, 4).then_some(grant) };
                self.told = Some(hint);
                self.tell(hint);
            }
            self.tell_next(asking, claim.duration());
        }
    }

    /// Tells the next in line how long the lease lives that was handed over.
    fn tell_next(&mut self, asking: Option<OwnerToken>, after: Duration) {
        if let Some(&Slot { owner, client: Client::Process, .. }) = self.line.front()
            && asking != Some(owner)
        {
            self.tell(Hint::Next { owner, after });
        }
    }

    fn hold(
        &mut self,
        client: Client,
        owner: OwnerToken,
        end: Instant,
        wish: NonZeroU32,
    ) -> TokenRange {
        let end = if client == Client::Rival { Instant::FAR_FUTURE } else { end };
        let tokens = self.reserve(wish);
        self.held = Some(Held { owner, client, end, tokens });
        tokens
    }

    fn reserve(&mut self, wish: NonZeroU32) -> TokenRange {
        // Some ranges adjoin the one before, some do not.
        let first = FencingToken::new(self.counter + 1 + u64::from(chance(1, 2)));
        let tokens = TokenRange::new(first, wish.min(MOST_TOKENS));
        self.counter = tokens.last().get();
        tokens
    }

    fn demand(&self) -> Demand {
        match (self.line.is_empty(), self.watch) {
            (false, _) => Demand::Wanted,
            (true, Some(_)) => Demand::Quiet,
            (true, None) => Demand::Unknown,
        }
    }

    fn tell(&mut self, hint: Hint) {
        self.messages.extend(self.watch.map(|watch| (watch, hint)));
    }

    fn expire(&mut self, now: Instant) {
        self.held.take_if(|held| held.end <= now);
    }

    // ---- What is protected, and the end ----

    /// A holder comes. If its lease is over, it touches nothing.
    pub(super) fn go_in(
        &mut self,
        now: Instant,
        owner: Option<OwnerToken>,
        token: u64,
        inside: Inside,
    ) {
        if !inside.is_valid(now) {
            return;
        }
        let other = self.protected.inside.replace(inside);
        assert!(other.is_none_or(|other| !other.is_valid(now)), "two are inside");
        assert!(token > self.protected.token, "{token} came after {}", self.protected.token);
        self.protected.token = token;
        self.check_holds(now, owner);
        // A message of a grant that is over comes once more.
        if let Some(hint) = self.told.filter(|_| chance(1, 2)) {
            self.tell(hint);
        }
    }

    pub(super) fn come_out(
        &mut self,
        now: Instant,
        owner: Option<OwnerToken>,
        token: u64,
        inside: &Inside,
    ) {
        if inside.is_valid(now) {
            assert_eq!(token, self.protected.token, "somebody else came in");
            self.check_holds(now, owner);
        }
        if token == self.protected.token {
            self.protected.inside = None;
        }
    }

    fn check_holds(&self, now: Instant, owner: Option<OwnerToken>) {
        let held = self.held.as_ref().filter(|held| now < held.end).map(|held| held.owner);
        assert!(owner.is_some() && held == owner, "a valid holder that the store does not know");
    }

    pub(super) fn excuse(&mut self, owner: OwnerToken) {
        self.excused.push(owner);
    }

    pub(super) fn check_nothing_is_left(&mut self, now: Instant) {
        self.expire(now);
        let left = |client, owner| client == Client::Process && !self.excused.contains(&owner);
        let lease = self.held.as_ref().is_some_and(|held| left(held.client, held.owner));
        assert!(!lease, "a lease was left behind");
        let place = self.line.iter().any(|slot| now < slot.end && left(slot.client, slot.owner));
        assert!(!place, "a place in the queue was left behind");
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }
}
