//! Servers, and what is on them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lock_core::{
    Acquire, Backend, Ballot, Claim, FencingToken, Key, OwnerToken, QuorumNode, Ttl, Vote,
};
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use lock_tests::resp::Value;
use lock_tests::{RedisServer, RedisServerBuilder, eventually_async};

use super::{Client, LONG, MAX_TTL, NODE_TIMEOUT, SOON};

/// The key of the lock "it".
pub(crate) const LOCK: &str = "lock:{it}";

/// One database on each of several servers.
pub(crate) struct Nodes {
    servers: Arc<Vec<RedisServer>>,
    count: usize,
    database: usize,
    /// The longest lease.
    pub(crate) max_ttl: Ttl,
}

impl Nodes {
    /// Servers that a client has declared new.
    pub(crate) async fn new(count: usize) -> Self {
        Self::with(count, MAX_TTL, |server| server).await
    }

    /// Servers for leases that outlast any test.
    pub(crate) async fn long(count: usize) -> Self {
        Self::with(count, LONG, |server| server).await
    }

    /// Servers with options.
    pub(crate) async fn with(
        count: usize,
        max_ttl: Duration,
        options: impl Fn(RedisServerBuilder) -> RedisServerBuilder,
    ) -> Self {
        let servers = Arc::new(started(count, options));
        let nodes = Self { servers, count, database: 0, max_ttl: Ttl::new(max_ttl).unwrap() };
        nodes.init().await;
        nodes
    }

    /// A new database on servers that other tests use as well, for such leases.
    pub(crate) async fn shared(count: usize) -> Self {
        const SERVERS: usize = 5;
        const DATABASES: usize = 2_000;
        static SHARED: Mutex<Weak<Vec<RedisServer>>> = Mutex::new(Weak::new());
        static USED: AtomicUsize = AtomicUsize::new(0);

        let servers = {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let options =
                    |server: RedisServerBuilder| server.config("databases", DATABASES.to_string());
                let servers = Arc::new(started(SERVERS, options));
                *shared = Arc::downgrade(&servers);
                servers
            })
        };
        let database = USED.fetch_add(1, Ordering::Relaxed);
        assert!(database < DATABASES, "there are not as many databases");
        let max_ttl = Ttl::new(LONG).unwrap();
        let nodes = Self { servers, count, database, max_ttl };
        nodes.init().await;
        nodes
    }

    /// Says that they are new.
    pub(crate) async fn init(&self) {
        let clients = self.urls().map(|url| RedisBackend::open(url).unwrap());
        let quorum = Redlock::builder().nodes(clients).max_ttl(self.max_ttl);
        quorum.build().await.unwrap().init().await.unwrap();
    }

    /// Has every server load the scripts of a vote. On one that has to load them first, the vote of a second client may
    /// overtake that of the first.
    pub(crate) async fn warm_up(&self) {
        for url in self.urls() {
            let node = RedisBackend::open(url).unwrap();
            let key = Key::new("to warm up").unwrap();
            let claim = Claim::exclusive(key, OwnerToken::generate().unwrap());
            let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
            let request = Acquire::new(claim.clone(), ttl);
            // A repeated vote is that of the full script.
            for _ in 0..2 {
                let ballot = Ballot::new(request.clone(), FencingToken::new(1));
                assert!(matches!(node.vote(&ballot).await.unwrap(), Vote::Granted(_)));
            }
            node.release(&claim).await.unwrap();
        }
    }

    pub(crate) fn servers(&self) -> &[RedisServer] {
        &self.servers[..self.count]
    }

    /// How long one may take to answer: longer where leases leave time for that.
    pub(crate) fn timeout(&self) -> Duration {
        if self.max_ttl.duration() == LONG { NODE_TIMEOUT * 5 } else { NODE_TIMEOUT }
    }

    /// The way of a client that goes through something at `addr` to a server.
    pub(crate) fn url_through(&self, server: usize, addr: std::net::SocketAddr) -> String {
        format!("{}/{}", self.servers[server].url_through(addr), self.database)
    }

    fn urls(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|node| self.url_through(node, self.servers[node].addr()))
    }

    /// Deletes everything.
    pub(crate) fn forget(&self) {
        for server in self.servers() {
            let mut client = server.connect().unwrap();
            for command in [&["SELECT", &self.database.to_string()][..], &["FLUSHDB"]] {
                assert_eq!(client.command(command).unwrap(), Value::Text(b"OK".to_vec()));
            }
        }
    }

    /// The running servers on which a client has the lock "it".
    pub(crate) fn holding(&self) -> Vec<usize> {
        let has = |&node: &usize| {
            let found = self.servers[node].try_cli(&["EXISTS", LOCK]);
            found.is_ok_and(|found| found.int() == 1)
        };
        (0..self.count).filter(has).collect()
    }

    /// Waits until the lock "it" is on exactly these servers.
    pub(crate) async fn until_held_on(&self, nodes: &[usize]) {
        let what = format!("the lock is on {nodes:?} alone");
        eventually_async(&what, SOON, async || self.holding() == nodes).await;
    }

    /// Two clients with the defaults of these tests.
    pub(crate) async fn pair(&self) -> (Client, Client) {
        (Client::new(self).await, Client::new(self).await)
    }
}

fn started(
    count: usize,
    options: impl Fn(RedisServerBuilder) -> RedisServerBuilder,
) -> Vec<RedisServer> {
    RedisServer::start_all((0..count).map(|_| options(RedisServer::builder())).collect())
}
