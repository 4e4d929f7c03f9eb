//! Random histories of `MemoryBackend`: valid leases never conflict, tokens increase, and whoever
//! waits arrives.
#![cfg(feature = "memory")]

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, Attempt, Backend, Claim, Grant, Hint, Key, Mode, OwnerToken, Released};
use lock_core::{Renew, Renewal, Ttl, Watch};
use proptest::prelude::*;

const ACTORS: usize = 6;
const CLIENTS: usize = 3;

/// What may happen next. Actors are numbers.
#[derive(Clone, Debug)]
enum Step {
    Try(usize),
    Queue(usize),
    Renew(usize),
    Release(usize),
    /// Gives a lease the time that it has left to live, and no more: its owner died.
    Forget(usize),
    Convert(usize, Mode),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let target = prop_oneof![Just(Mode::Shared), Just(Mode::Upgradable), Just(Mode::Exclusive)];
    let step = prop_oneof![
        1 => (0..ACTORS).prop_map(Step::Try),
        4 => (0..ACTORS).prop_map(Step::Queue),
        1 => (0..ACTORS).prop_map(Step::Renew),
        3 => (0..ACTORS).prop_map(Step::Release),
        1 => (0..ACTORS).prop_map(Step::Forget),
        2 => (0..ACTORS, target).prop_map(|(actor, mode)| Step::Convert(actor, mode)),
        2 => (1_u64..1500).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Which modes the actors ask for.
fn modes() -> impl Strategy<Value = [Mode; ACTORS]> {
    use Mode::{Exclusive as E, Shared as S, Upgradable as U};
    let permits = [1, 3, 2, 1, 2, 1].map(|take| Mode::Permits { take, of: 3 });
    prop_oneof![
        Just([E; ACTORS]),
        Just([S, S, E, S, U, E]),
        Just([U, S, E, U, S, U]),
        Just(permits),
    ]
}

/// One who wants the key, and what it may believe.
struct Actor {
    client: MemoryBackend,
    /// The claim that it asks for, and the one that it holds or held last.
    wanted: Claim,
    held: Option<(Claim, Grant)>,
    waits: Option<Acquire>,
}

struct History {
    store: MemoryBackend,
    watches: Vec<Watch>,
    actors: Vec<Actor>,
    /// The first token of each grant that was seen, with whose it is, and the highest of all.
    seen: BTreeMap<u64, usize>,
    highest: u64,
    /// The highest before the present step, in which a hint may tell of an earlier grant than the
    /// answer did.
    before: u64,
}

impl History {
    async fn begin(modes: [Mode; ACTORS]) -> Self {
        let store = MemoryBackend::new();
        let key = Key::new("key").expect("short");
        let clients: Vec<_> = (0..CLIENTS).map(|_| store.client()).collect();
        let mut watches = Vec::new();
        for client in &clients {
            watches.push(client.watch(&key).await.expect("not cut"));
        }
        let actor = |(index, mode): (usize, Mode)| Actor {
            client: clients[index % CLIENTS].clone(),
            wanted: Claim::exclusive(key.clone(), OwnerToken::from_bytes([index as u8; 16]))
                .in_mode(mode),
            held: None,
            waits: None,
        };
        let actors = modes.into_iter().enumerate().map(actor).collect();
        Self { store, watches, actors, seen: BTreeMap::new(), highest: 0, before: 0 }
    }

    async fn take(&mut self, step: &Step) {
        self.before = self.highest;
        match *step {
            Step::Try(index) => self.ask(index, false).await,
            Step::Queue(index) => self.ask(index, true).await,
            Step::Renew(index) => self.renew(index).await,
            Step::Release(index) => self.release(index).await,
            Step::Forget(index) => self.actors[index].held = None,
            Step::Convert(index, to) => self.convert(index, to).await,
            Step::Pass(millis) => tokio::time::advance(Duration::from_millis(millis)).await,
        }
        self.read_hints();
        self.check();
    }

    async fn ask(&mut self, index: usize, queue: bool) {
        let actor = &self.actors[index];
        // One who holds asks no more, but repeats what it waits for.
        if actor.held.is_some() && actor.waits.is_none() {
            return;
        }
        let mut request = Acquire::new(actor.wanted.clone(), ttl(index));
        request.queue = queue;
        let request = actor.waits.clone().unwrap_or(request);
        self.request(index, request).await;
    }

    async fn convert(&mut self, index: usize, to: Mode) {
        let actor = &self.actors[index];
        let Some((claim, _)) = actor.held.as_ref().filter(|_| actor.waits.is_none()) else {
            return;
        };
        let request = Acquire::new(claim.clone().in_mode(to), ttl(index)).converting(claim.mode);
        self.request(index, request.queued()).await;
    }

    async fn request(&mut self, index: usize, request: Acquire) {
        let Ok(attempt) = self.actors[index].client.try_acquire(&request).await else {
            // An impossible conversion, or one of a lease that ran out meanwhile.
            assert!(request.from.is_some(), "{request:?}");
            self.actors[index].waits = None;
            return;
        };
        match attempt {
            Attempt::Granted(grant) => self.granted(index, request.claim, grant),
            Attempt::Queued { .. } => self.actors[index].waits = Some(request),
            _ => self.actors[index].waits = None,
        }
    }

    async fn renew(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some((claim, grant)) = &mut actor.held else { return };
        let request = Renew::new(claim.clone(), ttl(index)).reserving(3);
        match actor.client.renew(&request).await {
            Renewal::Renewed { valid_until, tokens: Some(tokens), .. } => {
                grant.valid_until = valid_until;
                assert!(tokens.first().get() > self.highest);
                self.highest = tokens.last().get();
            }
            Renewal::Lost => {
                assert!(grant.valid_until <= actor.client.clock().now(), "lost before its time");
                actor.held = None;
            }
            other => panic!("{other:?}"),
        }
    }

    async fn release(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        if let Some(request) = actor.waits.take() {
            actor.client.release(&request.claim).await.expect("not cut");
        }
        if let Some((claim, grant)) = actor.held.take() {
            let is_valid = grant.valid_until > actor.client.clock().now();
            let released = actor.client.release(&claim).await.expect("not cut");
            assert!(!is_valid || matches!(released, Released::Freed { .. }), "a lease was lost");
        }
    }

    fn read_hints(&mut self) {
        for watch in 0..CLIENTS {
            while let Some(Some(hint)) = self.watches[watch].next().now_or_never() {
                let Hint::Granted { owner, grant: Some(grant) } = hint else { continue };
                let is_its = |actor: &Actor| actor.wanted.owner == owner;
                let index = self.actors.iter().position(is_its).expect("one of these");
                assert_eq!(index % CLIENTS, watch, "another client was told");
                let waits = self.actors[index].waits.clone();
                // Unless it left at once.
                if let Some(request) = waits {
                    let first = grant.tokens.first().get();
                    assert!(first > self.before && self.seen.insert(first, index).is_none());
                    self.actors[index].waits = None;
                    self.actors[index].held = Some((request.claim, grant));
                    self.highest = self.highest.max(grant.tokens.last().get());
                }
            }
        }
    }

    fn granted(&mut self, index: usize, claim: Claim, grant: Grant) {
        let first = grant.tokens.first().get();
        // The same grant may be told again, but only to its owner.
        let owner = *self.seen.entry(first).or_insert_with(|| {
            assert!(first > self.highest, "{first} came after {}", self.highest);
            index
        });
        assert_eq!(owner, index, "{first} came twice");
        self.highest = self.highest.max(grant.tokens.last().get());
        let actor = &mut self.actors[index];
        actor.waits = None;
        actor.held = Some((claim, grant));
    }

    /// The promise: leases that their holders may believe in do not conflict.
    fn check(&self) {
        let now = self.store.clock().now();
        let valid = self.actors.iter().filter_map(|actor| actor.held.as_ref());
        let mut holders = BTreeMap::new();
        for (claim, _) in valid.filter(|(_, grant)| grant.valid_until > now) {
            let (kind, weight) = match claim.mode {
                Mode::Exclusive => ("exclusive", 1),
                Mode::Shared => ("shared", 1),
                Mode::Upgradable => ("upgradable", 1),
                Mode::Permits { take, .. } => ("permits", take),
                other => panic!("{other:?}"),
            };
            *holders.entry(kind).or_insert(0) += weight;
        }
        let count = |kind: &str| holders.get(kind).copied().unwrap_or(0);
        let is_alone = count("exclusive") == 0 || (count("exclusive") == 1 && holders.len() == 1);
        assert!(is_alone && count("upgradable") <= 1 && count("permits") <= 3, "{holders:?}");
    }

    /// Lets go of everything, one after another. Everybody who waits must get its turn.
    async fn drain(mut self) {
        for _ in 0..100 {
            for index in 0..ACTORS {
                self.before = self.highest;
                if self.actors[index].waits.is_some() {
                    self.ask(index, true).await;
                }
                if self.actors[index].waits.is_none() {
                    self.release(index).await;
                }
                self.read_hints();
                self.check();
            }
            if self.actors.iter().all(|actor| actor.waits.is_none() && actor.held.is_none()) {
                tokio::time::advance(Duration::from_secs(30)).await;
                assert_eq!(self.store.live_leases(), 0);
                return;
            }
            tokio::time::advance(Duration::from_millis(500)).await;
        }
        panic!("somebody still waits");
    }
}

fn ttl(index: usize) -> Ttl {
    Ttl::new(Duration::from_secs(2 + 4 * index as u64)).expect("in range")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn histories_keep_the_promise(modes in modes(), steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut history = History::begin(modes).await;
            for step in &steps {
                history.take(step).await;
            }
            history.drain().await;
        });
    }
}
