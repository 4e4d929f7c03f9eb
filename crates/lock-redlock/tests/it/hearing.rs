//! Listening to nodes that do not speak for long, or without end.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, Claim, Clock, FencingToken, Hint, Membership,
    Quarantine, QuorumNode, Released, Renew, Renewal, Result, Standing, Terms, Ttl, Vote, Watch,
};
use lock_redlock::Redlock;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::support::{claim, until};

/// A node, and how its watches are.
struct Node(MemoryBackend, Manner);

#[derive(Clone, Copy)]
enum Manner {
    Usual,
    /// They end as soon as they have begun.
    Fickle,
    /// They have always another hint to give.
    Endless,
    /// Its releases panic, so many times.
    Frail(&'static AtomicU32),
}

#[async_trait]
impl Backend for Node {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome> {
        self.0.try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.0.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        if let Manner::Frail(left) = self.1 {
            let is_left = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(is_left.is_err(), "the backend has a bug");
        }
        self.0.release(claim).await
    }

    async fn watch(&self, key: &lock_core::Key) -> Result<Watch> {
        let watch = self.0.watch(key).await?;
        Ok(match self.1 {
            Manner::Usual | Manner::Frail(_) => watch,
            Manner::Fickle => Watch::new(stream::empty()),
            Manner::Endless => Watch::new(stream::repeat(Hint::Changed)),
        })
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

    async fn standing(&self, terms: &Terms) -> Result<Standing> {
        self.0.standing(terms).await
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool> {
        self.0.vouch(quarantine, max_ttl).await
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing> {
        self.0.reassign(from, terms).await
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing> {
        self.0.admit(terms).await
    }
}

/// The second of three is different.
async fn quorum(stores: &[MemoryBackend; 3], second: Manner) -> Redlock<Node> {
    let manners = [Manner::Usual, second, Manner::Usual];
    let nodes = stores.iter().cloned().zip(manners).map(|(store, manner)| Node(store, manner));
    Redlock::builder().nodes(nodes).on_runtime(Handle::current()).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_ends_every_watch_is_asked_ever_less_often() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = quorum(&stores, Manner::Fickle).await;
    let mut watch = quorum.watch(&claim("a").key).await.unwrap();
    let listening = async { while watch.next().await.is_some() {} };
    let ended = timeout(Duration::from_secs(60), listening).await;
    assert!(ended.is_err(), "the watch goes on");
    let watches = stores.map(|store| store.stats().watches);
    assert!(watches[0] == 1 && watches[2] == 1 && (5..40).contains(&watches[1]), "{watches:?}");
}

/// The first panic is in the request of the caller, and the second one in the background.
#[tokio::test(start_paused = true)]
async fn a_node_whose_client_panics_is_asked_again() {
    static PANICS: AtomicU32 = AtomicU32::new(2);
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = quorum(&stores, Manner::Frail(&PANICS)).await;
    quorum.init().await.unwrap();
    let held = claim("a");
    let attempt = quorum.try_acquire(&Acquire::new(held.clone(), Ttl::DEFAULT)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    until(|| stores[1].live_leases() == 1).await;
    quorum.release(&held).await.unwrap();
    until(|| stores[1].live_leases() == 0).await;
    assert_eq!(PANICS.load(SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_with_endless_hints_does_not_block_the_watch() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = quorum(&stores, Manner::Endless).await;
    quorum.init().await.unwrap();
    let held = claim("a");
    let attempt = quorum.try_acquire(&Acquire::new(held.clone(), Ttl::DEFAULT)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    let mut watch = quorum.watch(&held.key).await.unwrap();
    // Time stands still while the watch listens, so it hears exactly what the nodes say at once.
    let (hint, released) = tokio::join!(watch.next(), quorum.release(&held));
    assert_eq!(hint, Some(Hint::Released));
    assert!(matches!(released, Ok(Released::Freed { .. })), "{released:?}");
}
