//! Quorums over stores in this process.

use std::time::Duration;

use lock_core::conformance::{Harness, Hook};
use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Grant, Key, OwnerToken, Result, Ttl};
use lock_redlock::{Builder, Redlock};
use tokio::runtime::Handle;

pub(crate) type Quorum = Redlock<MemoryBackend>;

/// Some stores, which clients use as one.
pub(crate) struct Cluster {
    pub(crate) stores: Vec<MemoryBackend>,
}

impl Cluster {
    /// So many stores for which no client has vouched.
    pub(crate) fn new(stores: usize) -> Self {
        Self { stores: (0..stores).map(|_| MemoryBackend::new()).collect() }
    }

    /// So many stores for which a client has vouched.
    pub(crate) async fn of(stores: usize) -> Self {
        let cluster = Self::new(stores);
        cluster.join().await.init().await.unwrap();
        cluster
    }

    /// What another process sets up, with connections of its own.
    pub(crate) fn builder(&self) -> Builder<MemoryBackend> {
        let nodes = self.stores.iter().map(MemoryBackend::client);
        Redlock::builder().nodes(nodes).allow_any_number().on_runtime(Handle::current())
    }

    /// How many leases the stores have together.
    pub(crate) fn leases(&self) -> usize {
        self.stores.iter().map(MemoryBackend::live_leases).sum()
    }

    /// Another process.
    pub(crate) async fn join(&self) -> Quorum {
        self.builder().build().await.unwrap()
    }
}

/// Three stores, and a quorum over them that has a thread of its own.
pub(crate) async fn of_three() -> (Vec<MemoryBackend>, Quorum) {
    let nodes: Vec<_> = (0..3).map(|_| MemoryBackend::new()).collect();
    let quorum = Redlock::builder()
        .nodes(nodes.iter().map(MemoryBackend::client))
        .node_timeout(Duration::from_millis(50))
        .build()
        .await
        .unwrap();
    quorum.init().await.unwrap();
    (nodes, quorum)
}

/// The way of one process to one store.
pub(crate) fn node(quorum: &Quorum, index: usize) -> &MemoryBackend {
    quorum.nodes().nth(index).unwrap().1
}

/// A claim by a new owner.
pub(crate) fn claim(name: &str) -> Claim {
    let owner = OwnerToken::generate().unwrap();
    Claim::exclusive(Key::new(name).unwrap(), owner)
}

/// Asks for a lease that must be granted.
pub(crate) async fn granted(quorum: &Quorum, claim: &Claim, ttl: Ttl) -> Grant {
    match quorum.try_acquire(&Acquire::new(claim.clone(), ttl)).await {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// Waits until something is so that happens elsewhere.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("it did not come to pass within ten seconds");
}

#[async_trait::async_trait]
impl Harness for Cluster {
    type Client = Quorum;

    async fn client(&self) -> Result<Quorum> {
        self.builder().build().await
    }

    async fn cut(&self, client: &Quorum) -> Hook {
        client.nodes().for_each(|(_, node)| node.faults().cut());
        Hook::Done
    }

    async fn heal(&self, client: &Quorum) {
        client.nodes().for_each(|(_, node)| node.faults().heal());
    }

    /// As after losing everything and beginning anew.
    async fn forget(&self) -> Hook {
        self.stores.iter().for_each(MemoryBackend::forget);
        self.join().await.init().await.unwrap();
        Hook::Done
    }

    fn ttl(&self) -> Ttl {
        Harness::ttl(&self.stores[0])
    }
}
