//! The store: one key, its holder, its queue, and the resource that the key protects.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Weak;
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use lock_core::{
    Acquire, AcquireOutcome, Claim, Contention, FencingToken, Grant, Hint, Instant, OwnerToken,
    Released, Renew, Renewal, TokenRange,
};
use lock_interleavings::OwnedMutexGuard;

use super::{chance, ttl};

/// How many tokens a request gets: so few that they run out, or so many that the process asks for no more.
const FEW_TOKENS: NonZeroU32 = NonZeroU32::new(3).unwrap();
const MANY_TOKENS: NonZeroU32 = NonZeroU32::new(5000).unwrap();

pub(super) struct Store {
    /// How many holders of the process may follow one another on a lease while other claims may wait.
    budget: u32,
    /// Each grant brings more tokens than the process needs. Otherwise tokens run out.
    generous: bool,
    held: Option<Held>,
    line: VecDeque<Slot>,
    counter: u64,
    /// The watch of the process. Messages to the process go there.
    watch: Option<UnboundedSender<Hint>>,
    /// The latest grant that the process was told of.
    told: Option<Hint>,
    /// The owners of releases that failed. The process need not repeat a release after the lease is over for the
    /// holder. A renewal whose answer was lost may have made the lease longer than that.
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
    /// The tokens of the grant.
    tokens: TokenRange,
    /// The tokens of renewals.
    more: Vec<TokenRange>,
    /// The process was told that no other claim waits.
    quiet: bool,
    /// The holders of the process so far.
    holders: u32,
}

impl Held {
    fn has(&self, token: u64) -> bool {
        let mut ranges = std::iter::once(&self.tokens).chain(&self.more);
        ranges.any(|range| (range.first().get()..=range.last().get()).contains(&token))
    }
}

#[derive(Debug)]
struct Slot {
    owner: OwnerToken,
    client: Client,
    end: Instant,
}

/// The resource. One holder at a time uses it, and each with a higher token than the one before.
#[derive(Debug, Default)]
struct Protected {
    token: u64,
    inside: Option<Inside>,
}

#[derive(Clone, Debug)]
pub(super) enum Inside {
    Task(Weak<OwnedMutexGuard<()>>),
    Rival,
}

impl Inside {
    fn is_valid(&self) -> bool {
        match self {
            Self::Task(guard) => {
                guard.upgrade().is_some_and(|guard| OwnedMutexGuard::lease(&guard).is_valid())
            }
            Self::Rival => true,
        }
    }
}

impl Store {
    pub(super) fn new(budget: u32, generous: bool) -> Self {
        Self {
            budget,
            generous,
            held: None,
            line: VecDeque::new(),
            counter: 0,
            watch: None,
            told: None,
            excused: Vec::new(),
            protected: Protected::default(),
        }
    }

    // ---- The verbs ----

    pub(super) fn acquire(
        &mut self,
        now: Instant,
        sent: Instant,
        client: Client,
        request: &Acquire,
    ) -> AcquireOutcome {
        let owner = request.claim.owner;
        self.serve(now, Some(owner));
        if self.held.is_none() && self.line.is_empty() {
            self.hold(client, owner, now + request.ttl.duration(), request.tokens);
        }
        let contention = self.contention();
        let place = request.ttl.for_place().duration();
        let left = match &mut self.held {
            Some(held) if held.owner == owner => {
                held.end = held.end.max(now + request.ttl.duration());
                held.quiet |= contention == Contention::Quiet;
                let valid_until = request.ttl.valid_until(sent);
                return AcquireOutcome::Granted(
                    Grant::new(held.tokens, valid_until).with_contention(contention),
                );
            }
            Some(held) => held.end.saturating_duration_since(now),
            None => place,
        };
        let retry_after = Some(left.min(place / 3));
        if !request.queue || client == Client::Process && !self.is_watched() {
            return AcquireOutcome::Busy { retry_after };
        }
        match self.line.iter_mut().find(|slot| slot.owner == owner) {
            Some(slot) => slot.end = slot.end.max(now + place),
            None => {
                let end = if client == Client::Rival { Instant::FAR_FUTURE } else { now + place };
                self.line.push_back(Slot { owner, client, end });
                let ours = self.held.as_ref().is_some_and(|held| held.client == Client::Process);
                if self.line.len() == 1 && ours {
                    self.tell(Hint::Contended);
                }
            }
        }
        AcquireOutcome::Queued { retry_after }
    }

    pub(super) fn renew(&mut self, now: Instant, sent: Instant, request: &Renew) -> Renewal {
        self.expire(now);
        let contention = self.contention();
        if self.token_of(request.claim.owner).is_none() {
            return Renewal::Lost;
        }
        let tokens = NonZeroU32::new(request.tokens).map(|wish| self.reserve(wish));
        if let Some(held) = &mut self.held {
            held.end = held.end.max(now + request.ttl.duration());
            held.quiet |= contention == Contention::Quiet;
            held.more.extend(tokens);
        }
        Renewal::Renewed { valid_until: request.ttl.valid_until(sent), tokens, contention }
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
        // Now and then a client listens that has no place in the queue.
        Released::Freed { told: u32::from(self.held.is_none() && chance(1, 8)) }
    }

    /// A release and a place at the end of the queue, if both can be had.
    pub(super) fn release_and_requeue(
        &mut self,
        now: Instant,
        claim: &Claim,
        next: &Acquire,
    ) -> (Released, Option<AcquireOutcome>) {
        self.expire(now);
        if self.token_of(claim.owner).is_none() || self.line.is_empty() || !self.is_watched() {
            return (self.release(now, claim), None);
        }
        let place = next.ttl.for_place().duration();
        let (owner, client) = (next.claim.owner, Client::Process);
        self.line.push_back(Slot { owner, client, end: now + place });
        self.held = None;
        self.serve(now, None);
        let queued = AcquireOutcome::Queued { retry_after: Some(place / 3) };
        (Released::Freed { told: 0 }, Some(queued))
    }

    pub(super) fn watch(&mut self) -> UnboundedReceiver<Hint> {
        let (sender, messages) = unbounded();
        self.watch = Some(sender);
        messages
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

    /// Hands a free key to the first live claim in the queue. The claim that asks hears of it by its answer.
    pub(super) fn serve(&mut self, now: Instant, asking: Option<OwnerToken>) {
        self.expire(now);
        while self.held.is_none()
            && let Some(Slot { owner, client, end }) = self.line.pop_front()
        {
            let told = asking != Some(owner) && client == Client::Process;
            if end <= now || told && !self.is_watched() {
                continue;
            }
            let claim = ttl().for_grant();
            let tokens = self.hold(client, owner, now + claim.duration(), FEW_TOKENS);
            if told {
                let contention = self.contention();
                if let Some(held) = &mut self.held {
                    held.quiet |= contention == Contention::Quiet;
                }
                let grant = Grant::new(tokens, claim.valid_until(now)).with_contention(contention);
                // The store cannot always prove how much time is left.
                let hint = Hint::Granted { owner, grant: chance(3, 4).then_some(grant) };
                self.told = Some(hint.clone());
                self.tell(hint);
            }
            self.tell_next(asking, claim.duration());
        }
    }

    /// Tells the next claim in the queue how long the lease before it lives.
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
        self.held =
            Some(Held { owner, client, end, tokens, more: Vec::new(), quiet: false, holders: 0 });
        tokens
    }

    fn reserve(&mut self, wish: NonZeroU32) -> TokenRange {
        // Some ranges adjoin the one before, some do not.
        let first = FencingToken::new(self.counter + 1 + u64::from(chance(1, 2)));
        let tokens =
            TokenRange::new(first, if self.generous { MANY_TOKENS } else { wish.min(FEW_TOKENS) });
        self.counter = tokens.last().get();
        tokens
    }

    fn contention(&self) -> Contention {
        match (self.line.is_empty(), self.is_watched()) {
            (false, _) => Contention::Contended,
            (true, true) => Contention::Quiet,
            (true, false) => Contention::Unknown,
        }
    }

    fn tell(&mut self, hint: Hint) {
        if let Some(watch) = &self.watch {
            // The process may have stopped listening.
            watch.unbounded_send(hint).unwrap_or_default();
        }
    }

    fn expire(&mut self, now: Instant) {
        self.held.take_if(|held| held.end <= now);
    }

    // ---- The resource, and the end ----

    /// A holder begins to use the resource. If its lease is over, it does not.
    pub(super) fn go_in(&mut self, now: Instant, token: u64, inside: Inside) {
        if !inside.is_valid() {
            return;
        }
        self.check_holds(now, token);
        self.check_budget(&inside);
        let other = self.protected.inside.replace(inside);
        assert!(other.is_none_or(|other| !other.is_valid()), "two are inside");
        assert!(token > self.protected.token, "{token} came after {}", self.protected.token);
        self.protected.token = token;
        // A message of a grant that is over comes once more.
        if let Some(hint) = self.told.clone().filter(|_| chance(1, 2)) {
            self.tell(hint);
        }
    }

    pub(super) fn come_out(&mut self, now: Instant, token: u64, inside: &Inside) {
        if inside.is_valid() {
            assert_eq!(token, self.protected.token, "another holder came in");
            self.check_holds(now, token);
        }
        if token == self.protected.token {
            self.protected.inside = None;
        }
    }

    fn check_holds(&self, now: Instant, token: u64) {
        let held = self.held.as_ref().filter(|held| now < held.end);
        let known = held.is_some_and(|held| held.has(token));
        assert!(known, "a valid holder that the store does not know");
    }

    /// Until the store tells the process that no other claim waits, each holder on a lease counts against its budget.
    fn check_budget(&mut self, inside: &Inside) {
        if let (Inside::Task(_), Some(held)) = (inside, &mut self.held) {
            held.holders += 1;
            let within = held.quiet || held.holders <= 1 + self.budget;
            assert!(within, "other claims may wait, and the budget is used up");
        }
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
        self.watch.as_ref().is_some_and(|watch| !watch.is_closed())
    }
}
