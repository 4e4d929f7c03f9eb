//! The machine against a store with arbitrary answers, in any order of events.
//!
//! The lock is exclusive. [`modes`](super::modes) tests the other modes.

mod acts;
mod answers;
mod checks;
pub(super) mod common;
mod events;
mod express;
mod leases;
mod passing;
mod properties;
mod rest;
mod store;
mod waiting;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Claim, Clock, Error, Hint, Instant, Key, OwnerToken, Renew, TokenRange};

use self::common::{Answer, Limit, policy};
use self::events::Event;
use super::machine::{Machine, Ticket};
use super::manner::Manner;
use super::policy::Policy;
use super::queue::WaiterId;
use super::validity::Validity;
use crate::handoff::Handoff;

/// A process that hears no hints asks again after this time at the latest.
const POLL: Duration = Duration::from_millis(500);
/// A process asks at most this much later than the time in the refusal.
const JITTER: Duration = Duration::from_millis(10);

thread_local! {
    static OWNERS: Cell<u128> = const { Cell::new(0) };
}

fn next_owner() -> Result<OwnerToken, Error> {
    let next = OWNERS.get() + 1;
    OWNERS.set(next);
    Ok(OwnerToken::from_bytes(next.to_be_bytes()))
}

/// A machine, its waiters, and a store with one key.
struct World {
    machine: Machine<u32>,
    /// A gate refers to it.
    _gate: Arc<Validity>,
    now: Instant,
    /// Waiters that have not picked up an outcome, by arrival.
    waiters: BTreeMap<u32, (WaiterId, Limit)>,
    woken: BTreeSet<u32>,
    arrivals: u32,
    holding: Option<Ticket>,
    attempt: Option<Acquire>,
    release_asked: bool,
    releasing: Option<(Claim, Option<Acquire>)>,
    released_at: Instant,
    /// Releases for whose answers the machine no longer waits.
    late: Vec<(Claim, Option<Acquire>)>,
    renewals: Vec<(Renew, Instant)>,
    withdrawing: Vec<Claim>,
    watching: bool,
    last_served: u32,
    last_token: u64,
    closed: bool,
    /// The owners whose lease is over according to the store.
    revoked: HashSet<Option<OwnerToken>>,
    /// The holder of the key in the store, and the end of its lease.
    stored: Option<(OwnerToken, Instant, TokenRange)>,
    /// The claims that wait in the store, and whether each belongs to this process.
    line: VecDeque<(OwnerToken, bool)>,
    /// Whether messages reach this process. `messages` has those on their way.
    subscribed: bool,
    messages: Vec<Hint>,
    manner: Manner,
    /// The owner of the claim that was told that it is the next, and when it must ask at the latest.
    next: Option<(OwnerToken, Instant)>,
    /// The owner of the latest lease, and how many more holders it has had while other processes were known to wait.
    turn: (Option<OwnerToken>, u32),
    foreign: bool,
    bystander: bool,
    counter: u64,
    /// How often the store has refused a request.
    refusals: u32,
    /// The tries that came while a release was under way, and the value of `refusals` at that time.
    tries: BTreeMap<u32, u32>,
    /// Whether a release did not reach the store, so that the lease had to end by itself.
    release_failed: bool,
    /// Whether the present event has reached the machine.
    begun: bool,
}

impl World {
    fn new(policy: Policy, manner: Manner) -> Self {
        // Each case has the same owners, so a forged hint can name one of them.
        OWNERS.set(0);
        let gate = Arc::new(Validity::new(Clock::boot(), Instant::from_nanos(0)));
        let key = Key::new("key").unwrap();
        Self {
            line: VecDeque::new(),
            subscribed: false,
            messages: Vec::new(),
            manner,
            turn: (None, 0),
            next: None,
            machine: Machine::new(key, policy, Arc::clone(&gate), next_owner),
            _gate: gate,
            now: Instant::from_nanos(1_000_000_000),
            waiters: BTreeMap::new(),
            woken: BTreeSet::new(),
            arrivals: 0,
            holding: None,
            attempt: None,
            release_asked: false,
            releasing: None,
            released_at: Instant::from_nanos(0),
            late: Vec::new(),
            renewals: Vec::new(),
            withdrawing: Vec::new(),
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
            begun: false,
        }
    }

    fn event(&mut self, event: Event) {
        self.begun = false;
        // Callers, waiters and the holder try the short ways first.
        if !matches!(event, Event::Enter(_) | Event::Run | Event::Release) {
            self.begin();
        }
        match event {
            Event::Enter(limit) => self.enter(limit),
            Event::Cancel(nth) => self.cancel(nth),
            Event::Release => self.release(),
            Event::AnswerAttempt(answer) => self.answer_attempt(answer),
            Event::GrantedAgain => self.granted_again(),
            Event::TakeRelease => self.take_release(),
            Event::AnswerRelease(answer) => self.answer_release(answer),
            Event::AnswerRenewal(answer) => self.answer_renewal(answer),
            Event::StartWatch => self.start_watch(),
            Event::EndWatch(failed) => self.end_watch(failed),
            Event::Hint(hint) if self.watching => self.machine.hint(hint),
            Event::Hint(_) => {}
            Event::Deliver { nth, again } => self.deliver(nth, again),
            Event::Lose(nth) => self.lose(nth),
            Event::Foreign(holds) => self.foreign_comes_or_goes(holds),
            Event::Bystander(waits) => self.bystander = waits,
            Event::Rival => self.rival_asks(),
            Event::RivalDone => self.rival_lets_go(),
            Event::RivalGone => self.rival_gives_up(),
            Event::Advance(millis) => self.advance(millis),
            Event::Sleep(millis) => self.now = self.now + Duration::from_millis(millis),
            Event::Run => self.poll_woken(),
            Event::Close => {
                self.closed = true;
                self.machine.close();
            }
        }
        if self.begun {
            self.carry_out();
        }
        self.check();
    }

    /// The machine hears of the present event.
    fn begin(&mut self) {
        self.begun = true;
        self.machine.begin(self.now);
    }

    /// Locks while no other process is in the way.
    fn lock(&mut self) {
        self.event(Event::Enter(Limit::None));
        self.event(Event::Run);
        self.event(Event::AnswerAttempt(Answer::Truth));
        self.event(Event::Run);
        assert!(self.holding.is_some());
    }
}

fn plain() -> World {
    within(4, Duration::from_secs(1))
}

fn within(handoffs: u32, time: Duration) -> World {
    with(Handoff::Budget { handoffs, time }, None)
}

fn with(handoff: Handoff, cache: Option<Duration>) -> World {
    World::new(policy(), Manner::new(handoff).with_cache(cache))
}
