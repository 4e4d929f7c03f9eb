//! Quorums whose nodes are different kinds of stores: a Redis server, a PostgreSQL database, an etcd server and a store
//! in memory.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{Backend, FencingToken, InspectBackend, Key, QuorumNode, Ttl};
use lock_etcd::EtcdBackend;
use lock_postgres::PostgresBackend;
use lock_redis::RedisBackend;
use lock_redlock::{Redlock, Voting};
use lock_sync::{Locks, MutexGuard, TryLockError};
use lock_tests::requests::{claim, granted, long};
use lock_tests::{EtcdServer, PostgresServer, RedisServer, eventually_async};
use tokio::task::{JoinSet, block_in_place};

use crate::support::{NODE_TIMEOUT, SOON, soon};

type Mixed = Redlock<Arc<dyn QuorumNode>>;

/// The longest lease: longer than the shortest one of etcd.
const MAX_TTL: Duration = Duration::from_secs(3);

/// A node at which a test can look.
trait Node: QuorumNode + InspectBackend {}

impl<B: QuorumNode + InspectBackend> Node for B {}

/// One of the stores.
enum Store {
    Redis(RedisServer),
    Postgres(PostgresServer),
    /// A server, and a snapshot of its first data.
    Etcd(EtcdServer, PathBuf),
    Memory(MemoryBackend),
}

impl Store {
    fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    fn postgres() -> Self {
        let server = PostgresServer::durable();
        server.sql("postgres", &PostgresBackend::schema());
        Self::Postgres(server)
    }

    fn etcd() -> Self {
        Self::Etcd(EtcdServer::durable(), PathBuf::new())
    }

    fn memory() -> Self {
        Self::Memory(MemoryBackend::new())
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "redis",
            Self::Postgres(_) => "postgres",
            Self::Etcd(..) => "etcd",
            Self::Memory(_) => "memory",
        }
    }

    /// A client that shares only the store with other clients.
    fn client(&self) -> Arc<dyn Node> {
        match self {
            Self::Redis(server) => {
                let client = RedisBackend::builder(server.url()).connect_timeout(NODE_TIMEOUT / 2);
                Arc::new(client.build().unwrap())
            }
            Self::Postgres(server) => {
                Arc::new(PostgresBackend::open(server.url("postgres")).unwrap())
            }
            Self::Etcd(server, _) => Arc::new(EtcdBackend::open(server.locks()).unwrap()),
            Self::Memory(store) => Arc::new(store.client()),
        }
    }

    /// Once all nodes vote. A restored cluster is told by its revisions, so the snapshot has more of them than a new
    /// one.
    async fn begins(&mut self) {
        if let Self::Etcd(server, snapshot) = self {
            let store = EtcdBackend::open(server.locks()).unwrap();
            for _ in 0..300 {
                let claim = claim("before");
                granted(&store, &claim, long()).await;
                store.release(&claim).await.unwrap();
            }
            *snapshot = block_in_place(|| server.snapshot());
        }
    }

    /// Dies, or forgets everything.
    fn dies(&self) {
        match self {
            Self::Redis(server) => server.kill(),
            Self::Postgres(server) => server.kill(),
            Self::Etcd(server, _) => server.kill(),
            Self::Memory(store) => {
                store.forget();
                store.restart();
            }
        }
    }

    /// Comes back: Redis without its data, and etcd with those from before all votes.
    fn returns(&self) {
        match self {
            Self::Redis(server) => server.restart(),
            Self::Postgres(server) => server.restart(),
            Self::Etcd(server, snapshot) => server.restore(snapshot),
            Self::Memory(_) => {}
        }
    }
}

/// Three stores, which vote.
struct Stores([Store; 3]);

impl Stores {
    async fn new(starts: [fn() -> Store; 3]) -> Self {
        // The servers start at once.
        let stores = block_in_place(|| {
            std::thread::scope(|scope| {
                let starting = starts.map(|start| scope.spawn(start));
                starting.map(|store| store.join().unwrap())
            })
        });
        let mut stores = Self(stores);
        stores.client().await.init().await.unwrap();
        for store in &mut stores.0 {
            store.begins().await;
        }
        stores
    }

    /// A client that shares only the stores with other clients.
    async fn client(&self) -> Mixed {
        let quorum = Redlock::builder().node_timeout(NODE_TIMEOUT);
        let quorum = quorum.max_ttl(Ttl::new(MAX_TTL).unwrap());
        let node = |store: &Store| store.client() as Arc<dyn QuorumNode>;
        let nodes = self.0.iter().map(|store| (store.name(), node(store)));
        nodes.fold(quorum, |quorum, (name, node)| quorum.node(name, node)).build().await.unwrap()
    }

    /// How many leases and waiters of the lock "it" the stores have.
    async fn left(&self) -> u64 {
        let key = Key::new("it").unwrap();
        let mut left = 0;
        for store in &self.0 {
            let inspection = store.client().inspect(&key).await.unwrap();
            left += inspection.holding + inspection.waiting;
        }
        left
    }
}

/// Waits until a node of this name, or each node, votes or does not vote.
async fn until(quorum: &Mixed, what: &str, is_so: impl Fn(&str, Voting) -> bool) {
    eventually_async(what, SOON * 3, async || {
        quorum.status().await.iter().all(|node| is_so(&node.name, node.voting))
    })
    .await;
}

/// What the contenders have seen.
#[derive(Default)]
struct Seen {
    /// Whether a holder is inside whose lease is valid.
    inside: AtomicBool,
    tokens: Mutex<Vec<FencingToken>>,
    turns: [AtomicU64; 3],
    is_over: AtomicBool,
}

impl Seen {
    fn turns(&self) -> [u64; 3] {
        self.turns.each_ref().map(|turns| turns.load(Ordering::Relaxed))
    }

    /// Waits until each contender has had two more turns.
    async fn goes_on(&self, what: &str) {
        let before = self.turns();
        let went_on = async || self.turns().iter().zip(before).all(|(now, then)| *now >= then + 2);
        eventually_async(&format!("all go on {what}"), SOON * 2, went_on).await;
    }
}

/// Takes the lock again and again.
async fn contend(number: usize, locks: Locks<Mixed>, seen: Arc<Seen>) {
    let mutex = locks.mutex("it", ()).unwrap();
    while !seen.is_over.load(Ordering::Relaxed) {
        let guard = match mutex.lock_timeout(SOON * 3).await {
            Ok(guard) => guard,
            Err(error) => panic!("{error}"),
        };
        let lease = MutexGuard::lease(&guard);
        assert!(!seen.inside.swap(true, Ordering::SeqCst), "two holders");
        seen.tokens.lock().unwrap().push(lease.fencing_token());
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(lease.is_valid(), "a lease of {MAX_TTL:?} ended within a turn");
        seen.inside.store(false, Ordering::SeqCst);
        drop(guard);
        seen.turns[number].fetch_add(1, Ordering::Relaxed);
    }
    locks.shutdown().await;
}

/// Each store dies once, and the two others are the majority. A store that comes back may have forgotten votes, and
/// sits out its quarantine.
async fn hold_a_lock_together(stores: [fn() -> Store; 3]) {
    let stores = Stores::new(stores).await;
    let seen = Arc::new(Seen::default());
    let mut contenders = JoinSet::new();
    for number in 0..3 {
        let quorum = Locks::builder(stores.client().await).ttl(MAX_TTL).build().unwrap();
        contenders.spawn(contend(number, quorum, Arc::clone(&seen)));
    }
    let watcher = stores.client().await;
    seen.goes_on("while nothing fails").await;
    for store in &stores.0 {
        let name = store.name();
        block_in_place(|| store.dies());
        let kept_out = |voting| matches!(voting, Voting::KeptOut { .. });
        let what = format!("{name} is out");
        let is_out = until(&watcher, &what, |it, vote| it != name || kept_out(vote));
        let what = format!("without {name}");
        let goes_on = seen.goes_on(&what);
        if matches!(store, Store::Memory(_)) {
            // Its quarantine has begun.
            tokio::join!(is_out, goes_on);
        } else {
            goes_on.await;
            block_in_place(|| store.returns());
            is_out.await;
        }
        seen.goes_on(&format!("while {name} is in quarantine")).await;
        until(&watcher, "all nodes vote", |_, voting| voting == Voting::Yes).await;
    }
    seen.goes_on("when all are back").await;

    seen.is_over.store(true, Ordering::Relaxed);
    while let Some(contender) = soon(contenders.join_next()).await {
        contender.unwrap();
    }
    let tokens = seen.tokens.lock().unwrap().clone();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    eventually_async("no vote is left", SOON, async || stores.left().await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_kinds_of_stores_hold_a_lock_together() {
    hold_a_lock_together([Store::redis, Store::postgres, Store::memory]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_which_one_is_an_etcd_server_hold_a_lock_together() {
    hold_a_lock_together([Store::etcd, Store::redis, Store::postgres]).await;
}

/// Without two of these three stores, no client holds the lock.
async fn need_a_majority(stores: [fn() -> Store; 3]) {
    let stores = Stores::new(stores).await;
    let [first, second, _] = &stores.0;
    let [one, other] = [stores.client().await, stores.client().await];
    let locks = |quorum| Locks::builder(quorum).ttl(MAX_TTL).build().unwrap();
    let (here, there) = (locks(one), locks(other));
    let (mutex, same) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    let guard = soon(mutex.lock()).await.unwrap();
    assert!(matches!(soon(same.try_lock()).await, Err(TryLockError::WouldBlock)));
    first.dies();
    // Two of three go on.
    tokio::time::sleep(MAX_TTL * 3 / 2).await;
    assert!(MutexGuard::lease(&guard).is_valid());
    block_in_place(|| second.dies());
    soon(MutexGuard::lease(&guard).lost()).await;
    let mut failure = None;
    eventually_async("the request fails", SOON, async || {
        match soon(same.try_lock()).await {
            Err(TryLockError::Backend(error)) => failure = Some(error),
            // The last store counts the lost lease for a moment longer than its holder.
            Err(TryLockError::WouldBlock) => {}
            other => panic!("without a majority: {other:?}"),
        }
        failure.is_some()
    })
    .await;
    let error = failure.unwrap();
    assert!(error.is_retryable(), "{error:?}");
    for store in [first, second] {
        assert!(error.to_string().contains(store.name()), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_of_different_kinds_of_stores_is_needed() {
    need_a_majority([Store::redis, Store::postgres, Store::memory]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_of_stores_of_which_one_is_an_etcd_server_is_needed() {
    need_a_majority([Store::redis, Store::etcd, Store::memory]).await;
}
