//! The state machine of one key: events in, actions out.
//!
//! It decides everything that happens to a lock inside one process, and does nothing. No runtime,
//! no clock, no I/O: every event brings the time, and what must be done comes back as
//! [`Effects`]. That is why every order of events can be tested.
//!
//! What it upholds, whatever the order of events:
//! - at most one hold is current;
//! - waiters are served in the order in which they came;
//! - the store sees one request of this process per key at a time, and one owner per request;
//! - a claim that may be held on the store is released, or its lease has ended, before the machine
//!   forgets it;
//! - every waiter gets an outcome.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Acquire, Attempt, Claim, Clock, Error, ErrorKind, Grant, Hint, Instant, Key, OwnerToken,
    Released, Renewal, TokenRange, Ttl,
};

use super::lease::Lease;
use super::queue::{Patience, Queue, WaiterId};
use crate::error::{LeaseLost, LossReason};

/// How the locks of one [`Locks`](crate::Locks) behave.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) ttl: Ttl,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// How many hand-offs one grant may serve without the store, and for how long.
    pub(crate) handoffs: u32,
    pub(crate) handoff_time: Duration,
}

/// The right of one holder: what a guard carries.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) hold: u64,
    pub(crate) lease: Arc<Lease>,
    pub(crate) token: lock_core::FencingToken,
    /// The end of the maximum hold.
    pub(crate) hold_until: Instant,
}

/// Why a waiter got no ticket.
#[derive(Clone, Debug)]
pub(crate) enum Denial {
    WouldBlock,
    Timeout(Option<Error>),
    Closed,
    Failed(Error),
}

type Outcome = Result<Ticket, Denial>;

/// How an attempt to enter began.
#[derive(Debug)]
pub(super) enum Entered {
    /// It is over already.
    Done(Outcome),
    /// Send this request on behalf of the waiter, and report with
    /// [`attempt_done`](Machine::attempt_done) no matter what becomes of the waiter.
    Attempt(WaiterId, Acquire),
    /// Somebody else's turn comes first.
    Queued(WaiterId),
}

/// Something to be done on the store. Each is reported back when it is done.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Attempt(Acquire),
    Renew(Claim, Ttl),
    /// Take the claim with [`begin_release`](Machine::begin_release) and release it.
    Release,
    /// Release a claim that no longer matters to the machine.
    Forget(Claim),
    Watch,
    Unwatch,
}

/// When a machine wants to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// A renewal: it may come earlier by the [window](renewal_window).
    pub(crate) flexible: bool,
}

/// What an event asks for, to be done after the machine was unlocked.
#[derive(Debug)]
pub(super) struct Effects<W> {
    wake: Option<W>,
    more: Vec<W>,
    lost: Option<(Arc<Lease>, LeaseLost)>,
    pub(super) ops: Vec<Op>,
}

impl<W> Effects<W> {
    pub(super) fn new() -> Self {
        Self { wake: None, more: Vec::new(), lost: None, ops: Vec::new() }
    }

    fn wake(&mut self, waker: Option<W>) {
        match (&self.wake, waker) {
            (None, waker) => self.wake = waker,
            (Some(_), Some(waker)) => self.more.push(waker),
            (Some(_), None) => {}
        }
    }

    /// Announces a loss, then wakes waiters.
    pub(super) fn wake_all(&mut self, wake: impl Fn(W), announced: impl Fn(LeaseLost)) {
        if let Some((lease, loss)) = self.lost.take() {
            lease.announce();
            announced(loss);
        }
        self.wake.take().into_iter().chain(self.more.drain(..)).for_each(wake);
    }
}

#[derive(Debug)]
pub(super) struct Machine<W> {
    key: Key,
    policy: Policy,
    clock: Clock,
    owners: fn() -> Result<OwnerToken, Error>,
    phase: Phase,
    queue: Queue<W, Outcome>,
    watch: Watching,
    closed: bool,
    /// How many holds there have been: the name of the current one.
    holds: u64,
    /// How many tokens the last lease used: the measure for the next reservation.
    used_last: u32,
}

/// What the store knows of this process.
#[derive(Debug)]
enum Phase {
    /// Nothing.
    Idle,
    /// A request is under way.
    Attempting {
        claim: Claim,
        /// No earlier request for it was answered.
        fresh: bool,
        /// The store stopped answering: the claim may be held.
        outage: Option<Outage>,
        /// A hint came meanwhile: a refusal may be out of date.
        again: bool,
    },
    /// Refused: waiting for a hint, or for the time to ask again.
    Waiting {
        claim: Claim,
        outage: Option<Outage>,
        /// The claim has a place in the store's queue.
        placed: bool,
        /// Hints before this are answered at this: others go first.
        yielding: Option<Instant>,
        until: Instant,
    },
    /// Held by the current hold.
    Held(Held),
    /// The lease is lost, but the guard of this hold lives, and with it a way to the data. Those who
    /// wait here wait for its end; the lock is others' meanwhile.
    Lost { hold: u64 },
    /// Given up by the last holder, not yet by the store.
    Releasing {
        held: Held,
        stage: Stage,
        /// The store stopped answering.
        outage: Option<Outage>,
    },
}

#[derive(Debug)]
struct Held {
    claim: Claim,
    lease: Arc<Lease>,
    tokens: TokenRange,
    used: u32,
    granted: Instant,
    hold: u64,
    hold_until: Instant,
    renew_at: Instant,
    renewing: bool,
    /// There is nothing here to hand over.
    spent: bool,
}

#[derive(Debug)]
enum Stage {
    /// Nothing was sent yet: the lease can still be used.
    Queued,
    Sent,
    /// It failed, and is due again at this instant.
    Failed(Instant),
}

#[derive(Clone, Debug)]
struct Outage {
    since: Instant,
    error: Error,
    tries: u32,
}

impl Outage {
    /// The outage so far, and one more failure.
    fn continued(before: Option<Self>, now: Instant, error: Error) -> Self {
        let (since, tries) = before.map_or((now, 0), |outage| (outage.since, outage.tries + 1));
        Self { since, error, tries }
    }
}

#[derive(Debug)]
enum Watching {
    Off,
    Starting { failures: u32 },
    On { failures: u32 },
    Failed { retry: Instant, failures: u32 },
}

/// When a holder without an end is asked about again, should no hint come.
const RECHECK_ENDLESS: Duration = Duration::from_secs(5);
/// A lease is handed over only if at least this much of it is left.
const MIN_SLICE: Duration = Duration::from_millis(1);
/// After a release for which others waited, a process with waiters of its own asks again only after
/// the first if a hint says that it may, and after the second in any case. The hint may be the echo
/// of its own release, so the first leaves the others time to come.
const YIELD: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));
/// Back-off after failures: from here, doubling, up to there.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Tokens reserved when nothing is known about the demand.
const RESERVE: u32 = 8;

impl<W> Machine<W> {
    pub(super) fn new(
        key: Key,
        policy: Policy,
        clock: Clock,
        owners: fn() -> Result<OwnerToken, Error>,
    ) -> Self {
        Self {
            key,
            policy,
            clock,
            owners,
            phase: Phase::Idle,
            queue: Queue::new(),
            watch: Watching::Off,
            closed: false,
            holds: 0,
            used_last: 0,
        }
    }

    /// Whether nothing is held, wanted or under way.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.queue.is_empty()
    }

    /// Whose claim it is that is held, wanted or given up.
    #[cfg(test)]
    pub(super) fn owner(&self) -> Option<OwnerToken> {
        match &self.phase {
            Phase::Idle | Phase::Lost { .. } => None,
            Phase::Attempting { claim, .. } | Phase::Waiting { claim, .. } => Some(claim.owner),
            Phase::Held(held) | Phase::Releasing { held, .. } => Some(held.claim.owner),
        }
    }

    /// Whether a renewal of the current lease is under way.
    #[cfg(test)]
    pub(super) fn is_renewing(&self) -> bool {
        matches!(&self.phase, Phase::Held(held) if held.renewing)
    }

    /// Whether a hold is current.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held(_))
    }

    // ---- Waiters ----

    /// A task wants the lock.
    pub(super) fn enter(&mut self, now: Instant, patience: Patience) -> Entered {
        if self.closed {
            return Entered::Done(Err(Denial::Closed));
        }
        match &self.phase {
            Phase::Idle => {
                let id = self.queue.push(patience);
                return match self.begin_attempt(None) {
                    Ok(request) => Entered::Attempt(id, request),
                    Err(error) => {
                        self.queue.remove(id);
                        Entered::Done(Err(Denial::Failed(error)))
                    }
                };
            }
            Phase::Releasing { stage: Stage::Queued, .. } if self.queue.is_empty() => {
                if let Some(ticket) = self.reclaim(now) {
                    return Entered::Done(Ok(ticket));
                }
            }
            // An attempt that nobody waits for any more, or a release under way: its end decides.
            Phase::Attempting { .. } | Phase::Releasing { .. } if self.queue.is_empty() => {}
            _ if patience == Patience::Try => return Entered::Done(Err(Denial::WouldBlock)),
            _ => {}
        }
        Entered::Queued(self.queue.push(patience))
    }

    /// A waiter asks what became of it; `None` leaves its waker.
    pub(super) fn poll(
        &mut self,
        id: WaiterId,
        waker: impl FnOnce(Option<W>) -> W,
    ) -> Option<Outcome> {
        if self.queue.park(id, waker) { None } else { self.queue.take(id) }
    }

    /// Takes back the waker that a waiter has left.
    pub(super) fn unpark(&mut self, id: WaiterId) -> Option<W> {
        self.queue.unpark(id)
    }

    /// A waiter leaves, whatever its state.
    pub(super) fn cancel(&mut self, now: Instant, id: WaiterId, effects: &mut Effects<W>) {
        match self.queue.remove(id) {
            Some(Ok(ticket)) => {
                self.release(now, ticket.hold, effects);
            }
            Some(Err(_)) | None => self.settle_empty(now, effects),
        }
    }

    // ---- Holds ----

    /// A holder is done. Returns `false` if the hold was over before.
    pub(super) fn release(&mut self, now: Instant, hold: u64, effects: &mut Effects<W>) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Held(held) if held.hold == hold => {
                // A deadline that has passed unnoticed: the holder must hear of it.
                let valid = held.lease.is_valid(now) && now < held.hold_until;
                self.pass_on(now, held, effects);
                valid
            }
            Phase::Lost { hold: lost } if lost == hold => {
                self.next_attempt(effects);
                false
            }
            other => {
                self.phase = other;
                false
            }
        }
    }

    /// Takes the claim that is to be released, if it still is.
    pub(super) fn begin_release(&mut self) -> Option<Claim> {
        match &mut self.phase {
            Phase::Releasing { held, stage: stage @ Stage::Queued, .. } => {
                *stage = Stage::Sent;
                Some(held.claim.clone())
            }
            _ => None,
        }
    }

    /// The store answered to a release.
    pub(super) fn release_done(
        &mut self,
        now: Instant,
        result: Result<Released, Error>,
        effects: &mut Effects<W>,
    ) {
        let Phase::Releasing { held, stage: stage @ Stage::Sent, outage } = &mut self.phase else {
            return;
        };
        let contended = match result {
            Ok(Released::Freed { contended }) => contended,
            Ok(_) => false,
            // The lease ends by itself at its deadline; until then it is worth trying again.
            Err(error) if error.is_retryable() && now < held.lease.deadline() => {
                let trouble = Outage::continued(outage.take(), now, error.clone());
                *stage = Stage::Failed(now + backoff(trouble.tries, &held.claim));
                *outage = Some(trouble);
                self.deny_tries(&Denial::Failed(error), effects);
                return;
            }
            Err(error) => {
                // Whoever waits has waited for the store since then.
                let trouble =
                    error.is_retryable().then(|| Outage::continued(outage.take(), now, error));
                self.used_last = held.used;
                self.phase = Phase::Idle;
                return self.next_attempt_after(trouble, effects);
            }
        };
        self.used_last = held.used;
        self.phase = Phase::Idle;
        if contended && !self.queue.is_empty() {
            self.yield_to_others(now, effects);
        } else {
            self.next_attempt(effects);
        }
    }

    // ---- Attempts ----

    /// The store answered to a request.
    pub(super) fn attempt_done(
        &mut self,
        now: Instant,
        result: Result<Attempt, Error>,
        effects: &mut Effects<W>,
    ) {
        let (claim, outage, again) = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Attempting { claim, outage, again, .. } => (claim, outage, again),
            other => {
                debug_assert!(false, "an answer without a request: {other:?}");
                self.phase = other;
                return;
            }
        };
        match result {
            Ok(Attempt::Granted(grant)) => self.granted(now, claim, grant, effects),
            Ok(Attempt::Busy { retry_after }) => {
                self.refused(now, claim, false, again, retry_after, effects);
            }
            Ok(Attempt::Queued { retry_after }) => {
                self.refused(now, claim, true, again, retry_after, effects);
            }
            Ok(_) => {
                let error = Error::new(ErrorKind::Protocol, "an outcome this version cannot read");
                self.failed(now, claim, outage, error, effects);
            }
            Err(error) => self.failed(now, claim, outage, error, effects),
        }
    }

    // ---- Renewals ----

    /// The store answered to a renewal of this claim.
    pub(super) fn renew_done(
        &mut self,
        now: Instant,
        claim: &Claim,
        sent: Instant,
        renewal: Renewal,
        effects: &mut Effects<W>,
    ) {
        let ttl = self.policy.ttl.duration();
        let (held, current) = match &mut self.phase {
            Phase::Held(held) => (held, true),
            // Given up meanwhile, but somebody may take it back.
            Phase::Releasing { held, .. } => (held, false),
            _ => return,
        };
        if held.claim.owner != claim.owner {
            return;
        }
        held.renewing = false;
        let loss = match renewal {
            // Once its deadline has passed a lease is lost for good: a guard that has reported so must
            // not become valid again.
            _ if !held.lease.is_valid(now) => LossReason::Expired,
            Renewal::Lost => LossReason::Revoked,
            Renewal::Renewed { valid_until, .. } => {
                held.lease.extend(valid_until);
                held.renew_at = sent + ttl / 3;
                return;
            }
            // The deadline stands. Ask again while there is time.
            _ => {
                held.renew_at = now + ttl / 10;
                return;
            }
        };
        if current {
            self.lose(loss, effects);
        } else {
            held.spent = true;
        }
    }

    /// A claim turned out to be held that may have been given up before.
    pub(super) fn forget_unless_known(&mut self, claim: Claim, effects: &mut Effects<W>) {
        let known = match &self.phase {
            Phase::Attempting { claim, .. } | Phase::Waiting { claim, .. } => Some(claim),
            Phase::Held(held) | Phase::Releasing { held, stage: Stage::Queued, .. } => {
                Some(&held.claim)
            }
            // Its release may have been served before.
            Phase::Idle | Phase::Releasing { .. } | Phase::Lost { .. } => None,
        };
        if known.is_none_or(|known| known.owner != claim.owner) {
            effects.ops.push(Op::Forget(claim));
        }
    }

    // ---- Hints ----

    /// The watch is in place: what happened before it is unknown.
    pub(super) fn watch_started(&mut self, now: Instant, effects: &mut Effects<W>) {
        if let Watching::Starting { failures } = self.watch {
            self.watch = Watching::On { failures };
            self.hint(now, Hint::Resync, effects);
        }
    }

    /// The watch could not be put in place, or has ended.
    pub(super) fn watch_ended(
        &mut self,
        now: Instant,
        error: Option<&Error>,
        effects: &mut Effects<W>,
    ) {
        let (failures, was_on) = match self.watch {
            Watching::On { failures } => (failures, true),
            Watching::Starting { failures } => (failures, false),
            Watching::Off | Watching::Failed { .. } => return,
        };
        let retry = match error {
            Some(error) if !error.is_retryable() => Instant::FAR_FUTURE,
            _ => now + doubled(BACKOFF.0, failures).min(BACKOFF.1),
        };
        self.watch = Watching::Failed { retry, failures: failures.saturating_add(1) };
        if was_on {
            self.hint(now, Hint::Resync, effects);
        }
    }

    /// A hint about the key.
    pub(super) fn hint(&mut self, now: Instant, hint: Hint, effects: &mut Effects<W>) {
        if let (Watching::On { failures }, false) = (&mut self.watch, hint == Hint::Resync) {
            *failures = 0;
        }
        match &mut self.phase {
            Phase::Attempting { again, .. } => *again = true,
            // A store out of reach is not asked more often because it flickers.
            Phase::Waiting { outage: None, yielding: Some(end), until, .. } if now < *end => {
                *until = (*until).min(*end);
            }
            Phase::Waiting { outage: None, .. } => self.ask_again(now, effects),
            _ => {}
        }
    }

    // ---- Time ----

    /// When [`tick`](Self::tick) has something to do, if nothing else happens.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        let phase = match &self.phase {
            Phase::Idle | Phase::Attempting { .. } | Phase::Lost { .. } => None,
            Phase::Waiting { until, .. } => Some(match self.watch {
                Watching::Failed { retry, .. } => (*until).min(retry),
                _ => *until,
            }),
            Phase::Held(held) => Some(held.lease.deadline().min(held.hold_until)),
            Phase::Releasing { stage: Stage::Failed(retry), .. } => Some(*retry),
            Phase::Releasing { .. } => None,
        };
        let exact = [phase, self.queue.first_limit()].into_iter().flatten().min();
        let renewal = match &self.phase {
            Phase::Held(held) if self.policy.renew && !held.renewing => Some(held.renew_at),
            _ => None,
        };
        match (exact, renewal) {
            (Some(at), Some(renewal)) if at <= renewal => Some(Deadline { at, flexible: false }),
            (_, Some(at)) => Some(Deadline { at, flexible: true }),
            (exact, None) => exact.map(|at| Deadline { at, flexible: false }),
        }
    }

    /// Whether the claim that is given up waits for another try.
    pub(super) fn is_retrying(&self) -> bool {
        matches!(self.phase, Phase::Releasing { stage: Stage::Failed(_), .. })
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.expire_waiters(now, effects);
        match &mut self.phase {
            Phase::Waiting { until, .. } if now >= *until => self.ask_again(now, effects),
            Phase::Waiting { .. } => self.watch_again(now, effects),
            Phase::Held(held) if !held.lease.is_valid(now) => {
                self.lose(LossReason::Expired, effects);
            }
            Phase::Held(held) if now >= held.hold_until => {
                self.lose(LossReason::HeldTooLong, effects);
            }
            Phase::Held(held)
                if self.policy.renew
                    && !held.renewing
                    && now + renewal_window(self.policy.ttl) >= held.renew_at =>
            {
                held.renewing = true;
                effects.ops.push(Op::Renew(held.claim.clone(), self.policy.ttl));
            }
            Phase::Releasing { stage, .. } if matches!(*stage, Stage::Failed(retry) if now >= retry) =>
            {
                *stage = Stage::Queued;
                effects.ops.push(Op::Release);
            }
            _ => {}
        }
    }

    /// Refuses newcomers and sends the waiters home. The current hold goes on.
    pub(super) fn close(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.closed = true;
        self.deny_all(&Denial::Closed, effects);
        self.settle_empty(now, effects);
    }

    // ---- Inside ----

    /// Draws an owner and asks for the lock.
    fn begin_attempt(&mut self, outage: Option<Outage>) -> Result<Acquire, Error> {
        let claim = Claim::exclusive(self.key.clone(), (self.owners)()?);
        Ok(self.request(claim, true, outage))
    }

    fn request(&mut self, claim: Claim, fresh: bool, outage: Option<Outage>) -> Acquire {
        let request = Acquire::new(claim.clone(), self.policy.ttl).reserving(self.reserve());
        self.phase = Phase::Attempting { claim, fresh, outage, again: false };
        match self.queue.first() {
            // Who does not wait needs no place in the store's queue.
            Some((_, Patience::Try)) => request,
            _ => request.queued(),
        }
    }

    /// How many fencing tokens to reserve: twice the demand, so that a rising one is met, and no
    /// more, because every reserved token moves the counter.
    fn reserve(&self) -> NonZeroU32 {
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let demand = waiting.max(self.used_last).saturating_mul(2).max(RESERVE);
        NonZeroU32::MIN.saturating_add(demand.min(self.policy.handoffs))
    }

    fn next_attempt(&mut self, effects: &mut Effects<W>) {
        self.next_attempt_after(None, effects);
    }

    fn next_attempt_after(&mut self, outage: Option<Outage>, effects: &mut Effects<W>) {
        if self.queue.is_empty() {
            return self.stop_watching(effects);
        }
        match self.begin_attempt(outage) {
            Ok(request) => effects.ops.push(Op::Attempt(request)),
            Err(error) => self.cannot_ask(error, effects),
        }
    }

    /// Asks again with the same claim: if it is held after all, the store says so.
    fn ask_again(&mut self, now: Instant, effects: &mut Effects<W>) {
        if let Phase::Waiting { claim, outage, .. } =
            std::mem::replace(&mut self.phase, Phase::Idle)
        {
            let request = self.request(claim, outage.is_some(), outage);
            effects.ops.push(Op::Attempt(request));
            self.watch_again(now, effects);
        }
    }

    fn granted(&mut self, now: Instant, claim: Claim, grant: Grant, effects: &mut Effects<W>) {
        if grant.valid_until <= now {
            // It came too late to be of use.
            effects.ops.push(Op::Forget(claim));
            return self.next_attempt(effects);
        }
        let held = Held {
            lease: Arc::new(Lease::new(self.clock, grant.valid_until)),
            claim,
            tokens: grant.tokens,
            used: 0,
            granted: now,
            hold: 0,
            hold_until: Instant::FAR_FUTURE,
            renew_at: grant.valid_until - self.policy.ttl.duration() * 2 / 3
                + self.policy.ttl.drift(),
            renewing: false,
            spent: false,
        };
        self.pass_on(now, held, effects);
    }

    /// Gives a lease without a holder to the first in line, or back to the store.
    fn pass_on(&mut self, now: Instant, mut held: Held, effects: &mut Effects<W>) {
        match self.queue.first() {
            Some((id, _)) if self.may_hand_over(now, &held) => {
                let ticket = self.ticket(now, &mut held);
                self.phase = Phase::Held(held);
                let waker = self.queue.settle(id, Ok(ticket));
                effects.wake(waker);
                if self.queue.is_empty() {
                    self.stop_watching(effects);
                }
            }
            first => {
                if first.is_none() {
                    self.stop_watching(effects);
                }
                self.give_up(held, effects);
            }
        }
    }

    fn give_up(&mut self, held: Held, effects: &mut Effects<W>) {
        self.phase = Phase::Releasing { held, stage: Stage::Queued, outage: None };
        effects.ops.push(Op::Release);
    }

    /// Takes a lease back that was given up but not yet released.
    fn reclaim(&mut self, now: Instant) -> Option<Ticket> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Releasing { mut held, stage: Stage::Queued, .. }
                if self.may_hand_over(now, &held) =>
            {
                let ticket = self.ticket(now, &mut held);
                self.phase = Phase::Held(held);
                Some(ticket)
            }
            other => {
                self.phase = other;
                None
            }
        }
    }

    fn may_hand_over(&self, now: Instant, held: &Held) -> bool {
        if held.spent || !held.lease.is_valid(now) {
            return false;
        }
        let first = held.used == 0;
        first
            || now < held.granted + self.policy.handoff_time
                && held.tokens.nth(held.used).is_some()
                && now + MIN_SLICE < held.lease.deadline()
    }

    fn ticket(&mut self, now: Instant, held: &mut Held) -> Ticket {
        // `may_hand_over` has seen that the range reaches this far.
        let token = held.tokens.nth(held.used).unwrap_or(held.tokens.last());
        held.used += 1;
        self.holds += 1;
        held.hold = self.holds;
        held.hold_until =
            self.policy.max_hold.map_or(Instant::FAR_FUTURE, |max_hold| now + max_hold);
        Ticket {
            hold: held.hold,
            lease: Arc::clone(&held.lease),
            token,
            hold_until: held.hold_until,
        }
    }

    fn refused(
        &mut self,
        now: Instant,
        claim: Claim,
        placed: bool,
        again: bool,
        retry_after: Option<Duration>,
        effects: &mut Effects<W>,
    ) {
        self.phase = Phase::Waiting {
            until: now + retry_after.map_or(RECHECK_ENDLESS, |after| after + jitter(&claim)),
            claim,
            outage: None,
            placed,
            yielding: None,
        };
        self.deny_tries(&Denial::WouldBlock, effects);
        if self.queue.is_empty() {
            self.settle_empty(now, effects);
        } else if again {
            self.ask_again(now, effects);
        } else {
            self.watch_again(now, effects);
        }
    }

    fn failed(
        &mut self,
        now: Instant,
        claim: Claim,
        outage: Option<Outage>,
        error: Error,
        effects: &mut Effects<W>,
    ) {
        let outage = Outage::continued(outage, now, error.clone());
        let lasting = now >= outage.since + self.policy.ttl.duration();
        let curable = error.is_retryable();
        let until = now + backoff(outage.tries, &claim);
        let outage = Some(outage);
        self.phase = Phase::Waiting { claim, outage, placed: false, yielding: None, until };
        if curable {
            self.deny_tries(&Denial::Failed(error.clone()), effects);
        }
        if !curable || lasting {
            // Those who set a limit are ready to wait for the store as well, if that can help.
            self.deny_unless(&Denial::Failed(error), effects, |patience| {
                curable && matches!(patience, Patience::Until(_))
            });
        }
        self.settle_empty(now, effects);
    }

    /// Lets other processes go first, then asks for the lock.
    fn yield_to_others(&mut self, now: Instant, effects: &mut Effects<W>) {
        match (self.owners)() {
            Ok(owner) => {
                let claim = Claim::exclusive(self.key.clone(), owner);
                let until = now + YIELD.1 + jitter(&claim);
                self.phase = Phase::Waiting {
                    claim,
                    outage: None,
                    placed: false,
                    yielding: Some(now + YIELD.0),
                    until,
                };
                self.watch_again(now, effects);
            }
            Err(error) => self.cannot_ask(error, effects),
        }
    }

    /// There is no owner to ask for.
    fn cannot_ask(&mut self, error: Error, effects: &mut Effects<W>) {
        self.deny_all(&Denial::Failed(error), effects);
        self.stop_watching(effects);
    }

    fn lose(&mut self, reason: LossReason, effects: &mut Effects<W>) {
        let held = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Held(held) => held,
            other => {
                self.phase = other;
                return;
            }
        };
        held.lease.end(held.hold, reason);
        effects.lost = Some((held.lease, LeaseLost::new(reason)));
        self.used_last = held.used;
        if reason != LossReason::Revoked {
            // The store may still have it for a moment; there is no reason to make others wait.
            effects.ops.push(Op::Forget(held.claim));
        }
        self.stop_watching(effects);
        self.phase = Phase::Lost { hold: held.hold };
    }

    /// There is no driver any more: nobody renews, releases or listens.
    pub(super) fn stop(&mut self, now: Instant, error: &Error, effects: &mut Effects<W>) {
        self.closed = true;
        self.deny_all(&Denial::Failed(error.clone()), effects);
        self.lose(LossReason::DriverStopped, effects);
        self.settle_empty(now, effects);
    }

    fn expire_waiters(&mut self, now: Instant, effects: &mut Effects<W>) {
        let mut expired = false;
        while let Some(id) = self.queue.overdue(now) {
            let error = match &self.phase {
                Phase::Waiting { outage, .. }
                | Phase::Attempting { outage: outage @ Some(_), .. }
                | Phase::Releasing { outage, .. } => {
                    outage.as_ref().map(|outage| outage.error.clone())
                }
                Phase::Attempting { fresh: true, .. } => {
                    Some(Error::new(ErrorKind::Timeout, "the backend has not answered yet"))
                }
                _ => None,
            };
            let waker = self.queue.settle(id, Err(Denial::Timeout(error)));
            effects.wake(waker);
            expired = true;
        }
        if expired {
            self.settle_empty(now, effects);
        }
    }

    /// Lets go of a claim that nobody here waits for any more.
    fn settle_empty(&mut self, now: Instant, effects: &mut Effects<W>) {
        if !self.queue.is_empty() {
            return;
        }
        self.stop_watching(effects);
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            // The claim may be held, or have a place in the queue: the store must hear of it.
            Phase::Waiting { claim, outage, placed, .. } if outage.is_some() || placed => {
                let end = now + self.policy.ttl.duration();
                let held = Held {
                    claim,
                    lease: Arc::new(Lease::new(self.clock, end)),
                    tokens: TokenRange::single(lock_core::FencingToken::new(0)),
                    used: 0,
                    granted: now,
                    hold: 0,
                    hold_until: Instant::FAR_FUTURE,
                    renew_at: Instant::FAR_FUTURE,
                    renewing: false,
                    spent: true,
                };
                self.give_up(held, effects);
            }
            Phase::Waiting { .. } => {}
            other => self.phase = other,
        }
    }

    fn watch_again(&mut self, now: Instant, effects: &mut Effects<W>) {
        let failures = match self.watch {
            Watching::Off => 0,
            Watching::Failed { retry, failures } if now >= retry => failures,
            _ => return,
        };
        self.watch = Watching::Starting { failures };
        effects.ops.push(Op::Watch);
    }

    fn stop_watching(&mut self, effects: &mut Effects<W>) {
        if !matches!(self.watch, Watching::Off) {
            self.watch = Watching::Off;
            effects.ops.push(Op::Unwatch);
        }
    }

    /// Denies those at the front who did not come to wait.
    fn deny_tries(&mut self, denial: &Denial, effects: &mut Effects<W>) {
        while let Some((id, Patience::Try)) = self.queue.first() {
            let waker = self.queue.settle(id, Err(denial.clone()));
            effects.wake(waker);
        }
    }

    fn deny_all(&mut self, denial: &Denial, effects: &mut Effects<W>) {
        self.deny_unless(denial, effects, |_| false);
    }

    fn deny_unless(
        &mut self,
        denial: &Denial,
        effects: &mut Effects<W>,
        spare: impl Fn(Patience) -> bool,
    ) {
        for id in self.queue.waiting() {
            if self.queue.patience(id).is_some_and(|patience| !spare(patience)) {
                let waker = self.queue.settle(id, Err(denial.clone()));
                effects.wake(waker);
            }
        }
    }
}

/// How much earlier than at a third of its time a lease may be renewed, in company.
pub(crate) fn renewal_window(ttl: Ttl) -> Duration {
    ttl.duration() / 30
}

fn doubled(base: Duration, times: u32) -> Duration {
    base.saturating_mul(1 << times.min(16))
}

/// The pause before the next try: doubling, with full jitter in its upper half.
fn backoff(tries: u32, claim: &Claim) -> Duration {
    let most = doubled(BACKOFF.0, tries).min(BACKOFF.1);
    most / 2 + most.mul_f64(fraction(claim, tries) / 2.0)
}

/// A little beyond the end of a lease, and not for everybody at once.
fn jitter(claim: &Claim) -> Duration {
    Duration::from_millis(1) + Duration::from_millis(9).mul_f64(fraction(claim, 0))
}

/// A number between 0 and 1. Owner tokens are random: no other source is needed.
fn fraction(claim: &Claim, salt: u32) -> f64 {
    let random = claim.owner.expose().iter().fold(salt, |hash, digit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(*digit)).rotate_left(7)
    });
    f64::from(random) / f64::from(u32::MAX)
}
