//! Quorums over stores in this process.

use lock_core::conformance::{Harness, Hook};
use lock_core::memory::MemoryBackend;
use lock_core::{Result, Ttl};
use lock_redlock::{Builder, Redlock};
use tokio::runtime::Handle;

pub(crate) type Quorum = Redlock<MemoryBackend>;

/// Some stores, which clients use as one.
pub(crate) struct Cluster {
    pub(crate) stores: Vec<MemoryBackend>,
}

impl Cluster {
    /// So many stores that nobody knows.
    pub(crate) fn new(stores: usize) -> Self {
        Self { stores: (0..stores).map(|_| MemoryBackend::new()).collect() }
    }

    /// So many stores that somebody has vouched for.
    pub(crate) async fn of(stores: usize) -> Self {
        let cluster = Self::new(stores);
        cluster.join().await.init().await.expect("the stores are there");
        cluster
    }

    /// What another process sets up, with connections of its own.
    pub(crate) fn builder(&self) -> Builder<MemoryBackend> {
        let nodes = self.stores.iter().map(MemoryBackend::client);
        Redlock::builder().nodes(nodes).allow_any_number().on_runtime(Handle::current())
    }

    /// Another process.
    pub(crate) async fn join(&self) -> Quorum {
        self.builder().build().await.expect("the stores are there")
    }
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
        self.join().await.init().await.expect("the stores are there");
        Hook::Done
    }

    fn ttl(&self) -> Ttl {
        Harness::ttl(&self.stores[0])
    }
}
