//! The machine in every mode, against a real store and other processes, in any order of events.

mod acts;
mod cases;
mod checks;
mod events;
mod gates;
mod properties;
mod rest;
mod store;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, Backend, Claim, Clock, Convert, Hint, Instant, Key, Mode, OwnerToken, Renew, Watch,
};

use self::events::Event;
use self::gates::Gate;
use self::store::Reply;
use super::machine::{Ending, Machine, Opening, Return, Ticket};
use super::manner::Manner;
use super::policy::Policy;
use super::queue::WaiterId;
use super::tests::common::Limit;
use super::validity::Validity;

/// How many permits there are.
const OF: u32 = 3;

/// A request on its way.
#[derive(Debug)]
enum Sent {
    Attempt(Acquire),
    Convert(Convert),
    Renew(Renew, Instant),
    Release(Ending),
    Withdraw(Claim, Option<Mode>),
    /// The store has carried out the request. Its answer is on the way.
    Answered(Reply),
}

impl Sent {
    fn ask_for(&mut self, few: u32) {
        let few = NonZeroU32::MIN.saturating_add(few - 1);
        match self {
            Self::Attempt(request) | Self::Convert(Convert { request, .. }) => request.tokens = few,
            Self::Release(Ending { next: Some(request), .. }) => request.tokens = few,
            Self::Renew(request, _) => request.tokens = 0,
            Self::Release(_) | Self::Withdraw(..) | Self::Answered(_) => {}
        }
    }
}

struct Rival {
    client: MemoryBackend,
    _watch: Watch,
    claim: Option<Claim>,
    /// When it began to ask.
    began: u64,
    until: Instant,
}

impl Rival {
    async fn new(client: MemoryBackend, key: &Key) -> Self {
        let watch = client.watch(key).await.unwrap();
        Self { client, _watch: watch, claim: None, began: 0, until: Instant::from_nanos(0) }
    }

    async fn several(store: &MemoryBackend, key: &Key) -> Vec<Self> {
        let mut rivals = Vec::new();
        for _ in 0..3 {
            rivals.push(Self::new(store.client(), key).await);
        }
        rivals
    }
}

/// One grant, to this process or to a rival.
#[derive(Debug)]
struct Granted {
    /// The number of the event that brought it.
    came: u64,
    token: u64,
    mode: Mode,
}

struct Waiter {
    id: WaiterId,
    began: u64,
    limit: Limit,
    want: Mode,
}

struct Upgrading {
    id: WaiterId,
    ticket: Ticket,
    limit: Limit,
    /// Since the upgrade began, nothing has been in its way: no other process, and no other task of this one.
    clear: bool,
}

/// What was granted so far, and what became of it.
#[derive(Default)]
struct History {
    /// The serial number of each hold, by the arrival of its waiter.
    served: BTreeMap<u32, u64>,
    /// The token and the mode of each hold, by serial number.
    tokens: BTreeMap<u64, (u64, Mode)>,
    /// When the process first asked for a lease of each owner.
    asked: Vec<(OwnerToken, u64)>,
    /// The highest token of each lease that has ended, and when it ended.
    ended: Vec<(u64, u64)>,
    /// The permits that were granted to this process: the owner and the token of each.
    permits: Vec<(OwnerToken, u64)>,
    /// The releases without an answer: the owner, and when the release becomes overdue.
    releases: Vec<(OwnerToken, Instant)>,
}

struct World {
    machine: Machine<u32>,
    /// Whether the store converts leases.
    converts: bool,
    store: MemoryBackend,
    ours: MemoryBackend,
    key: Key,
    wants: Vec<Mode>,
    manner: Manner,
    waiters: BTreeMap<u32, Waiter>,
    woken: BTreeSet<u32>,
    arrivals: u32,
    holding: Vec<(Ticket, Mode)>,
    gate: Option<Gate>,
    /// The readers that came through the gate.
    readers: Vec<Opening>,
    /// The lease that these readers see.
    lease: Arc<Validity>,
    /// The hold that is to become exclusive.
    upgrading: Option<Upgrading>,
    upgrade_woken: bool,
    /// The returns that the latest query waits for.
    returns: Vec<Return>,
    sent: Vec<Sent>,
    release_asked: bool,
    watch_asked: bool,
    watch: Option<Watch>,
    messages: Vec<Hint>,
    rivals: Vec<Rival>,
    history: History,
    forgotten: u32,
    /// How many events there have been.
    events: u64,
    /// Whether the present event has reached the machine.
    begun: bool,
    grants: Vec<Granted>,
    /// Whether a request was lost, or a release is overdue, so that leases may have to end by themselves.
    failed: bool,
    /// If the clock of the store has to catch up: how many tokens come with a grant. Renewals then bring none.
    few: Option<u32>,
}

impl World {
    async fn new(policy: Policy, manner: Manner, wants: Vec<Mode>, few: Option<u32>) -> Self {
        let store = MemoryBackend::new();
        let key = Key::new("key").unwrap();
        let rivals = Rival::several(&store, &key).await;
        let converts = policy.converts;
        let lease = Arc::new(Validity::new(Clock::tokio(), Instant::from_nanos(0)));
        let machine = Machine::new(key.clone(), policy, Arc::clone(&lease), OwnerToken::generate);
        Self {
            converts,
            lease,
            machine,
            gate: None,
            readers: Vec::new(),
            ours: store.client(),
            store,
            key,
            wants,
            manner,
            waiters: BTreeMap::new(),
            woken: BTreeSet::new(),
            arrivals: 0,
            holding: Vec::new(),
            upgrading: None,
            upgrade_woken: false,
            returns: Vec::new(),
            sent: Vec::new(),
            release_asked: false,
            watch_asked: false,
            watch: None,
            messages: Vec::new(),
            rivals,
            history: History::default(),
            forgotten: 0,
            events: 0,
            begun: false,
            grants: Vec::new(),
            failed: false,
            few,
        }
    }

    fn now(&self) -> Instant {
        Clock::tokio().now()
    }

    /// The instant of the next tick.
    fn armed(&self) -> Instant {
        self.machine.next.map_or(Instant::FAR_FUTURE, |next| next.at)
    }

    /// Time passes before the driver looks.
    async fn sleep(&self, millis: u64) {
        tokio::time::advance(Duration::from_millis(millis)).await;
    }

    async fn advance(&mut self, millis: u64) {
        tokio::time::advance(Duration::from_millis(millis)).await;
        self.begin();
        self.machine.tick();
    }

    async fn event(&mut self, event: Event) {
        if self.pass_by(&event).await {
            return;
        }
        self.close_gate();
        self.events += 1;
        self.begun = false;
        // Callers, waiters and holders try the short ways first.
        if !matches!(event, Event::Enter(..) | Event::Run | Event::Release(_)) {
            self.begin();
        }
        self.happen(event).await;
        if self.begun {
            self.carry_out();
        }
        self.check();
    }

    /// The machine hears of the present event.
    fn begin(&mut self) {
        self.begun = true;
        let now = self.now();
        self.failed |= self.history.releases.iter().any(|(_, overdue)| now >= *overdue);
        self.machine.begin(now);
    }

    async fn happen(&mut self, event: Event) {
        match event {
            Event::Enter(nth, limit) => {
                let want = self.wants[nth % self.wants.len()];
                self.enter(want, limit);
            }
            Event::Cancel(nth) => self.cancel(nth),
            Event::Release(nth) => self.release(nth),
            Event::Downgrade(nth, far) => self.downgrade(nth, far),
            Event::Upgrade(nth, limit) => self.upgrade(nth, limit),
            Event::AbandonUpgrade => self.abandon_upgrade(),
            Event::Split(nth) => self.split(nth),
            Event::Extend(nth, millis) => self.extend(nth, millis),
            Event::Forget(nth) => self.forget(nth),
            Event::Answer(nth, answer) => self.answer(nth, answer).await,
            Event::Delay(nth) => self.delay(nth).await,
            Event::Watch(on) => self.toggle_watch(on).await,
            Event::Deliver(nth) => {
                if let Some(message) = self.next_message(nth) {
                    self.machine.hint(message);
                }
            }
            Event::Lose(nth) => drop(self.next_message(nth)),
            Event::RivalAsks(nth, want) => self.rival_asks(nth, want).await,
            Event::RivalLeaves(nth) => self.rival_leaves(nth).await,
            Event::Advance(millis) => self.advance(millis).await,
            Event::Sleep(millis) => self.sleep(millis).await,
            Event::TakeRelease => self.take_release(),
            Event::Query => self.returns = self.machine.give_back_all(),
            Event::Run => self.poll_woken(),
        }
    }
}
