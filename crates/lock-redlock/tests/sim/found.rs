//! What went wrong in one story of thousands before it was mended, told in short.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, Attempt, Backend, Claim, OwnerToken, Renew, Renewal, Ttl};
use lock_redlock::Redlock;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::client::key_of;

const TTL: Ttl = Ttl::DEFAULT;

fn claim(owner: u8) -> Claim {
    Claim::exclusive(key_of(0), OwnerToken::from_bytes([owner; 16]))
}

async fn join(stores: &[MemoryBackend]) -> Redlock<MemoryBackend> {
    let nodes = stores.iter().map(MemoryBackend::client);
    let quorum = Redlock::builder().nodes(nodes).on_runtime(Handle::current()).build().await;
    let quorum = quorum.unwrap();
    quorum.init().await.unwrap();
    quorum
}

fn node(quorum: &Redlock<MemoryBackend>, number: usize) -> &MemoryBackend {
    quorum.nodes().nth(number).unwrap().1
}

async fn vote(store: &MemoryBackend, claim: Claim, ttl: Ttl) {
    let attempt = store.try_acquire(&Acquire::new(claim, ttl)).await;
    assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
}

/// A vote that others have, and an answer that does not come, made it look like a split vote, in which one
/// gives way.
#[tokio::test(start_paused = true)]
async fn asking_again_for_what_is_held_gives_up_nothing() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = join(&stores).await;
    vote(&stores[2], claim(1), TTL).await;
    let request = Acquire::new(claim(2), TTL);
    let attempt = quorum.try_acquire(&request).await;
    assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");

    let gate = node(&quorum, 1).faults().on(Verb::Vote).hold_requests();
    let error = quorum.try_acquire(&request).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(stores[..2].iter().map(MemoryBackend::live_leases).sum::<usize>(), 2);
    gate.open();
    assert!(matches!(quorum.try_acquire(&request).await, Ok(Attempt::Granted(_))));
}

/// A vote came late at a node that was still to be told to release it. It was renewed before it was released,
/// and counted.
#[tokio::test(start_paused = true)]
async fn a_vote_that_is_still_to_be_released_does_not_keep_a_lease() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = join(&stores).await;
    // The first request is given up at a node that does not answer.
    vote(&stores[1], claim(1), Ttl::new(Duration::from_secs(10)).unwrap()).await;
    let gate = node(&quorum, 0).faults().hold_requests();
    let attempt = quorum.try_acquire(&Acquire::new(claim(2), TTL)).await;
    assert!(!matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    // The second has the other two.
    sleep(Duration::from_secs(10)).await;
    let attempt = quorum.try_acquire(&Acquire::new(claim(2), TTL)).await;
    assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    // Now the vote for the first arrives.
    vote(&stores[0], claim(2), TTL).await;
    let held = node(&quorum, 0).faults().on(Verb::Release).hold_requests();
    gate.open();
    node(&quorum, 1).faults().cut();
    let renewal = quorum.renew(&Renew::new(claim(2), TTL)).await;
    assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    drop(held);
}
