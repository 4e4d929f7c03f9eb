//! Listening to nodes that do not speak for long.

use std::time::Duration;

use async_trait::async_trait;
use futures::stream;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, Attempt, Backend, Ballot, Claim, Clock, FencingToken, Quarantine, QuorumNode,
    Released, Renew, Renewal, Result, Standing, Ttl, Vote, Watch,
};
use lock_redlock::Redlock;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::support::claim;

/// A node whose watches end as soon as they have begun, if it is fickle.
struct Node(MemoryBackend, bool);

#[async_trait]
impl Backend for Node {
    async fn try_acquire(&self, request: &Acquire) -> Result<Attempt> {
        self.0.try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.0.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.0.release(claim).await
    }

    async fn watch(&self, key: &lock_core::Key) -> Result<Watch> {
        let watch = self.0.watch(key).await?;
        Ok(if self.1 { Watch::new(stream::empty()) } else { watch })
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }
}

#[async_trait]
impl QuorumNode for Node {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote> {
        self.0.vote(ballot).await
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        self.0.confirm(claim, token).await
    }

    async fn standing(&self) -> Result<Standing> {
        self.0.standing().await
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool> {
        self.0.vouch(quarantine, max_ttl).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_ends_every_watch_is_asked_ever_less_often() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let nodes = [(0, false), (1, true), (2, false)];
    let nodes = nodes.map(|(index, is_fickle)| Node(stores[index].clone(), is_fickle));
    let quorum = Redlock::builder().nodes(nodes).on_runtime(Handle::current()).build().await;
    let quorum = quorum.unwrap();
    let mut watch = quorum.watch(&claim("a").key).await.unwrap();
    let listening = async { while watch.next().await.is_some() {} };
    let ended = timeout(Duration::from_secs(60), listening).await;
    assert!(ended.is_err(), "the watch goes on");
    let watches = stores.map(|store| store.stats().watches);
    assert!(watches[0] == 1 && watches[2] == 1 && (5..40).contains(&watches[1]), "{watches:?}");
}
