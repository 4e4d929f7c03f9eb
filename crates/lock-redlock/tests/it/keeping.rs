//! Renewing and watching by majority.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, ErrorKind, Hint, Renew, Renewal,
};
use lock_core::{InspectBackend, Released, Stored, Ttl};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Cluster, Quorum, claim, granted, node, until};

const TTL: Ttl = Ttl::DEFAULT;

async fn renewed(quorum: &Quorum, claim: &Claim) -> Renewal {
    quorum.renew(&Renew::new(claim.clone(), TTL)).await
}

#[tokio::test(start_paused = true)]
async fn a_majority_renews() {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    let grant = granted(&quorum, &held, TTL).await;
    sleep(Duration::from_secs(10)).await;
    node(&quorum, 0).faults().cut();
    let _gate = node(&quorum, 1).faults().hold_requests();
    let before = Instant::now();
    let renewal = renewed(&quorum, &held).await;
    let Renewal::Renewed { valid_until, .. } = renewal else { panic!("{renewal:?}") };
    assert_eq!(valid_until, grant.valid_until + Duration::from_secs(10));
    assert_eq!(before.elapsed(), Duration::ZERO);
}

/// All nodes have renewed the lease, but their answers come after its end. Another client could have held the lock in
/// between, if the nodes had not renewed it.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_heard_after_the_lease_has_ended_is_none() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.builder().node_timeout(TTL.duration()).build().await.unwrap();
    let held = claim("a");
    let grant = granted(&quorum, &held, TTL).await;
    sleep(TTL.duration() - Duration::from_secs(2)).await;
    for (_, node) in quorum.nodes() {
        node.faults().on(Verb::Renew).delay_replies(Duration::from_secs(3));
    }
    let renewal = renewed(&quorum, &held).await;
    assert!(quorum.clock().now() > grant.valid_until);
    assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
    until(|| cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_minority_does_not_and_that_is_not_a_loss() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    node(&quorum, 0).faults().cut();
    node(&quorum, 1).faults().cut();
    let renewal = renewed(&quorum, &held).await;
    let Renewal::Unknown(error) = renewal else { panic!("{renewal:?}") };
    assert!(error.is_retryable());
    assert!(error.to_string().starts_with("1 of 3 nodes renewed it, 2 are needed: 1: "), "{error}");
    node(&quorum, 0).faults().heal();
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Renewed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_a_lease_gets_it_back() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    let grant = granted(&quorum, &held, TTL).await;
    cluster.stores[1].force_release(&held.key).await.unwrap();
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Renewed { .. }));
    until(|| cluster.leases() == 3).await;
    // So it outlives one of those that voted at first, with the tokens that it had.
    cluster.stores[0].force_release(&held.key).await.unwrap();
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Renewed { .. }));
    assert_eq!(granted(&quorum, &held, TTL).await.tokens, grant.tokens);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_majority_lost_does_not_come_back() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    for store in &cluster.stores[..2] {
        store.force_release(&held.key).await.unwrap();
    }
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Lost));
    until(|| cluster.leases() == 0).await;
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Lost));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_planted_on_a_node_that_may_have_forgotten() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    cluster.stores[1].forget();
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Renewed { .. }));
    until(|| node(&quorum, 1).stats().votes == 2).await;
    assert_eq!(cluster.stores[1].live_leases(), 0);
    // When it is over, it is.
    for _ in 0..10 {
        sleep(Duration::from_secs(7)).await;
        assert!(matches!(renewed(&quorum, &held).await, Renewal::Renewed { .. }));
    }
    until(|| cluster.stores[1].live_leases() == 1).await;
}

/// One node had it from the beginning, another is away, and the third had another holder then.
#[tokio::test(start_paused = true)]
async fn a_node_takes_the_place_of_one_that_is_away() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (writer, held) = (claim("a"), claim("a"));
    granted_by(&cluster, 1, &writer).await;
    granted(&quorum, &held, TTL).await;
    until(|| node(&quorum, 1).stats().votes == 1).await;
    cluster.stores[1].release(&writer).await.unwrap();
    node(&quorum, 2).faults().cut();
    let renewal = renewed(&quorum, &held).await;
    assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    until(|| cluster.stores[1].live_leases() == 1).await;
    let renewal = renewed(&quorum, &held).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
}

/// A claim has a lease on one node alone.
async fn granted_by(cluster: &Cluster, store: usize, claim: &Claim) {
    let attempt = cluster.stores[store].try_acquire(&Acquire::new(claim.clone(), TTL)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
}

/// What a watch says next, within this time.
async fn hint(watch: &mut lock_core::Watch, within: Duration) -> Option<Hint> {
    timeout(within, watch.next()).await.ok().flatten()
}

const SOON: Duration = Duration::from_millis(20);

#[tokio::test(start_paused = true)]
async fn a_watch_needs_a_majority() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let _gate = node(&quorum, 0).faults().hold_requests();
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    let mut watch = quorum.watch(&held.key).await.unwrap();
    quorum.release(&held).await.unwrap();
    assert_eq!(hint(&mut watch, SOON).await, Some(Hint::Released));
    node(&quorum, 1).faults().cut();
    let error = quorum.watch(&held.key).await.unwrap_err();
    assert!(
        error.to_string().starts_with("1 of 3 nodes listen, 2 are needed: 1: no answer"),
        "{error}"
    );
    // One of two left is not enough to hear of everything.
    assert_eq!(hint(&mut watch, SOON).await, Some(Hint::Resync));
    node(&quorum, 1).faults().heal();
    assert_eq!(hint(&mut watch, Duration::from_secs(1)).await, Some(Hint::Resync));
    granted(&quorum, &held, TTL).await;
    quorum.release(&held).await.unwrap();
    assert_eq!(hint(&mut watch, SOON).await, Some(Hint::Released));
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_was_given_up_wakes_no_waiter_at_once() {
    let cluster = Cluster::of(3).await;
    let (holder, loser) = (cluster.join().await, cluster.join().await);
    node(&holder, 2).faults().cut();
    let held = claim("a");
    granted(&holder, &held, TTL).await;
    let mut watch = loser.watch(&held.key).await.unwrap();
    // It gets the third node, and gives it up.
    let attempt = loser.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Busy { .. }), "{attempt:?}");
    assert_eq!(node(&loser, 2).stats().releases, 1);
    assert_eq!(hint(&mut watch, Duration::from_millis(900)).await, None);
    holder.release(&held).await.unwrap();
    assert_eq!(hint(&mut watch, SOON).await, Some(Hint::Released));
}

#[tokio::test(start_paused = true)]
async fn a_value_is_known_to_every_majority() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    let token = granted(&quorum, &held, TTL).await.tokens.first();
    let store = async |value: Option<&[u8]>| quorum.store(&held, token, value).await;
    let load = async |missing: usize| {
        let other = cluster.join().await;
        node(&other, missing).faults().cut();
        other.load(&held.key).await.map(|cell| cell.map(|cell| cell.value))
    };
    node(&quorum, 0).faults().cut();
    assert_eq!(store(Some(b"first")).await.unwrap(), Stored::Written);
    for missing in 0..3 {
        assert_eq!(load(missing).await.unwrap(), Some(b"first".to_vec()));
    }
    // What is erased on two is not brought back by the third.
    node(&quorum, 0).faults().heal();
    assert_eq!(store(Some(b"second")).await.unwrap(), Stored::Written);
    node(&quorum, 1).faults().cut();
    quorum.release(&held).await.unwrap();
    let next = claim("a");
    node(&quorum, 1).faults().heal();
    until(|| cluster.leases() == 0).await;
    let token = granted(&quorum, &next, TTL).await.tokens.first();
    node(&quorum, 1).faults().cut();
    assert_eq!(quorum.store(&next, token, None).await.unwrap(), Stored::Written);
    for missing in 0..3 {
        assert_eq!(load(missing).await.unwrap(), None);
    }
    // Once every node has heard of it nothing is left.
    node(&quorum, 1).faults().heal();
    assert_eq!(quorum.store(&next, token, None).await.unwrap(), Stored::Written);
    for store in &cluster.stores {
        assert_eq!(MemoryBackend::load(store, &next.key).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_minority_stores_nothing() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    let token = granted(&quorum, &held, TTL).await.tokens.first();
    node(&quorum, 0).faults().cut();
    node(&quorum, 2).faults().cut();
    let error = quorum.store(&held, token, Some(b"x")).await.unwrap_err();
    assert!(error.to_string().starts_with("1 of 3 nodes stored it, 2 are needed"), "{error}");
    assert!(quorum.load(&held.key).await.is_err());
    assert!(quorum.inspect(&held.key).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_a_minority_stored_is_not_settled_until_it_is_stored_again() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    let token = granted(&quorum, &held, TTL).await.tokens.first();
    node(&quorum, 1).faults().on(Verb::Cell).fail(ErrorKind::Timeout);
    node(&quorum, 2).faults().on(Verb::Cell).fail(ErrorKind::Timeout);
    assert!(quorum.store(&held, token, Some(b"x")).await.is_err());
    let load = async |missing: Option<usize>| {
        let other = cluster.join().await;
        missing.into_iter().for_each(|missing| node(&other, missing).faults().cut());
        other.load(&held.key).await.unwrap().map(|cell| (cell.value, cell.settled))
    };
    assert_eq!(load(None).await, Some((b"x".to_vec(), false)));
    assert_eq!(load(Some(0)).await, None);
    node(&quorum, 1).faults().heal();
    assert_eq!(quorum.store(&held, token, Some(b"x")).await.unwrap(), Stored::Written);
    assert_eq!(load(None).await, Some((b"x".to_vec(), true)));
    for missing in 0..3 {
        assert_eq!(load(Some(missing)).await.unwrap().0, b"x");
    }
}

#[tokio::test(start_paused = true)]
async fn the_holder_hears_of_what_may_still_become_settled() {
    let cluster = Cluster::of(3).await;
    let (one, other) = (cluster.join().await, cluster.join().await);
    let first = claim("a");
    let token = granted(&one, &first, TTL).await.tokens.first();
    // What it stores arrives at the first at once, and at the third after its lease is over elsewhere.
    assert_eq!(cluster.stores[0].store(&first, token, Some(b"x")).await.unwrap(), Stored::Written);
    for store in &cluster.stores[..2] {
        assert!(matches!(store.release(&first).await.unwrap(), Released::Freed { .. }));
    }
    let second = claim("a");
    granted(&other, &second, TTL).await;
    let gate = node(&other, 0).faults().on(Verb::Cell).hold_requests();
    let by_majority = other.load(&first.key).await.unwrap();
    assert_eq!(by_majority, None, "two of three have nothing");
    let load = async || other.load_under(&second).await.unwrap();
    let (cell, ()) = tokio::join!(load(), async {
        // The node counts the lease as held for every client that asks.
        gate.arrived(2).await;
        assert_eq!(
            cluster.stores[2].store(&first, token, Some(b"x")).await.unwrap(),
            Stored::Written
        );
        gate.open();
    });
    let cell = cell.expect("the first has it, and has granted the claim");
    assert_eq!((&*cell.value, cell.token), (&b"x"[..], token));
    // All clients see this value by now.
    let seen = cluster.join().await.load(&first.key).await.unwrap().unwrap();
    assert!(seen.value == b"x" && seen.settled);
}

#[tokio::test(start_paused = true)]
async fn the_holder_asks_the_nodes_that_granted_its_lease() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    let error = quorum.load_under(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    node(&quorum, 2).faults().cut();
    granted(&quorum, &held, TTL).await;
    assert_eq!(quorum.load_under(&held).await.unwrap(), None);
    // One of the two that have granted it is silent now, and another has voted since.
    node(&quorum, 2).faults().heal();
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Renewed { .. }));
    until(|| cluster.leases() == 3).await;
    node(&quorum, 1).faults().cut();
    assert!(matches!(renewed(&quorum, &held).await, Renewal::Renewed { .. }));
    assert_eq!(quorum.load_under(&held).await.unwrap(), None);
    // A lease that is over, or was given up, says nothing.
    sleep(TTL.duration()).await;
    let error = quorum.load_under(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_brings_tokens_that_a_majority_knows() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    let first = granted(&quorum, &held, TTL).await.tokens;
    let gate = node(&quorum, 1).faults().hold_requests();
    let before = Instant::now();
    let renewal = quorum.renew(&Renew::new(held.clone(), TTL).reserving(8)).await;
    let Renewal::Renewed { tokens: Some(more), .. } = renewal else { panic!("{renewal:?}") };
    assert!(more.first() > first.last() && more.count().get() <= 8);
    assert_eq!(before.elapsed(), Duration::ZERO);
    gate.open();
    quorum.release(&held).await.unwrap();
    // Whichever node is missing, the next is above.
    for missing in [0, 2] {
        until(|| cluster.leases() == 0).await;
        let other = cluster.join().await;
        node(&other, missing).faults().cut();
        let next = claim("a");
        let grant = granted(&other, &next, TTL).await;
        assert!(grant.tokens.first() > more.last());
        other.release(&next).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_tokens_is_one_all_the_same() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    for (_, node) in quorum.nodes() {
        node.faults().on(Verb::Confirm).fail(ErrorKind::Timeout);
    }
    let renewal = quorum.renew(&Renew::new(held, TTL).reserving(8)).await;
    assert!(matches!(renewal, Renewal::Renewed { tokens: None, .. }), "{renewal:?}");
}
