//! Short versions of stories that once went wrong, one in thousands, before the fault was fixed.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, OwnerToken, Released, Renew, Renewal, Ttl,
};
use lock_redlock::Redlock;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

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
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
}

/// A vote for another claim and a missing answer looked like a split vote, in which one claim gives way.
#[tokio::test(start_paused = true)]
async fn asking_again_for_what_is_held_gives_up_nothing() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = join(&stores).await;
    vote(&stores[2], claim(1), TTL).await;
    let request = Acquire::new(claim(2), TTL);
    let attempt = quorum.try_acquire(&request).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");

    let gate = node(&quorum, 1).faults().on(Verb::Vote).hold_requests();
    let error = quorum.try_acquire(&request).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(stores[..2].iter().map(MemoryBackend::live_leases).sum::<usize>(), 2);
    gate.open();
    assert!(matches!(quorum.try_acquire(&request).await, Ok(AcquireOutcome::Granted(_))));
}

/// A vote arrived late at a node that still had to get its release. It was renewed before it was released, and counted.
#[tokio::test(start_paused = true)]
async fn a_vote_that_is_still_to_be_released_does_not_keep_a_lease() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = join(&stores).await;
    // The first request is given up at a node that does not answer.
    vote(&stores[1], claim(1), Ttl::new(Duration::from_secs(10)).unwrap()).await;
    let gate = node(&quorum, 0).faults().hold_requests();
    let attempt = quorum.try_acquire(&Acquire::new(claim(2), TTL)).await;
    assert!(!matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    // The second has the other two.
    sleep(Duration::from_secs(10)).await;
    let attempt = quorum.try_acquire(&Acquire::new(claim(2), TTL)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    // Now the vote for the first arrives.
    vote(&stores[0], claim(2), TTL).await;
    let held = node(&quorum, 0).faults().on(Verb::Release).hold_requests();
    gate.open();
    node(&quorum, 1).faults().cut();
    let renewal = quorum.renew(&Renew::new(claim(2), TTL)).await;
    assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    drop(held);
}

/// Each of three contenders had one vote, and had heard of the votes of the others first. So each took the lock for
/// held.
#[tokio::test(start_paused = true)]
async fn a_contender_waits_for_the_vote_that_it_may_have() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let quorum = join(&stores).await;
    for rival in [1, 2] {
        vote(&stores[usize::from(rival)], claim(rival + 7), TTL).await;
    }
    let gate = node(&quorum, 0).faults().on(Verb::Vote).hold_replies();
    // The contender with the lowest name is the favourite.
    let request = Acquire::new(claim(1), TTL);
    let mut attempt = Box::pin(quorum.try_acquire(&request));
    assert!(timeout(Duration::from_millis(100), &mut attempt).await.is_err());
    gate.open();
    for rival in [1, 2] {
        stores[usize::from(rival)].release(&claim(rival + 7)).await.unwrap();
    }
    let attempt = attempt.await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
}

/// A release overtook a vote, and counted. So the release was over while two of three nodes had the vote.
#[tokio::test(start_paused = true)]
async fn a_release_that_overtakes_its_vote_frees_no_node() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let (quorum, other) = (join(&stores).await, join(&stores).await);
    let late = node(&quorum, 2).faults().on(Verb::Vote).hold_requests();
    let attempt = quorum.try_acquire(&Acquire::new(claim(1), TTL)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");

    let gate = node(&quorum, 1).faults().on(Verb::Release).hold_requests();
    let freed = claim(1);
    let mut release = Box::pin(quorum.release(&freed));
    assert!(timeout(Duration::from_millis(100), &mut release).await.is_err());
    gate.open();
    let released = release.await;
    assert!(matches!(released, Ok(Released::Freed { .. })), "{released:?}");
    late.open();
    let attempt = other.try_acquire(&Acquire::new(claim(2), TTL)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
}
