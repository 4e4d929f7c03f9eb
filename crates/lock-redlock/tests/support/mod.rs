//! Quorums over stores in this process.

use lock_core::Result;
use lock_core::conformance::{Harness, Hook};
use lock_core::memory::MemoryBackend;
use lock_redlock::Redlock;
use tokio::runtime::Handle;

/// Some stores, which clients use as one.
pub struct Cluster {
    pub stores: Vec<MemoryBackend>,
}

/// One process: its own connection to every store.
pub struct Client {
    pub nodes: Vec<MemoryBackend>,
    pub quorum: Redlock<MemoryBackend>,
}

impl Cluster {
    /// So many stores that somebody has vouched for.
    pub async fn of(stores: usize) -> Self {
        let cluster = Self::unvouched(stores);
        cluster.join().await.expect("the stores are there").quorum.init().await.expect("likewise");
        cluster
    }

    /// So many stores that nobody knows.
    pub fn unvouched(stores: usize) -> Self {
        Self { stores: (0..stores).map(|_| MemoryBackend::new()).collect() }
    }

    /// Another process.
    pub async fn join(&self) -> Result<Client> {
        let nodes: Vec<_> = self.stores.iter().map(MemoryBackend::client).collect();
        let builder = Redlock::builder().nodes(nodes.clone()).allow_any_number();
        let quorum = builder.on_runtime(Handle::current()).build().await?;
        Ok(Client { nodes, quorum })
    }
}

#[async_trait::async_trait]
impl Harness for Cluster {
    type Client = Client;

    async fn client(&self) -> Result<Client> {
        self.join().await
    }

    async fn cut(&self, client: &Client) -> Hook {
        client.nodes.iter().for_each(|node| node.faults().cut());
        Hook::Done
    }

    async fn heal(&self, client: &Client) {
        client.nodes.iter().for_each(|node| node.faults().heal());
    }

    /// As an operator does who has lost everything and begins anew.
    async fn forget(&self) -> Hook {
        self.stores.iter().for_each(MemoryBackend::forget);
        match self.join().await {
            Ok(client) if client.quorum.init().await.is_ok() => Hook::Done,
            _ => Hook::NotApplicable("the stores could not be reached"),
        }
    }

    fn ttl(&self) -> lock_core::Ttl {
        Harness::ttl(&self.stores[0])
    }
}

/// A client is a backend, so that the suite can use it.
mod forward {
    use lock_core::{Acquire, Attempt, Backend, Claim, Clock, Key, Released, Renew, Renewal};
    use lock_core::{Result, Watch};

    use super::Client;

    #[async_trait::async_trait]
    impl Backend for Client {
        async fn try_acquire(&self, request: &Acquire) -> Result<Attempt> {
            self.quorum.try_acquire(request).await
        }

        async fn renew(&self, request: &Renew) -> Renewal {
            self.quorum.renew(request).await
        }

        async fn release(&self, claim: &Claim) -> Result<Released> {
            self.quorum.release(claim).await
        }

        async fn watch(&self, key: &Key) -> Result<Watch> {
            self.quorum.watch(key).await
        }

        fn clock(&self) -> Clock {
            self.quorum.clock()
        }
    }
}
