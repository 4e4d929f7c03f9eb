//! A client of the servers, which looks to them like a process of its own.

use std::sync::Arc;
use std::time::Duration;

use lock_redis::RedisBackend;
use lock_redlock::{Builder, Redlock, Voting};
use lock_sync::{Locks, Mutex, OwnedMutexGuard, TryLockError};
use lock_tests::{Proxy, eventually_async};

use super::{LEASE, Nodes, SOON};

pub(crate) type Quorum = Redlock<RedisBackend>;

/// A client with a way of its own to each server.
pub(crate) struct Client {
    pub(crate) ways: Vec<Proxy>,
    pub(crate) quorum: Quorum,
    pub(crate) locks: Locks<Quorum>,
}

impl Client {
    pub(crate) async fn new(nodes: &Nodes) -> Self {
        Self::with(nodes, |quorum| quorum, |locks| locks).await
    }

    /// One that never renews, and whose leases are as long as can be.
    pub(crate) async fn idle(nodes: &Nodes) -> Self {
        let ttl = nodes.max_ttl.duration();
        Self::with(nodes, |quorum| quorum, |locks| locks.renewal(false).ttl(ttl)).await
    }

    /// As above, with other options.
    pub(crate) async fn with(
        nodes: &Nodes,
        quorum: impl FnOnce(Builder<RedisBackend>) -> Builder<RedisBackend>,
        locks: impl FnOnce(lock_sync::Builder<Quorum>) -> lock_sync::Builder<Quorum>,
    ) -> Self {
        let ways: Vec<_> = nodes.servers().iter().map(Proxy::before).collect();
        let quorum = quorum(builder(nodes, &ways)).build().await.unwrap();
        let locks = locks(Locks::builder(quorum.clone()).ttl(LEASE)).build().unwrap();
        Self { ways, quorum, locks }
    }

    /// The lock "it".
    pub(crate) fn mutex(&self) -> Arc<Mutex<()>> {
        Arc::new(self.locks.mutex("it", ()).unwrap())
    }

    /// Tries to take it.
    pub(crate) async fn try_lock(&self) -> Result<OwnedMutexGuard<()>, TryLockError> {
        self.mutex().try_lock_owned().await
    }

    /// Cuts it off from these servers: its connections are closed, and it gets no others.
    pub(crate) fn cut_off_from(&self, nodes: &[usize]) {
        for &node in nodes {
            self.ways[node].refuse();
            self.ways[node].cut();
        }
    }

    /// Which servers vote, as far as this client can tell.
    pub(crate) async fn voters(&self) -> Vec<usize> {
        let status = self.quorum.status().await.into_iter().enumerate();
        status.filter(|(_, it)| it.voting == Voting::Yes).map(|(node, _)| node).collect()
    }

    /// Waits until so many servers vote, and says how long that took.
    pub(crate) async fn until_voting(&self, count: usize) -> Duration {
        let what = format!("{count} servers vote");
        eventually_async(&what, SOON, async || self.voters().await.len() == count).await
    }
}

/// A quorum whose nodes are reached through these.
pub(crate) fn builder(nodes: &Nodes, ways: &[Proxy]) -> Builder<RedisBackend> {
    let mut builder = Redlock::builder();
    for (node, way) in ways.iter().enumerate() {
        let backend = RedisBackend::builder(nodes.url_through(node, way.addr()))
            .connect_timeout(nodes.timeout())
            .build()
            .unwrap();
        builder = builder.nodes([backend]);
    }
    builder.node_timeout(nodes.timeout()).max_ttl(nodes.max_ttl)
}
