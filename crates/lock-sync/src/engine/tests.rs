//! The machine against a store that answers as it likes, in any order of events.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{
    Acquire, Attempt, Claim, Clock, Demand, Error, ErrorKind, FencingToken, Grant, Hint, Instant,
    Key, Mode, OwnerToken, Released, Renew, Renewal, TokenRange, Ttl,
};
use proptest::prelude::*;

use super::machine::renewal_window;
use super::machine::{Denial, Ending, Entered, Machine, Manner, Op, Pass, Policy, Ticket};
use super::queue::{Patience, WaiterId};
use crate::handoff::Handoff;

const TTL: Duration = Duration::from_secs(3);
/// A process that hears no hints asks after this time at the latest.
const POLL: Duration = Duration::from_millis(500);
/// A process asks no later than this after the time that was named.
const JITTER: Duration = Duration::from_millis(10);

/// How many cases a property tries: `LOCK_ENGINE_CASES`, or so many.
pub(super) fn cases(default: u32) -> u32 {
    std::env::var("LOCK_ENGINE_CASES").map_or(default, |cases| cases.parse().expect("a number"))
}

thread_local! {
    static OWNERS: Cell<u128> = const { Cell::new(0) };
}

fn next_owner() -> Result<OwnerToken, Error> {
    let next = OWNERS.get() + 1;
    OWNERS.set(next);
    Ok(OwnerToken::from_bytes(next.to_be_bytes()))
}

/// One thing that happens. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Event {
    Enter(Limit),
    Cancel(usize),
    Release,
    AnswerAttempt(Answer),
    /// The first answer to a request that was repeated arrives while the release of its grant is under way.
    GrantedAgain,
    TakeRelease,
    AnswerRelease(Answer),
    AnswerRenewal(Answer),
    StartWatch,
    EndWatch(bool),
    Hint(Hint),
    /// A message arrives: in any order, and perhaps again later.
    Deliver {
        nth: usize,
        again: bool,
    },
    /// A message is lost.
    Lose(usize),
    Foreign(bool),
    /// Another process waits outside the line, and is told of the next release; or goes away.
    Bystander(bool),
    /// Another process asks for the lock, and waits for it.
    Rival,
    /// The other process that holds it lets go.
    RivalDone,
    /// Another process that waits gives up.
    RivalGone,
    Advance(u64),
    /// Time passes, and the driver has not looked yet.
    Sleep(u64),
    /// The tasks that were woken run. Until then a grant may lie there, not picked up.
    Run,
    Close,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Try,
    Millis(u64),
    None,
}

/// What becomes of a request: whether the store got it, and what the client hears.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Truth,
    /// Applied, but the reply was lost.
    ReplyLost,
    /// Never arrived.
    Lost,
    /// Refused for good.
    Denied,
}

/// A machine, its waiters, and a store with one key.
struct World {
    machine: Machine<u32>,
    now: Instant,
    /// Waiters that have not picked up an outcome, by arrival.
    waiters: BTreeMap<u32, (WaiterId, Limit)>,
    woken: BTreeSet<u32>,
    arrivals: u32,
    holding: Option<Ticket>,
    attempt: Option<Acquire>,
    release_asked: bool,
    releasing: Option<(Claim, Option<Acquire>)>,
    renewals: Vec<(Renew, Instant)>,
    forgetting: Vec<Claim>,
    watching: bool,
    last_served: u32,
    last_token: u64,
    closed: bool,
    /// The owners whose lease the store has said to be over.
    revoked: HashSet<Option<OwnerToken>>,
    /// The store: who holds the key, and until when.
    stored: Option<(OwnerToken, Instant, TokenRange)>,
    /// Who waits there, and whether it is this process.
    line: VecDeque<(OwnerToken, bool)>,
    /// Whether messages reach this process, and those on their way.
    subscribed: bool,
    messages: Vec<Hint>,
    manner: Manner,
    /// Whose claim has heard that it is the next, and when it is to ask at the latest.
    next: Option<(OwnerToken, Instant)>,
    /// The owner of the latest holder, and how many more of it were served while others were known
    /// to wait.
    turn: (Option<OwnerToken>, u32),
    foreign: bool,
    bystander: bool,
    counter: u64,
    /// How often the store has refused a request.
    refusals: u32,
    /// Those who came for a try while a release was under way, and how often the store had refused by then.
    tries: BTreeMap<u32, u32>,
    /// Whether some release did not reach the store, so that the lease had to end by itself.
    release_failed: bool,
}

impl World {
    fn new(policy: Policy, manner: Manner) -> Self {
        Self {
            line: VecDeque::new(),
            subscribed: false,
            messages: Vec::new(),
            manner,
            turn: (None, 0),
            next: None,
            machine: Machine::new(Key::new("key").unwrap(), policy, Clock::boot(), next_owner),
            now: Instant::from_nanos(1_000_000_000),
            waiters: BTreeMap::new(),
            woken: BTreeSet::new(),
            arrivals: 0,
            holding: None,
            attempt: None,
            release_asked: false,
            releasing: None,
            renewals: Vec::new(),
            forgetting: Vec::new(),
            watching: false,
            last_served: 0,
            last_token: 0,
            closed: false,
            revoked: HashSet::new(),
            stored: None,
            foreign: false,
            bystander: false,
            counter: 0,
            refusals: 0,
            tries: BTreeMap::new(),
            release_failed: false,
        }
    }

    fn event(&mut self, event: Event) {
        let now = self.now;
        let mut pass = Pass::at(now);
        match event {
            Event::Enter(limit) => self.enter(limit),
            Event::Cancel(n) => {
                if let Some((&arrival, &(id, _))) =
                    self.waiters.iter().nth(n % self.waiters.len().max(1))
                {
                    self.waiters.remove(&arrival);
                    self.woken.remove(&arrival);
                    self.machine.cancel(id, self.manner, &mut pass);
                }
            }
            Event::Release => {
                if let Some(ticket) = self.holding.take() {
                    let before = (self.machine.owner(), self.machine.demand());
                    self.machine.release(ticket.hold, self.manner, &mut pass);
                    self.check_budget(before);
                }
            }
            Event::AnswerAttempt(answer) => {
                if let Some(request) = self.attempt.take() {
                    let result = self.try_acquire(&request, answer);
                    self.note_refusal(result.as_ref().ok());
                    self.machine.attempt_done(&request.claim, result, &mut pass);
                }
            }
            Event::GrantedAgain => {
                if let Some((claim, _)) = &self.releasing {
                    self.machine.forget_unless_known(claim.clone(), &mut pass);
                }
            }
            Event::TakeRelease => {
                if std::mem::take(&mut self.release_asked)
                    && let Some(Ending { claim, next, forget: false }) =
                        self.machine.begin_release()
                {
                    assert!(
                        self.releasing.replace((claim, next)).is_none(),
                        "two releases under way"
                    );
                }
            }
            Event::AnswerRelease(answer) => {
                if let Some(claim) = self.forgetting.pop() {
                    let _ = self.delete(&claim, None, answer);
                } else if let Some((claim, next)) = self.releasing.take() {
                    let result = self.delete(&claim, next.as_ref(), answer);
                    self.note_refusal(result.as_ref().ok().and_then(|(_, next)| next.as_ref()));
                    self.machine.release_done(&claim, result, &mut pass);
                }
            }
            Event::AnswerRenewal(answer) => {
                if let Some((request, sent)) = self.renewals.pop() {
                    let renewal = self.renew(&request, sent, answer);
                    let claim = request.claim;
                    if matches!(renewal, Renewal::Lost) {
                        self.revoked.insert(Some(claim.owner));
                    }
                    self.machine.renew_done(&claim, sent, renewal, &mut pass);
                }
            }
            Event::StartWatch => {
                if self.watching {
                    self.subscribed = true;
                    self.machine.watch_started(&mut pass);
                }
            }
            Event::EndWatch(failed) => {
                if std::mem::take(&mut self.watching) {
                    self.unsubscribe();
                    let error = Error::new(ErrorKind::Unreachable, "cut");
                    self.machine.watch_ended(failed.then_some(&error), &mut pass);
                }
            }
            Event::Hint(hint) => {
                if self.watching {
                    self.machine.hint(hint, &mut pass);
                }
            }
            Event::Deliver { nth, again } => {
                if !self.messages.is_empty() {
                    let nth = nth % self.messages.len();
                    let message = self.messages[nth];
                    if !again {
                        self.messages.remove(nth);
                    }
                    self.deliver(message, &mut pass);
                }
            }
            Event::Lose(nth) => {
                if !self.messages.is_empty() {
                    self.messages.remove(nth % self.messages.len());
                }
            }
            Event::Rival => self.rival_asks(),
            Event::RivalDone => {
                if let Some((owner, ..)) = self.stored
                    && !self.is_ours(owner)
                {
                    self.stored = None;
                    self.serve(None);
                }
            }
            Event::RivalGone => {
                if let Some(nth) = self.line.iter().rposition(|(_, ours)| !ours) {
                    self.line.remove(nth);
                    self.serve(None);
                }
            }
            Event::Foreign(holds) => {
                // Another process comes and goes.
                self.expire_stored();
                self.foreign = holds && self.stored.is_none();
                self.serve(None);
            }
            Event::Bystander(waits) => self.bystander = waits,
            Event::Advance(millis) => {
                self.now = self.now + Duration::from_millis(millis);
                pass.now = self.now;
                // The driver sleeps until the machine's deadline and not a moment longer.
                self.machine.tick(&mut pass);
            }
            Event::Sleep(millis) => self.now = self.now + Duration::from_millis(millis),
            Event::Run => self.poll_woken(),
            Event::Close => {
                self.closed = true;
                self.machine.close(&mut pass);
            }
        }
        self.carry_out(pass);
        self.check();
    }

    fn deliver(&mut self, message: Hint, pass: &mut Pass<u32>) {
        let (owner, waits) = (self.machine.owner(), self.machine.is_waiting());
        self.machine.hint(message, pass);
        match message {
            Hint::Wanted => {
                let known = self.machine.demand();
                assert!(known.is_none_or(|known| known == Demand::Wanted), "unheard");
            }
            Hint::Granted { owner: granted, .. } if owner == Some(granted) && waits => {
                let asks = |op: &Op| matches!(op, Op::Attempt(_));
                let acts = self.machine.is_held()
                    || self.machine.due_release().is_some()
                    || pass.ops.iter().any(asks);
                assert!(acts, "a grant that nobody minds");
            }
            Hint::Next { owner: next, after } => {
                self.next = Some((next, self.now + after + JITTER));
            }
            _ => {}
        }
    }

    fn enter(&mut self, limit: Limit) {
        let patience = match limit {
            Limit::Try => Patience::Try,
            Limit::Millis(millis) => Patience::Until(self.now + Duration::from_millis(millis)),
            Limit::None => Patience::Forever,
        };
        self.arrivals += 1;
        let arrival = self.arrivals;
        if matches!(limit, Limit::Try) && self.releasing.is_some() && self.waiters.is_empty() {
            self.tries.insert(arrival, self.refusals);
        }
        let mut pass = Pass::at(self.now);
        let entered = self.machine.enter(Mode::Exclusive, patience, self.manner, &mut pass);
        self.carry_out(pass);
        match entered {
            Entered::Done(Ok(ticket)) => self.served(arrival, ticket),
            Entered::Done(Err(Denial::WouldBlock)) => self.check_busy(arrival, limit),
            Entered::Done(Err(Denial::Closed)) => assert!(self.closed),
            Entered::Done(Err(denial)) => panic!("{denial:?} at once"),
            Entered::Queued(id) => {
                self.waiters.insert(arrival, (id, limit));
                self.woken.insert(arrival);
            }
            Entered::Attempt(id, request) => {
                self.waiters.insert(arrival, (id, limit));
                self.woken.insert(arrival);
                self.ask(request);
            }
        }
    }

    fn ask(&mut self, request: Acquire) {
        assert!(self.attempt.replace(request).is_none(), "two requests under way");
        assert!(self.releasing.is_none(), "a request beside a release");
        // From here on the answer counts.
        self.next = None;
    }

    fn carry_out(&mut self, mut pass: Pass<u32>) {
        for op in std::mem::take(&mut pass.ops) {
            match op {
                Op::Attempt(request) => self.ask(request),
                Op::Renew(request, _) => self.renewals.push((request, self.now)),
                Op::Convert(..) => panic!("there is nothing weaker"),
                Op::Forget(claim) => {
                    let releasing = self.releasing.as_ref().map(|(releasing, _)| releasing);
                    assert_ne!(
                        releasing,
                        Some(&claim),
                        "two releases of one claim could overtake each other"
                    );
                    self.forgetting.push(claim);
                }
                Op::Watch => self.watching = true,
                Op::Unwatch => {
                    self.watching = false;
                    self.unsubscribe();
                }
            }
        }
        self.release_asked |= self.machine.due_release().is_some();
        let woken = std::cell::RefCell::new(Vec::new());
        pass.wake_all(|waker| woken.borrow_mut().push(waker), |_| {});
        self.woken.extend(woken.into_inner());
    }

    /// Only those who were woken look: a lost wake-up leaves a waiter for ever.
    fn poll_woken(&mut self) {
        for arrival in std::mem::take(&mut self.woken) {
            let Some(&(id, limit)) = self.waiters.get(&arrival) else { continue };
            let Some(outcome) = self.machine.poll(id, &mut Some(arrival)) else { continue };
            self.waiters.remove(&arrival);
            match outcome {
                // A task that slept for too long: its guard says so, and it lets go.
                Ok(ticket) if !ticket.lease.is_valid(self.now) => {
                    let mut pass = Pass::at(self.now);
                    self.machine.release(ticket.hold, self.manner, &mut pass);
                    self.last_served = arrival;
                    self.carry_out(pass);
                }
                Ok(ticket) => self.served(arrival, ticket),
                Err(Denial::WouldBlock) => self.check_busy(arrival, limit),
                Err(Denial::Timeout(_)) => assert!(matches!(limit, Limit::Millis(_))),
                Err(Denial::Closed) => assert!(self.closed),
                Err(Denial::Failed(_)) => {}
                Err(Denial::Lost(_)) => panic!("nothing is shared"),
            }
        }
    }

    fn served(&mut self, arrival: u32, ticket: Ticket) {
        assert!(self.holding.is_none(), "a second holder, even if the first is lost");
        assert!(arrival > self.last_served, "{arrival} was served after {}", self.last_served);
        self.last_served = arrival;
        assert!(ticket.token.get() > self.last_token, "tokens must increase");
        self.last_token = ticket.token.get();
        assert!(self.now < ticket.lease.deadline(), "a lease that is over was handed out");
        assert!(!self.revoked.contains(&self.machine.owner()), "a lease that the store has ended");
        self.holding = Some(ticket);
    }

    fn note_refusal(&mut self, attempt: Option<&Attempt>) {
        self.refusals += u32::from(attempt.is_some_and(|it| !matches!(it, Attempt::Granted(_))));
    }

    /// Only who tries is told that somebody has it; and who tried while this process gave it up, by the store, when
    /// that was over. No request is under way beside a release, so a refusal since is one of that kind.
    fn check_busy(&self, arrival: u32, limit: Limit) {
        assert!(matches!(limit, Limit::Try));
        let before = self.tries.get(&arrival);
        assert!(
            before.is_none_or(|before| self.refusals > *before),
            "busy by what was known before"
        );
    }

    /// A hold has ended: if others were known to wait, it counts.
    fn check_budget(&mut self, (owner, demand): (Option<OwnerToken>, Option<Demand>)) {
        let stays = self.machine.is_held() && self.machine.owner() == owner;
        self.turn = match self.turn {
            (last, served) if last == owner && stays && demand == Some(Demand::Wanted) => {
                (owner, served + 1)
            }
            _ => (owner, u32::from(stays && demand == Some(Demand::Wanted))),
        };
        let allowed = match self.manner.handoff {
            Handoff::Never => {
                assert!(!stays, "a guard that is not the store's own");
                0
            }
            Handoff::Fair => 0,
            Handoff::Budget { handoffs, .. } => handoffs,
        };
        assert!(self.turn.1 <= allowed, "others wait, and the budget is used up");
    }

    fn check(&self) {
        if let Some(ticket) = &self.holding
            && ticket.lease.loss(ticket.hold.serial()).is_none()
            && self.now < ticket.lease.deadline()
        {
            assert!(self.machine.is_held(), "a valid holder that the machine does not know");
            let stored = self.stored.as_ref().map(|(owner, ..)| *owner);
            assert_eq!(stored, self.machine.owner(), "a valid holder that the store does not know");
        }
        if let (Some(until), false) = (self.machine.asks_at(), self.subscribed) {
            let pause = until.saturating_duration_since(self.now);
            assert!(pause <= POLL + JITTER, "it hears nothing, and waits {pause:?}");
        }
        if let (Some((next, ask_by)), Some(until)) = (self.next, self.machine.asks_at())
            && self.machine.owner() == Some(next)
        {
            assert!(until <= ask_by, "it asks {:?} late", until.saturating_duration_since(ask_by));
        }
        if self.machine.is_renewing() {
            let under_way =
                self.renewals.iter().any(|(r, _)| Some(r.claim.owner) == self.machine.owner());
            assert!(under_way, "a renewal that will never be answered");
        }
    }

    /// Locks, when nobody is in the way.
    fn lock(&mut self) {
        self.event(Event::Enter(Limit::None));
        self.event(Event::Run);
        self.event(Event::AnswerAttempt(Answer::Truth));
        self.event(Event::Run);
        assert!(self.holding.is_some());
    }

    // ---- The store ----

    fn expire_stored(&mut self) {
        if self.stored.as_ref().is_some_and(|(_, end, _)| *end <= self.now) {
            self.stored = None;
        }
    }

    fn is_ours(&self, owner: OwnerToken) -> bool {
        !rivals().contains(&owner)
    }

    fn tokens(&mut self, count: NonZeroU32) -> TokenRange {
        // Some ranges adjoin the one before, some do not.
        let gap = 1 + self.counter % 2;
        let tokens = TokenRange::new(FencingToken::new(self.counter + gap), count);
        self.counter = tokens.last().get();
        tokens
    }

    fn demand(&self) -> Demand {
        match (self.line.is_empty(), self.subscribed) {
            (false, _) => Demand::Wanted,
            (true, true) => Demand::Quiet,
            (true, false) => Demand::Unknown,
        }
    }

    /// Hands a free key to the first in line. Who asks is not told.
    fn serve(&mut self, asking: Option<OwnerToken>) {
        self.expire_stored();
        if self.stored.is_some() || self.foreign {
            return;
        }
        let Some((owner, ours)) = self.line.pop_front() else { return };
        let tokens = self.tokens(NonZeroU32::new(3).unwrap());
        let claim = Ttl::new(TTL).unwrap().claim();
        // Some of the others stay silent when their turn comes.
        let claims = !ours && !self.counter.is_multiple_of(3);
        let time = if claims { TTL } else { claim.duration() };
        self.stored = Some((owner, self.now + time, tokens));
        if ours && asking != Some(owner) {
            let grant = Grant::new(tokens, claim.valid_until(self.now)).in_demand(self.demand());
            let grant = (!self.counter.is_multiple_of(5)).then_some(grant);
            self.messages.push(Hint::Granted { owner, grant });
        }
        if let Some(&(next, true)) = self.line.front()
            && asking != Some(next)
        {
            self.messages.push(Hint::Next { owner: next, after: claim.duration() });
        }
    }

    /// The holder of the key has this much time left.
    fn holder_has(&mut self, left: Duration) {
        if let Some((_, end, _)) = &mut self.stored {
            *end = self.now + left;
        }
    }

    fn unsubscribe(&mut self) {
        self.subscribed = false;
        self.messages.clear();
    }

    fn rival_asks(&mut self) {
        self.serve(None);
        let waits = |rival: &OwnerToken| {
            self.line.iter().any(|(owner, _)| owner == rival)
                || self.stored.as_ref().is_some_and(|(owner, ..)| owner == rival)
        };
        let Some(rival) = rivals().into_iter().find(|rival| !waits(rival)) else { return };
        self.line.push_back((rival, false));
        let ours = self.stored.as_ref().is_some_and(|(owner, ..)| self.is_ours(*owner));
        if self.line.len() == 1 && ours && self.subscribed {
            self.messages.push(Hint::Wanted);
        }
        self.serve(None);
    }

    fn try_acquire(&mut self, request: &Acquire, answer: Answer) -> Result<Attempt, Error> {
        failure(answer, Answer::Lost)?;
        let owner = request.claim.owner;
        self.serve(Some(owner));
        let attempt = match &mut self.stored {
            Some((holder, end, tokens)) if *holder == owner => {
                *end = (*end).max(self.now + TTL);
                let (tokens, end) = (*tokens, *end);
                let grant = Grant::new(tokens, end - Ttl::new(TTL).unwrap().drift());
                Attempt::Granted(grant.in_demand(self.demand()))
            }
            None if !self.foreign && self.line.is_empty() => {
                let tokens = self.tokens(request.tokens);
                self.stored = Some((owner, self.now + TTL, tokens));
                let until = Ttl::new(TTL).unwrap().valid_until(self.now);
                Attempt::Granted(Grant::new(tokens, until).in_demand(self.demand()))
            }
            stored => {
                let left = stored.as_ref().map(|(_, end, _)| *end);
                let retry_after = left.map(|end| end.saturating_duration_since(self.now));
                if request.queue && self.subscribed {
                    if !self.line.iter().any(|(waiting, _)| *waiting == owner) {
                        self.line.push_back((owner, true));
                    }
                    Attempt::Queued { retry_after }
                } else {
                    Attempt::Busy { retry_after }
                }
            }
        };
        failure(answer, Answer::ReplyLost)?;
        Ok(attempt)
    }

    fn delete(
        &mut self,
        claim: &Claim,
        next: Option<&Acquire>,
        answer: Answer,
    ) -> Result<(Released, Option<Attempt>), Error> {
        self.release_failed |= matches!(answer, Answer::Lost | Answer::Denied);
        failure(answer, Answer::Lost)?;
        self.expire_stored();
        self.line.retain(|(owner, _)| *owner != claim.owner);
        let held = self.stored.as_ref().is_some_and(|(owner, ..)| *owner == claim.owner);
        let mut queued = None;
        if held {
            self.stored = None;
            if let Some(next) = next
                && self.subscribed
                && !self.line.is_empty()
            {
                self.line.push_back((next.claim.owner, true));
                queued = Some(Attempt::Queued { retry_after: None });
            }
        }
        self.serve(None);
        failure(answer, Answer::ReplyLost)?;
        let contended = held && std::mem::take(&mut self.bystander);
        Ok(if held { (Released::Freed { contended }, queued) } else { (Released::NotHeld, None) })
    }

    fn renew(&mut self, request: &Renew, sent: Instant, answer: Answer) -> Renewal {
        if let Err(error) = failure(answer, Answer::Lost) {
            return Renewal::Unknown(error);
        }
        self.expire_stored();
        let (now, demand) = (self.now, self.demand());
        let held = self.stored.as_mut().filter(|(owner, ..)| *owner == request.claim.owner);
        let renewal = match held {
            Some((_, end, _)) => {
                *end = now + TTL;
                let tokens = NonZeroU32::new(request.tokens.min(4)).map(|n| self.tokens(n));
                let valid_until = Ttl::new(TTL).unwrap().valid_until(sent);
                Renewal::Renewed { valid_until, tokens, demand }
            }
            None => Renewal::Lost,
        };
        match failure(answer, Answer::ReplyLost) {
            Ok(()) => renewal,
            Err(error) => Renewal::Unknown(error),
        }
    }

    /// Everything is answered at once, and in the same way. Time stands still, so all must come to rest.
    fn storm(&mut self, answer: Answer) {
        for round in 0.. {
            if !self.woken.is_empty() {
                self.event(Event::Run);
            } else if self.attempt.is_some() {
                self.event(Event::AnswerAttempt(answer));
            } else if !self.forgetting.is_empty() {
                self.forgetting.clear();
            } else if self.releasing.is_some() {
                self.event(Event::AnswerRelease(answer));
            } else if self.release_asked {
                self.event(Event::TakeRelease);
            } else if !self.renewals.is_empty() {
                self.event(Event::AnswerRenewal(answer));
            } else {
                return;
            }
            assert!(round < 300, "no rest while time stands still: {:?}", self.machine);
        }
    }

    // ---- The end ----

    /// From here on the store answers, nobody comes, and holders let go: all must come to rest.
    fn come_to_rest(&mut self) {
        (self.foreign, self.bystander) = (false, false);
        self.line.retain(|(_, ours)| *ours);
        for _ in 0..10_000 {
            if !self.woken.is_empty() {
                self.event(Event::Run);
            } else if self.attempt.is_some() {
                self.event(Event::AnswerAttempt(Answer::Truth));
            } else if self.releasing.is_some() || !self.forgetting.is_empty() {
                self.event(Event::AnswerRelease(Answer::Truth));
            } else if self.release_asked {
                self.event(Event::TakeRelease);
            } else if self.holding.is_some() {
                self.event(Event::Release);
            } else if !self.renewals.is_empty() {
                self.event(Event::AnswerRenewal(Answer::Truth));
            } else if !self.messages.is_empty() {
                self.event(Event::Deliver { nth: 0, again: false });
            } else if let Some(deadline) = self.machine.next_deadline() {
                let pause = deadline.at.saturating_duration_since(self.now);
                self.event(Event::Advance(pause.as_millis() as u64 + 1));
            } else {
                break;
            }
        }
        assert!(self.waiters.is_empty(), "waiters without an end: {:?}", self.waiters);
        assert!(self.machine.is_idle(), "no rest: {:?}", self.machine);
        self.expire_stored();
        let ours = self.stored.as_ref().is_some_and(|(owner, ..)| self.is_ours(*owner));
        assert!(self.release_failed || !ours, "left behind on the store");
        assert!(self.release_failed || self.line.is_empty(), "a place was left behind");
        assert!(!self.watching, "a watch was left behind");
    }
}

/// Other processes.
fn rivals() -> [OwnerToken; 3] {
    [1u128, 2, 3].map(|n| OwnerToken::from_bytes((u128::MAX - n).to_be_bytes()))
}

fn failure(answer: Answer, at: Answer) -> Result<(), Error> {
    match answer {
        Answer::Denied => Err(Error::new(ErrorKind::Denied, "no")),
        answer if answer == at => Err(Error::new(ErrorKind::Unreachable, "lost")),
        _ => Ok(()),
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        8 => Just(Answer::Truth),
        1 => Just(Answer::ReplyLost),
        1 => Just(Answer::Lost),
        1 => Just(Answer::Denied),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => prop_oneof![
            Just(Limit::None),
            (0u64..5_000).prop_map(Limit::Millis),
            Just(Limit::Try)
        ].prop_map(Event::Enter),
        2 => (0usize..8).prop_map(Event::Cancel),
        5 => Just(Event::Release),
        8 => answer().prop_map(Event::AnswerAttempt),
        1 => Just(Event::GrantedAgain),
        4 => Just(Event::TakeRelease),
        5 => answer().prop_map(Event::AnswerRelease),
        2 => answer().prop_map(Event::AnswerRenewal),
        2 => Just(Event::StartWatch),
        1 => any::<bool>().prop_map(Event::EndWatch),
        2 => prop_oneof![
            Just(Hint::Released), Just(Hint::Expired), Just(Hint::Changed), Just(Hint::Wanted),
            Just(Hint::Resync), forged().prop_map(|owner| Hint::Granted { owner, grant: None }),
            (forged(), any::<Duration>()).prop_map(|(owner, after)| Hint::Next { owner, after }),
        ].prop_map(Event::Hint),
        6 => (0usize..4, prop::bool::weighted(0.2))
            .prop_map(|(nth, again)| Event::Deliver { nth, again }),
        1 => (0usize..4).prop_map(Event::Lose),
        3 => Just(Event::Rival),
        3 => Just(Event::RivalDone),
        1 => Just(Event::RivalGone),
        2 => any::<bool>().prop_map(Event::Foreign),
        2 => prop::bool::weighted(0.8).prop_map(Event::Bystander),
        4 => prop_oneof![0u64..50, 0u64..4_000].prop_map(Event::Advance),
        1 => (0u64..2_000).prop_map(Event::Sleep),
        10 => Just(Event::Run),
    ]
}

fn forged() -> impl Strategy<Value = OwnerToken> {
    (1u128..40).prop_map(|n| OwnerToken::from_bytes(n.to_be_bytes()))
}

fn policy() -> impl Strategy<Value = Policy> {
    (any::<bool>(), proptest::option::of(1u64..6_000)).prop_map(|(renew, max_hold)| Policy {
        ttl: Ttl::new(TTL).unwrap(),
        renew,
        max_hold: max_hold.map(Duration::from_millis),
        converts: true,
    })
}

fn manner() -> impl Strategy<Value = Manner> {
    let budget = (0u32..5, 0u64..50).prop_map(|(handoffs, millis)| Handoff::Budget {
        handoffs,
        time: Duration::from_millis(millis),
    });
    let handoff = prop_oneof![1 => Just(Handoff::Never), 2 => Just(Handoff::Fair), 6 => budget];
    let cache = proptest::option::of((0u64..9_000).prop_map(Duration::from_millis));
    (handoff, cache).prop_map(|(handoff, cache)| Manner { handoff, cache })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// At most one holder, first come first served, rising tokens, an outcome for everybody, and
    /// nothing left behind: in any order of events, with any answers of the store.
    #[test]
    fn the_machine_keeps_its_word(
        policy in policy(),
        manner in manner(),
        events in proptest::collection::vec(event(), 1..120),
        close in proptest::option::weighted(0.2, 0usize..120),
    ) {
        let mut world = World::new(policy, manner);
        for (n, event) in events.into_iter().enumerate() {
            if close == Some(n) {
                world.event(Event::Close);
            }
            world.event(event);
        }
        world.come_to_rest();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// A store that fails is not asked again and again at one instant, nor is one that answers.
    #[test]
    fn nothing_spins_while_time_stands_still(
        policy in policy(),
        manner in manner(),
        events in proptest::collection::vec(event(), 1..80),
        last in prop_oneof![Just(Answer::Truth), Just(Answer::ReplyLost), Just(Answer::Lost), Just(Answer::Denied)],
    ) {
        let mut world = World::new(policy, manner);
        for event in events {
            world.event(event);
        }
        world.storm(last);
    }
}

#[test]
fn a_process_listens_while_a_waiter_waits_for_a_slow_answer() {
    let mut world = third_in_line();
    world.event(Event::Hint(Hint::Released));
    assert!(world.attempt.is_some());
    world.event(Event::Advance(6_000));
    assert!(world.watching && world.subscribed, "it would not hear of its turn");
    world.come_to_rest();
}

#[test]
fn an_inquiry_that_fails_is_not_repeated_at_once() {
    let mut world = with(Handoff::Fair, Some(Duration::from_secs(600)));
    world.lock();
    world.event(Event::Release);
    world.event(Event::AnswerRenewal(Answer::Lost));
    // It is cached, and listens from now on: what others want is to be learnt.
    world.event(Event::StartWatch);
    assert_eq!(world.renewals.len(), 1);
    world.event(Event::AnswerRenewal(Answer::Lost));
    assert!(world.renewals.is_empty(), "again at once");
    world.event(Event::Advance(301));
    assert_eq!(world.renewals.len(), 1, "but soon");
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert_eq!(world.machine.demand(), Some(Demand::Quiet));
    world.come_to_rest();
}

fn plain() -> World {
    within(4, Duration::from_secs(1))
}

fn within(handoffs: u32, time: Duration) -> World {
    with(Handoff::Budget { handoffs, time }, None)
}

fn with(handoff: Handoff, cache: Option<Duration>) -> World {
    let policy =
        Policy { ttl: Ttl::new(TTL).unwrap(), renew: true, max_hold: None, converts: true };
    World::new(policy, Manner { handoff, cache })
}

#[test]
fn a_hand_off_needs_no_request() {
    let mut world = plain();
    world.lock();
    world.event(Event::Enter(Limit::None));
    world.event(Event::Run);
    world.event(Event::Release);
    world.event(Event::Run);
    assert!(world.holding.is_some(), "the second waiter has it");
    assert!(world.attempt.is_none() && !world.release_asked, "the store was not asked");
    world.come_to_rest();
}

#[test]
fn a_lock_given_up_a_moment_ago_is_taken_back() {
    let mut world = plain();
    world.lock();
    world.event(Event::Release);
    world.event(Event::Enter(Limit::Try));
    assert!(world.holding.is_some(), "drop, then try_lock");
    assert!(world.attempt.is_none());
    // The driver comes too late to release anything.
    world.event(Event::TakeRelease);
    assert!(world.releasing.is_none());
    world.come_to_rest();
}

#[test]
fn try_lock_after_a_release_under_way_waits_for_it() {
    let mut world = plain();
    world.lock();
    world.event(Event::Release);
    world.event(Event::TakeRelease);
    world.event(Event::Enter(Limit::Try));
    world.event(Event::Run);
    assert_eq!(world.waiters.len(), 1);
    world.event(Event::AnswerRelease(Answer::Truth));
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::Run);
    assert!(world.holding.is_some());
    world.come_to_rest();
}

#[test]
fn a_try_does_not_wait_behind_others() {
    let mut world = plain();
    world.event(Event::Enter(Limit::None));
    for _ in 0..2 {
        // Beside a request under way, and beside a refused one.
        let entered = world.machine.enter(
            Mode::Exclusive,
            Patience::Try,
            world.manner,
            &mut Pass::at(world.now),
        );
        assert!(matches!(entered, Entered::Done(Err(Denial::WouldBlock))), "{entered:?}");
        world.foreign = true;
        world.event(Event::AnswerAttempt(Answer::Truth));
    }
    world.event(Event::Cancel(0));
    world.come_to_rest();
}

#[test]
fn the_budget_ends_the_hand_offs() {
    let mut world = within(1, Duration::from_secs(1));
    world.lock();
    for _ in 0..2 {
        world.event(Event::Enter(Limit::None));
    }
    world.event(Event::Run);
    world.event(Event::Release);
    world.event(Event::Run);
    assert!(world.holding.is_some(), "one hand-off is within the budget");
    world.event(Event::Release);
    world.event(Event::Run);
    assert!(world.holding.is_none() && world.release_asked, "the second is not");
    world.come_to_rest();
}

#[test]
fn the_budget_has_an_end_in_time_too() {
    for (millis, handed_over) in [(9, true), (10, false)] {
        let mut world = within(4, Duration::from_millis(10));
        world.lock();
        world.event(Event::Enter(Limit::None));
        world.event(Event::Advance(millis));
        world.event(Event::Release);
        world.event(Event::Run);
        assert_eq!(world.holding.is_some(), handed_over, "after {millis} ms");
        world.come_to_rest();
    }
}

#[test]
fn a_hand_off_that_is_not_picked_up_goes_to_the_next() {
    let mut world = plain();
    world.lock();
    for _ in 0..2 {
        world.event(Event::Enter(Limit::None));
    }
    world.event(Event::Run);
    world.event(Event::Release);
    world.event(Event::Cancel(0));
    world.event(Event::Run);
    assert!(world.holding.is_some());
    world.come_to_rest();
}

#[test]
fn a_grant_that_nobody_waits_for_is_released() {
    let mut world = plain();
    world.event(Event::Enter(Limit::None));
    world.event(Event::Cancel(0));
    world.event(Event::AnswerAttempt(Answer::Truth));
    assert!(world.release_asked);
    world.come_to_rest();
}

#[test]
fn a_grant_heard_of_while_its_release_is_under_way_is_released_after_it() {
    let mut world = plain();
    world.lock();
    world.event(Event::Release);
    world.event(Event::TakeRelease);
    let (claim, _) = world.releasing.clone().unwrap();
    world.event(Event::GrantedAgain);
    assert_eq!(
        world.forgetting,
        [],
        "it could overtake the release, whose holder would believe to have lost"
    );
    world.event(Event::AnswerRelease(Answer::Truth));
    assert_eq!(world.forgetting, [claim], "the store may have made that grant after the release");
    world.come_to_rest();
}

#[test]
fn a_grant_that_comes_too_late_is_not_used() {
    let mut world = plain();
    world.event(Event::Enter(Limit::None));
    let request = world.attempt.clone().unwrap();
    let mut pass = Pass::at(world.now);
    let tokens = TokenRange::new(FencingToken::new(1), NonZeroU32::MIN);
    world.attempt = None;
    let late = Grant::new(tokens, world.now);
    world.machine.attempt_done(&request.claim, Ok(Attempt::Granted(late)), &mut pass);
    world.carry_out(pass);
    assert!(world.holding.is_none());
    assert_eq!(world.forgetting, [request.claim]);
    world.come_to_rest();
}

#[test]
fn a_lease_is_lost_at_its_deadline_and_stays_lost() {
    let mut world = plain();
    world.lock();
    world.event(Event::Advance(1_001));
    assert_eq!(world.renewals.len(), 1);
    // The answer arrives after the deadline: too late to be of use.
    let (lease, hold) = world.holding.as_ref().map(|t| (t.lease.clone(), t.hold)).unwrap();
    world.now = lease.deadline();
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert!(lease.loss(hold.serial()).is_some());
    assert_eq!(world.forgetting.len(), 1, "what the store may still have is released");
    world.come_to_rest();
}

#[test]
fn a_failed_renewal_does_not_move_the_deadline() {
    let mut world = plain();
    world.lock();
    let lease = world.holding.as_ref().unwrap().lease.clone();
    let deadline = lease.deadline();
    world.event(Event::Advance(1_001));
    world.event(Event::AnswerRenewal(Answer::Lost));
    assert_eq!(lease.deadline(), deadline);
    world.event(Event::Advance(301));
    assert_eq!(world.renewals.len(), 1, "it is tried again before the deadline");
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert!(lease.deadline() > deadline);
    world.come_to_rest();
}

#[test]
fn a_place_is_kept_a_little_early_in_company() {
    let window = renewal_window(Ttl::new(TTL).unwrap());
    for (early, asks) in [(window, true), (window + Duration::from_millis(1), false)] {
        let mut world = third_in_line();
        let deadline = world.machine.next_deadline().unwrap();
        assert!(deadline.flexible && Some(deadline.at) == world.machine.asks_at());
        world.now = deadline.at - early;
        world.event(Event::Advance(0));
        assert_eq!(world.attempt.is_some(), asks, "{early:?} early");
        world.come_to_rest();
    }
}

#[test]
fn a_lease_that_ends_soon_is_asked_about_when_it_ends() {
    let mut world = third_in_line();
    world.holder_has(TTL / 4);
    world.event(Event::Hint(Hint::Released));
    world.event(Event::AnswerAttempt(Answer::Truth));
    assert!(!world.machine.next_deadline().unwrap().flexible);
    // So is the one that was handed over, of which a hint tells.
    let mut world = third_in_line();
    hand_over_to_the_silent(&mut world);
    world.event(Event::Deliver { nth: 0, again: false });
    assert!(!world.machine.next_deadline().unwrap().flexible);
    world.come_to_rest();
}

#[test]
fn a_process_that_hears_nothing_asks_less_and_less_often() {
    let mut world = plain();
    world.event(Event::Rival);
    world.holder_has(Duration::from_secs(3600));
    world.event(Event::Enter(Limit::None));
    world.event(Event::Run);
    for (least, most) in [(100, 200), (200, 400), (250, 500), (250, 500)] {
        world.event(Event::AnswerAttempt(Answer::Truth));
        let pause = world.machine.asks_at().unwrap().saturating_duration_since(world.now);
        assert!((least..=most).contains(&pause.as_millis()), "{pause:?}");
        world.event(Event::Advance(500));
    }
    // Once it hears, it relies on that.
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::StartWatch);
    world.attempt.as_mut().unwrap().queue = false;
    world.event(Event::AnswerAttempt(Answer::Truth));
    let until = world.machine.asks_at().unwrap();
    assert!(until > world.now + Duration::from_secs(3000));
    world.come_to_rest();
}

#[test]
fn a_process_that_hears_nothing_leaves_the_lock_to_others_now_and_then() {
    let mut world = with(Handoff::Fair, None);
    let begin = world.now;
    world.lock();
    world.event(Event::Advance(50));
    world.event(Event::EndWatch(true));
    world.event(Event::AnswerRenewal(Answer::Truth));
    let mut free = Duration::ZERO;
    while free.is_zero() {
        assert!(world.now < begin + Duration::from_millis(1_100), "never");
        world.event(Event::Enter(Limit::None));
        world.event(Event::Run);
        world.event(Event::Advance(10));
        world.event(Event::Release);
        world.event(Event::TakeRelease);
        world.event(Event::AnswerRelease(Answer::Truth));
        if let Some(at) = world.machine.asks_at() {
            free = at.saturating_duration_since(world.now);
            break;
        }
        world.event(Event::AnswerAttempt(Answer::Truth));
        world.event(Event::Run);
    }
    assert!(world.now >= begin + Duration::from_secs(1));
    assert!(free >= POLL && free <= POLL + JITTER, "{free:?}");
    world.come_to_rest();
}

/// A rival holds the lock and another waits for it. This process has the place behind that one.
fn third_in_line() -> World {
    let mut world = plain();
    world.event(Event::Rival);
    world.holder_has(TTL);
    world.event(Event::Enter(Limit::None));
    world.event(Event::Run);
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::Rival);
    world.event(Event::StartWatch);
    world.event(Event::AnswerAttempt(Answer::Truth));
    assert_eq!(world.line.len(), 2);
    assert_eq!(world.machine.asks_at().map(|at| at > world.now + TTL), Some(true));
    world
}

/// The rival that is first in line gets the lock and stays silent. Returns what is left of its lease.
fn hand_over_to_the_silent(world: &mut World) -> Duration {
    let claim = Ttl::new(TTL).unwrap().claim().duration();
    world.event(Event::RivalDone);
    world.holder_has(claim);
    assert!(matches!(world.messages[..], [Hint::Next { .. }]), "{:?}", world.messages);
    claim
}

#[test]
fn the_next_in_line_asks_when_the_lease_before_it_ends() {
    let mut world = third_in_line();
    let claim = hand_over_to_the_silent(&mut world);
    world.event(Event::Deliver { nth: 0, again: false });
    let at = world.machine.asks_at().unwrap();
    assert!(at > world.now + claim && at <= world.now + claim + JITTER);
    world.event(Event::Advance(1_010));
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::Run);
    assert!(world.holding.is_some());
    world.come_to_rest();
}

#[test]
fn a_hint_heard_before_an_older_answer_says_when_to_ask() {
    let mut world = third_in_line();
    world.event(Event::Hint(Hint::Released));
    // The answer leaves the store before the hand-over, and arrives after the hint of it.
    let request = world.attempt.clone().unwrap();
    let answer = world.try_acquire(&request, Answer::Truth);
    assert!(matches!(answer, Ok(Attempt::Queued { retry_after: Some(TTL) })), "{answer:?}");
    let claim = hand_over_to_the_silent(&mut world);
    world.event(Event::Deliver { nth: 0, again: false });
    world.attempt = None;
    let mut pass = Pass::at(world.now);
    world.machine.attempt_done(&request.claim, answer, &mut pass);
    world.carry_out(pass);
    let at = world.machine.asks_at().unwrap();
    assert!(at <= world.now + claim + JITTER);
}

/// A lease that others are known not to wait for.
fn watched_and_quiet(cache: Option<Duration>) -> World {
    let mut world = with(Handoff::Fair, cache);
    world.lock();
    world.event(Event::Advance(60));
    world.event(Event::StartWatch);
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert_eq!(world.machine.demand(), Some(Demand::Quiet));
    world
}

#[test]
fn a_wish_heard_before_the_lease_is_taken_back_counts() {
    let mut world = watched_and_quiet(None);
    world.event(Event::Release);
    world.event(Event::Rival);
    assert_eq!(world.messages, [Hint::Wanted]);
    world.event(Event::Deliver { nth: 0, again: false });
    world.event(Event::Enter(Limit::None));
    assert!(!world.machine.is_held() || world.machine.demand() == Some(Demand::Wanted));
}

#[test]
fn a_cut_watch_heard_before_the_lease_is_taken_back_counts() {
    let mut world = watched_and_quiet(Some(Duration::from_secs(600)));
    world.manner.cache = None;
    world.event(Event::Release);
    world.event(Event::EndWatch(false));
    world.event(Event::Enter(Limit::None));
    assert!(!world.machine.is_held() || world.machine.demand() != Some(Demand::Quiet));
}

#[test]
fn a_deletion_heard_before_the_lease_is_taken_back_counts() {
    let mut world = watched_and_quiet(None);
    world.event(Event::Release);
    world.stored = None;
    world.event(Event::Hint(Hint::Released));
    let entered = world.machine.enter(
        Mode::Exclusive,
        Patience::Forever,
        world.manner,
        &mut Pass::at(world.now),
    );
    assert!(matches!(entered, Entered::Done(Ok(_))), "{entered:?}");
    let next = world.machine.next_deadline().unwrap().at;
    assert!(next.saturating_duration_since(world.now) < Duration::from_millis(10));
}
