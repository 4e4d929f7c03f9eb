//! Random histories of `MemoryBackend`: valid leases never conflict, tokens increase, and every
//! waiter is granted the key.
#![cfg(feature = "memory")]

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Convert, ConvertBackend, ErrorKind, Grant, Hint,
    InspectBackend, Key, Mode,
};
use lock_core::{OwnerToken, PermitBackend, Released, Renew, Renewal, Resize, Ttl, Watch};
use proptest::prelude::*;

const ACTORS: usize = 6;
const CLIENTS: usize = 3;
/// How many permits there are at first.
const PERMITS: u32 = 3;
/// The most permits that one request wants.
const MOST: u32 = 4;

/// The next step. Actors are numbers.
#[derive(Clone, Debug)]
enum Step {
    Try(usize),
    Queue(usize),
    Renew(usize),
    Release(usize),
    /// The owner of a lease dies, so that the lease only lives for the time that it has left.
    Forget(usize),
    Convert(usize, Mode),
    /// Gives back one permit of a lease.
    Shrink(usize),
    /// Forgets the permits of a lease.
    Lose(usize),
    Resize(Resize),
    Close,
    Force,
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
        1 => (0..ACTORS).prop_map(Step::Shrink),
        1 => (0..ACTORS).prop_map(Step::Lose),
        1 => (0_u32..3).prop_map(|count| Step::Resize(Resize::Add(count))),
        1 => (0_u32..3).prop_map(|count| Step::Resize(Resize::Remove(count))),
        2 => (1_u64..1500).prop_map(Step::Pass),
    ];
    let rare = prop_oneof![Just(Step::Close), Just(Step::Force)];
    let step = prop_oneof![
        60 => step,
        1 => rare,
    ];
    proptest::collection::vec(step, 1..120)
}

/// Which modes the actors ask for.
fn modes() -> impl Strategy<Value = [Mode; ACTORS]> {
    use Mode::{Exclusive as E, Shared as S, Upgradable as U};
    let permits = [1, 3, 2, MOST, 2, 1].map(|take| Mode::Permits { take, of: PERMITS });
    let [a, b] = [100, 101].map(|group| Mode::Joint { group: OwnerToken::from_bytes([group; 16]) });
    prop_oneof![
        1 => Just([E; ACTORS]),
        1 => Just([S, S, E, S, U, E]),
        1 => Just([U, S, E, U, S, U]),
        2 => Just(permits),
        2 => Just([a, a, b, E, b, a]),
        2 => Just([permits[1], a, S, permits[2], U, a]),
    ]
}

/// A client that wants the key, and what it may rely on.
struct Actor {
    client: MemoryBackend,
    /// The claim that the actor asks for, and the claim that it holds or held last.
    wanted: Claim,
    held: Option<(Claim, Grant)>,
    /// The request that waits, and the mode from which it converts, if it does.
    waits: Option<(Acquire, Option<Mode>)>,
}

struct History {
    store: MemoryBackend,
    watches: Vec<Watch>,
    actors: Vec<Actor>,
    /// The first token of each grant that was seen, with its owner or group.
    seen: BTreeMap<u64, OwnerToken>,
    highest: u64,
    /// The highest token before the present step. Within a step, a hint may tell of an earlier grant than the
    /// answer does.
    before: u64,
    /// How many permits there are, and whether the semaphore is closed.
    limit: u32,
    closed: bool,
}

impl History {
    async fn begin(modes: [Mode; ACTORS]) -> Self {
        let store = MemoryBackend::new();
        let key = key();
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
        let (seen, limit) = (BTreeMap::new(), PERMITS);
        Self { store, watches, actors, seen, highest: 0, before: 0, limit, closed: false }
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
            Step::Shrink(index) => self.shrink(index).await,
            Step::Lose(index) => self.lose(index).await,
            Step::Resize(change) => self.resize(change).await,
            Step::Close => self.close().await,
            Step::Force => self.force().await,
            Step::Pass(millis) => tokio::time::advance(Duration::from_millis(millis)).await,
        }
        self.read_hints();
        self.check();
    }

    async fn ask(&mut self, index: usize, queue: bool) {
        let actor = &self.actors[index];
        // A holder makes no new request, but repeats the one that waits.
        if actor.held.is_some() && actor.waits.is_none() {
            return;
        }
        let mut request = Acquire::new(actor.wanted.clone(), ttl(index));
        request.queue = queue;
        let (request, from) = actor.waits.clone().unwrap_or((request, None));
        self.request(index, request, from).await;
    }

    async fn convert(&mut self, index: usize, to: Mode) {
        let actor = &self.actors[index];
        let Some((claim, _)) = actor.held.as_ref().filter(|_| actor.waits.is_none()) else {
            return;
        };
        let Convert { request, from, .. } = Convert::new(claim.clone(), to, ttl(index)).queued();
        self.request(index, request, Some(from)).await;
    }

    async fn shrink(&mut self, index: usize) {
        let held = self.actors[index].held.as_ref().map(|(claim, _)| claim.mode);
        let Some(Mode::Permits { take, of }) = held else { return };
        self.convert(index, Mode::Permits { take: take - 1, of }).await;
    }

    async fn lose(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some((claim, grant)) = actor.held.take() else { return };
        let Mode::Permits { take, .. } = claim.mode else {
            actor.held = Some((claim, grant));
            return;
        };
        match PermitBackend::forget(&actor.client, &claim).await.expect("not cut") {
            Released::Freed { .. } => self.limit -= take,
            _ => {
                assert!(grant.valid_until <= actor.client.clock().now(), "lost before its time");
            }
        }
    }

    async fn resize(&mut self, change: Resize) {
        match self.store.resize(&key(), PERMITS, change).await {
            Ok(resized) => {
                match change {
                    Resize::Add(count) => {
                        assert_eq!(resized.changed, count);
                        self.limit += resized.changed;
                    }
                    _ => self.limit -= resized.changed,
                }
                assert_eq!(resized.permits.limit, self.limit);
                assert!(resized.permits.held <= self.limit, "{resized:?}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::ForeignKey),
        }
    }

    async fn close(&mut self) {
        match self.store.close(&key(), PERMITS).await {
            Ok(()) => self.closed = true,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ForeignKey),
        }
    }

    async fn force(&mut self) {
        self.store.force_release(&key()).await.expect("not cut");
        self.actors.iter_mut().for_each(|actor| actor.held = None);
    }

    async fn request(&mut self, index: usize, request: Acquire, from: Option<Mode>) {
        let client = &self.actors[index].client;
        let answer = match from {
            None => client.try_acquire(&request).await,
            Some(from) => {
                let held = request.claim.clone().in_mode(from);
                let mut convert = Convert::new(held, request.claim.mode, request.ttl);
                convert.request.queue = request.queue;
                client.convert(&convert).await
            }
        };
        let attempt = match answer {
            Ok(attempt) => attempt,
            Err(error) => {
                // The conversion is impossible, or its lease expired in the meantime.
                let is_closed = self.closed && error.kind() == ErrorKind::Closed;
                assert!(from.is_some() || is_closed, "{error:?} for {request:?}");
                self.actors[index].waits = None;
                return;
            }
        };
        match attempt {
            AcquireOutcome::Granted(grant) => self.granted(index, request.claim, grant),
            AcquireOutcome::Queued { .. } => self.actors[index].waits = Some((request, from)),
            _ => self.actors[index].waits = None,
        }
    }

    async fn renew(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some((claim, grant)) = &mut actor.held else { return };
        let request = Renew::new(claim.clone(), ttl(index)).reserving(3);
        match actor.client.renew(&request).await {
            Renewal::Renewed { valid_until, tokens, .. } => {
                grant.valid_until = valid_until;
                assert_eq!(tokens.is_none(), claim.mode.is_joint());
                if let Some(tokens) = tokens {
                    assert!(tokens.first().get() > self.highest);
                    self.highest = tokens.last().get();
                }
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
        if let Some((request, _)) = actor.waits.take() {
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
                // The actor may have left already.
                if let Some((request, _)) = waits {
                    let first = grant.tokens.first().get();
                    let holder = holder(&request.claim);
                    let is_joint = holder != request.claim.owner;
                    match self.seen.insert(first, holder) {
                        None => assert!(first > self.before, "{first} came after {}", self.before),
                        Some(other) => assert!(is_joint && other == holder, "{first} came twice"),
                    }
                    self.assert_open(request.claim.mode);
                    self.actors[index].waits = None;
                    self.highest = self.highest.max(grant.tokens.last().get());
                    self.actors[index].held = Some((request.claim, grant));
                }
            }
        }
    }

    fn granted(&mut self, index: usize, claim: Claim, grant: Grant) {
        let first = grant.tokens.first().get();
        // A grant may be told again, but only to its owner or to another member of its group.
        let holder = holder(&claim);
        if !self.seen.contains_key(&first) {
            assert!(first > self.highest, "{first} came after {}", self.highest);
            self.assert_open(claim.mode);
            self.seen.insert(first, holder);
        }
        assert_eq!(self.seen[&first], holder, "{first} came twice");
        self.highest = self.highest.max(grant.tokens.last().get());
        let actor = &mut self.actors[index];
        actor.waits = None;
        actor.held = Some((claim, grant));
    }

    /// Checks that no permits are granted after the semaphore was closed.
    fn assert_open(&self, mode: Mode) {
        assert!(!self.closed || !mode.counts(), "granted although closed");
    }

    /// The promise: leases on which their holders may rely do not conflict.
    fn check(&self) {
        let now = self.store.clock().now();
        let valid = self.actors.iter().filter_map(|actor| actor.held.as_ref());
        let mut joint = None;
        let mut modes = Vec::new();
        for (claim, grant) in valid.filter(|(_, grant)| grant.valid_until > now) {
            if claim.mode.is_joint() {
                assert_eq!(*joint.get_or_insert(grant.tokens), grant.tokens, "of one group");
            }
            modes.push(claim.mode);
        }
        for (nth, mode) in modes.iter().enumerate() {
            let others = modes[nth + 1..].iter().copied();
            assert!(mode.fits_beside(others, self.limit), "{mode:?} in {modes:?}");
        }
    }

    /// Releases all leases, one after another. Every waiter must get its turn.
    async fn drain(mut self) {
        for _ in 0..100 {
            // A waiter for more permits than there are waits until permits are added.
            if self.limit < MOST {
                self.resize(Resize::Add(MOST - self.limit)).await;
                self.read_hints();
            }
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
        panic!("a waiter is left");
    }
}

fn key() -> Key {
    Key::new("key").expect("short")
}

/// The party that has the tokens of a lease: its owner, or its group.
fn holder(claim: &Claim) -> OwnerToken {
    match claim.mode {
        Mode::Joint { group } => group,
        _ => claim.owner,
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
