//! A server takes the place of another server, while clients of the former servers and of the new servers ask for locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::Ttl;
use lock_redis::RedisBackend;
use lock_redlock::{Builder, Redlock};
use lock_sync::{Locks, OwnedMutexGuard};
use lock_tests::{Proxy, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{LEASE, Ledger, MAX_TTL, NODE_TIMEOUT, Quorum, Role, SOON};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// The nodes of the former clients.
const FORMER: [usize; 3] = [0, 1, 2];
/// The nodes of the new clients: `d` takes the place of `a`.
const NEW: [usize; 3] = [3, 1, 2];

/// Each client asks for these keys, and has each for a moment.
const BUSY: [usize; 2] = [0, 1];
/// Each client that misses a node asks for this key, and keeps it for a while.
const KEPT: usize = 2;

/// How long a client has a busy key.
const MOMENT: Duration = Duration::from_millis(5);
/// How long a client has the key that it keeps: it renews its lease meanwhile.
const WHILE: Duration = LEASE;
/// How long a client waits after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the steps of all clients take at most.
const LIMIT: Duration = SOON.saturating_mul(3);

/// The words of the error that a client gets at a node with another membership.
const OTHER_MEMBERSHIP: &str = "Redlock::replace replaces a node";

type QuorumBuilder = Builder<RedisBackend>;

/// The servers, and the clients of both memberships.
struct Scene {
    servers: Vec<RedisServer>,
    ledger: Arc<Ledger>,
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    former: Vec<Role>,
    new: Vec<Role>,
    /// The ways of the clients to the servers.
    ways: Vec<Proxy>,
}

impl Scene {
    /// Starts two clients with the former nodes, and two clients with the new nodes. One of each two misses a node. So
    /// the majorities of the former client that misses a node and of the new one have no node in common.
    async fn start(former: impl Fn(QuorumBuilder) -> QuorumBuilder) -> Self {
        let mut scene = Self {
            servers: NAMES.iter().map(|_| RedisServer::start()).collect(),
            ledger: Arc::default(),
            is_over: Arc::default(),
            tasks: JoinSet::new(),
            former: Vec::new(),
            new: Vec::new(),
            ways: Vec::new(),
        };
        scene.operator(FORMER).await.init().await.unwrap();
        for (client, missing) in [(0, None), (1, Some("c"))] {
            let roles = scene.enter(client, FORMER, missing, &former).await;
            scene.former.extend(roles);
        }
        for (client, missing) in [(2, None), (3, Some("b"))] {
            let roles = scene.enter(client, NEW, missing, |quorum| quorum).await;
            scene.new.extend(roles);
        }
        scene
    }

    /// A patient client that reaches all nodes.
    async fn operator(&self, nodes: [usize; 3]) -> Quorum {
        let mut builder = Redlock::builder().max_ttl(Ttl::new(MAX_TTL).unwrap()).node_timeout(SOON);
        for node in nodes {
            let backend = RedisBackend::open(self.servers[node].url()).unwrap();
            builder = builder.node(NAMES[node], backend);
        }
        builder.build().await.unwrap()
    }

    /// Starts a client that asks for its keys again and again, and loses its way to the missing node.
    async fn enter(
        &mut self,
        client: usize,
        nodes: [usize; 3],
        missing: Option<&str>,
        options: impl Fn(QuorumBuilder) -> QuorumBuilder,
    ) -> Vec<Role> {
        let mut builder = Redlock::builder().max_ttl(Ttl::new(MAX_TTL).unwrap());
        let mut ways = Vec::new();
        for node in nodes {
            let way = Proxy::before(&self.servers[node]);
            let backend = RedisBackend::builder(way.url()).connect_timeout(NODE_TIMEOUT);
            builder = builder.node(NAMES[node], backend.build().unwrap());
            ways.push((NAMES[node], way));
        }
        let quorum = options(builder.node_timeout(NODE_TIMEOUT)).build().await.unwrap();
        for (_, way) in ways.iter().filter(|(name, _)| Some(*name) == missing) {
            way.refuse();
            way.cut();
        }
        self.ways.extend(ways.into_iter().map(|(_, way)| way));
        let locks = Locks::builder(quorum).ttl(LEASE).build().unwrap();
        let keys = BUSY.into_iter().chain(missing.map(|_| KEPT));
        let roles: Vec<_> = keys.map(|key| (client, key)).collect();
        for &role in &roles {
            let (ledger, is_over) = (Arc::clone(&self.ledger), Arc::clone(&self.is_over));
            self.tasks.spawn(work(locks.clone(), role, ledger, is_over));
        }
        roles
    }

    /// Waits until the former clients have had their keys, and the new clients have learned that they come too early.
    async fn until_busy(&self) {
        let (since, told) = (Ledger::now(), without_missing(&self.new));
        let is_busy = |ledger: &Ledger| {
            ledger.all_had(&self.former, since) && ledger.all_failed(&told, OTHER_MEMBERSHIP, since)
        };
        self.until(is_busy).await;
        let holds = self.ledger.holds();
        let early = holds.iter().find(|it| self.new.contains(&it.role));
        assert!(early.is_none(), "a new client got a lock: {early:?}");
    }

    /// Waits until the new clients have had their keys again, and these former clients have learned why they get none.
    async fn until_new_clients_are_served(&self, told: &[Role]) {
        let since = Ledger::now();
        let is_served = |ledger: &Ledger| {
            ledger.all_had(&self.new, since)
                && ledger.all_failed(&self.former, "", since)
                && ledger.all_failed(told, OTHER_MEMBERSHIP, since)
        };
        self.until(is_served).await;
    }

    async fn until(&self, condition: impl Fn(&Ledger) -> bool) {
        let waiting = async {
            while !condition(&self.ledger) {
                sleep(PAUSE).await;
            }
        };
        let is_in_time = timeout(LIMIT, waiting).await.is_ok();
        assert!(is_in_time, "{:#?}", self.ledger.latest());
    }

    /// Ends the clients, and checks what they have written.
    async fn end(self) -> Arc<Ledger> {
        self.is_over.store(true, Ordering::Relaxed);
        timeout(LIMIT, self.tasks.join_all()).await.expect("the clients have ended");
        self.ledger.check();
        self.ledger
    }
}

/// The clients that miss no node, and so do not ask for the key that is kept.
fn without_missing(roles: &[Role]) -> Vec<Role> {
    let misses = |client| roles.contains(&(client, KEPT));
    roles.iter().copied().filter(|&(client, _)| !misses(client)).collect()
}

/// Asks for a key again and again.
async fn work(locks: Locks<Quorum>, role: Role, ledger: Arc<Ledger>, is_over: Arc<AtomicBool>) {
    let key = role.1;
    let mutex = Arc::new(locks.mutex(format!("key {key}"), ()).unwrap());
    let is_over = || is_over.load(Ordering::Relaxed);
    while !is_over() {
        let asked = Ledger::now();
        match Arc::clone(&mutex).lock_owned_timeout(LEASE).await {
            Ok(guard) => {
                let lease = OwnedMutexGuard::lease(&guard);
                let enough = if key == KEPT { WHILE } else { MOMENT };
                let is_enough = |time| is_over() || time >= enough;
                ledger.hold(role, asked, &lease, is_enough).await;
                // The release of a lease that is lost fails.
                let _released = OwnedMutexGuard::release(guard).await;
            }
            Err(error) => {
                ledger.fail(role, asked, &error);
                sleep(PAUSE).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_clients_hold_a_lock_while_a_server_is_replaced_under_load() {
    let scene = Scene::start(|quorum| quorum).await;
    scene.until_busy().await;
    scene.operator(NEW).await.replace("a", "d").await.unwrap();
    let replaced = Ledger::now();
    scene.until_new_clients_are_served(&scene.former).await;
    scene.servers[0].kill();
    // A client that reaches one node of three gives up before the node has answered.
    scene.until_new_clients_are_served(&without_missing(&scene.former)).await;

    let former = scene.former.clone();
    let ledger = scene.end().await;
    for hold in ledger.holds().iter().filter(|it| former.contains(&it.role)) {
        assert!(hold.asked < replaced, "a former client got a lock: {hold:?}");
        let since = hold.until.saturating_duration_since(replaced);
        assert!(since < LEASE, "a former client renewed its lease: {hold:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = " at once")]
async fn former_clients_that_ignore_the_membership_are_found_out() {
    let scene = Scene::start(Builder::without_quarantine).await;
    scene.until_busy().await;
    scene.operator(NEW).await.replace("a", "d").await.unwrap();
    let since = Ledger::now();
    scene.until(|ledger| ledger.all_had(&scene.new, since)).await;
    scene.end().await;
}
