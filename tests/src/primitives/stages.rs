//! The stores over which the cases run.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{InspectBackend, List, Ttl};
use lock_etcd::EtcdBackend;
use lock_postgres::PostgresBackend;
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use tokio::runtime::Handle;

use super::{LONG, Stage};
use crate::{ClusterNode, EtcdServer, PostgresServer, RedisCluster, RedisServer, Sentinels};

/// The reference store, in the memory of this process.
#[derive(Debug)]
pub struct Memory(MemoryBackend);

impl Stage for Memory {
    type Backend = MemoryBackend;

    async fn open() -> Self {
        Self(MemoryBackend::new())
    }

    async fn client(&self) -> MemoryBackend {
        self.0.client()
    }

    fn is_free(&self) -> bool {
        self.0.live_leases() == 0
    }
}

/// One server.
#[derive(Debug)]
pub struct OneServer(RedisServer);

impl Stage for OneServer {
    type Backend = RedisBackend;

    async fn open() -> Self {
        Self(RedisServer::start())
    }

    async fn client(&self) -> RedisBackend {
        RedisBackend::open(self.0.url()).unwrap()
    }

    fn is_free(&self) -> bool {
        is_free(&self.0, "lock:")
    }
}

static POSTGRES: LazyLock<(PostgresServer, String)> = LazyLock::new(|| {
    let server = PostgresServer::start();
    let template = server.database();
    server.sql(&template, &PostgresBackend::schema());
    (server, template)
});

/// A database of a PostgreSQL server that all cases share.
#[derive(Debug)]
pub struct Postgres(String);

impl Stage for Postgres {
    type Backend = PostgresBackend;

    async fn open() -> Self {
        let (server, template) = &*POSTGRES;
        Self(server.copy(template))
    }

    async fn client(&self) -> PostgresBackend {
        let store = PostgresBackend::open(POSTGRES.0.url(&self.0)).unwrap();
        // To log in takes a while in a build without optimization, and some cases poll a future only for a moment.
        store.connect().await.unwrap();
        store
    }

    fn is_free(&self) -> bool {
        let held = "SELECT count(*) FROM lock_v1.held WHERE ends > clock_timestamp()";
        POSTGRES.0.sql(&self.0, held) == "0\n"
    }
}

static ETCD: LazyLock<EtcdServer> = LazyLock::new(EtcdServer::start);

/// The locks with one prefix on an etcd server that all cases share.
#[derive(Debug)]
pub struct Etcd {
    prefix: String,
    /// Looks at the locks of the clients of the case.
    onlooker: EtcdBackend,
}

impl Etcd {
    fn client_of(prefix: &str) -> EtcdBackend {
        let client = EtcdBackend::builder(ETCD.url()).prefix(prefix);
        // One member has no leader that others could replace.
        client.allow_unsafe_version().build().unwrap()
    }
}

impl Stage for Etcd {
    type Backend = EtcdBackend;

    async fn open() -> Self {
        let prefix = format!("case{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let onlooker = tokio::task::block_in_place(|| Self::client_of(&prefix));
        Self { prefix, onlooker }
    }

    async fn client(&self) -> EtcdBackend {
        let client = Self::client_of(&self.prefix);
        // Some cases poll a future only for a moment.
        client.connect().await.unwrap();
        client
    }

    fn is_free(&self) -> bool {
        let all = List::of("");
        let look = self.onlooker.list(&all);
        let page = tokio::task::block_in_place(|| Handle::current().block_on(look)).unwrap();
        page.locks.iter().all(|lock| lock.inspection.holding == 0)
    }
}

/// A quorum of three servers.
#[derive(Debug)]
pub struct QuorumOfThree([RedisServer; 3]);

impl Stage for QuorumOfThree {
    type Backend = Redlock<RedisBackend>;
    const VOTES: bool = true;
    async fn open() -> Self {
        let stage = Self([(); 3].map(|()| RedisServer::start()));
        stage.client().await.init().await.unwrap();
        stage
    }

    async fn client(&self) -> Redlock<RedisBackend> {
        let nodes = self.0.iter().map(|server| RedisBackend::open(server.url()).unwrap());
        let quorum = Redlock::builder().nodes(nodes).max_ttl(Ttl::new(LONG).unwrap());
        quorum.build().await.unwrap()
    }

    fn is_free(&self) -> bool {
        self.0.iter().all(|server| is_free(server, "lock:"))
    }
}

static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(|| RedisCluster::start(3, 0));
static SERVICE: LazyLock<Sentinels> = LazyLock::new(|| Sentinels::with_patience(1, 3, PATIENCE));
/// On a busy machine a server may be silent for a while, and no case is about a failover.
const PATIENCE: Duration = Duration::from_secs(60);
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The part of a deployment that has one prefix. All cases share the deployment.
struct Part {
    url: String,
    servers: Vec<&'static RedisServer>,
    prefix: String,
}

impl Part {
    fn of(url: String, servers: Vec<&'static RedisServer>) -> Self {
        let prefix = format!("case{}:", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { url, servers, prefix }
    }

    fn client(&self) -> RedisBackend {
        RedisBackend::builder(&self.url).prefix(&self.prefix).build().unwrap()
    }

    fn is_free(&self) -> bool {
        self.servers.iter().all(|server| is_free(server, &self.prefix))
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)
    }
}

/// A cluster of three primaries. The names of one case have slots of several primaries.
#[derive(Debug)]
pub struct Cluster(Part);

impl Stage for Cluster {
    type Backend = RedisBackend;

    async fn open() -> Self {
        let servers = || CLUSTER.nodes().iter().map(ClusterNode::server).collect();
        Self(tokio::task::block_in_place(|| Part::of(CLUSTER.url(), servers())))
    }

    async fn client(&self) -> RedisBackend {
        self.0.client()
    }

    fn is_free(&self) -> bool {
        self.0.is_free()
    }
}

/// A primary with a replica, which sentinels watch.
#[derive(Debug)]
pub struct Service(Part);

impl Stage for Service {
    type Backend = RedisBackend;

    async fn open() -> Self {
        let part = || Part::of(SERVICE.url(), vec![&SERVICE.servers()[0]]);
        Self(tokio::task::block_in_place(part))
    }

    async fn client(&self) -> RedisBackend {
        self.0.client()
    }

    fn is_free(&self) -> bool {
        self.0.is_free()
    }
}

/// Whether no key with this prefix on this server holds a lock. The remains of a lock have names of their own.
fn is_free(server: &RedisServer, prefix: &str) -> bool {
    let keys = server.keys(&format!("{prefix}{{*"));
    let stays = |key: &String| [":state", ":limit", ":cell"].iter().any(|left| key.ends_with(left));
    keys.iter().all(|key| stays(key) || key.contains(crate::LABELS))
}
