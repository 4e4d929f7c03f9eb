//! Short versions of stories that once went wrong, one in thousands, before the fault was fixed.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Grant, OwnerToken, Released, Renew,
    Renewal, Stored, Ttl,
};
use lock_redlock::{Builder, Redlock};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::client::key_of;

const TTL: Ttl = Ttl::DEFAULT;

fn claim(owner: u8) -> Claim {
    Claim::exclusive(key_of(0), OwnerToken::from_bytes([owner; 16]))
}

fn builder(stores: &[MemoryBackend]) -> Builder<MemoryBackend> {
    let nodes = stores.iter().map(MemoryBackend::client);
    Redlock::builder().nodes(nodes).on_runtime(Handle::current())
}

async fn join(stores: &[MemoryBackend]) -> Redlock<MemoryBackend> {
    let quorum = builder(stores).build().await.unwrap();
    quorum.init().await.unwrap();
    quorum
}

/// A client that drops no request, however late the answer is.
async fn join_patiently(stores: &[MemoryBackend]) -> Redlock<MemoryBackend> {
    let quorum = builder(stores).node_timeout(20 * TTL.duration()).build().await.unwrap();
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

async fn granted(quorum: &Redlock<MemoryBackend>, owner: u8) -> Grant {
    match quorum.try_acquire(&Acquire::new(claim(owner), TTL)).await {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// The lease of claim 1 ends. Claim 2 gets the lock, and gives it back.
async fn pass_on(quorum: &Redlock<MemoryBackend>) {
    sleep(TTL.duration() * 2).await;
    granted(quorum, 2).await;
    assert!(matches!(quorum.release(&claim(2)).await, Ok(Released::Freed { .. })));
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

/// A write was sent while a vote was under way: that of the first request, or of a repetition for the held claim. The
/// node got both after the lease. It granted the lease anew, and accepted the write, although another holder had loaded
/// the earlier value.
#[tokio::test(start_paused = true)]
async fn no_write_is_sent_while_a_vote_is_under_way() {
    for is_repeated in [false, true] {
        let stores = [(); 3].map(|()| MemoryBackend::new());
        let (quorum, other) = (join_patiently(&stores).await, join(&stores).await);
        if is_repeated {
            granted(&quorum, 1).await;
        }
        let [vote, write, _release] = [Verb::Vote, Verb::Cell, Verb::Release]
            .map(|verb| node(&quorum, 2).faults().on(verb).hold_requests());
        let token = granted(&quorum, 1).await.tokens.last();
        let stored = quorum.store(&claim(1), token, Some(b"value")).await.unwrap();
        assert_eq!(stored, Stored::Written);
        pass_on(&other).await;

        vote.open();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(stores[2].live_leases(), 1);
        write.open();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(stores[2].load(&claim(1).key).await.unwrap(), None, "{is_repeated}");
    }
}

/// Any majority may lack a value that becomes settled later.
#[tokio::test(start_paused = true)]
async fn a_holder_must_load_from_the_nodes_that_granted_its_claim() {
    let stores = [(); 3].map(|()| MemoryBackend::new());
    let (quorum, other) = (join(&stores).await, join(&stores).await);
    let key = claim(1).key;
    let token = granted(&quorum, 1).await.tokens.last();
    let [late, _never] =
        [1, 2].map(|late| node(&quorum, late).faults().on(Verb::Cell).hold_requests());
    quorum.store(&claim(1), token, Some(b"value")).await.unwrap_err();
    for node in [0, 2] {
        stores[node].release(&claim(1)).await.unwrap();
    }

    granted(&other, 2).await;
    let slow = node(&other, 0).faults().on(Verb::Cell).hold_requests();
    assert_eq!(other.load(&key).await.unwrap(), None);
    other.load_under(&claim(2)).await.unwrap_err();
    slow.open();
    let found = other.load_under(&claim(2)).await.unwrap().unwrap();
    assert_eq!((&found.value[..], found.settled), (&b"value"[..], false));

    late.open();
    sleep(Duration::from_secs(1)).await;
    let found = other.load(&key).await.unwrap().unwrap();
    assert_eq!((&found.value[..], found.settled), (&b"value"[..], true));
}
