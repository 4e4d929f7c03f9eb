//! How a node that is far, slow or away catches up.

use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::Verb;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Renew, Renewal, Ttl};
use tokio::time::sleep;

use crate::support::{Cluster, Quorum, claim, granted, node, until};

const TTL: Ttl = Ttl::DEFAULT;

#[tokio::test(start_paused = true)]
async fn missed_releases_are_repeated_together() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held: Vec<_> = (0..200).map(|number| claim(&number.to_string())).collect();
    for claim in &held {
        granted(&quorum, claim, TTL).await;
    }
    node(&quorum, 0).faults().cut();
    for claim in &held {
        quorum.release(claim).await.unwrap();
    }
    assert_eq!(cluster.leases(), held.len());
    node(&quorum, 0).faults().heal();
    node(&quorum, 0).faults().delay_requests(Duration::from_millis(100));
    // One after another they take twenty seconds.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.leases(), 0);
    assert_eq!(quorum.status().await[0].missed_releases, 0);
}

#[tokio::test(start_paused = true)]
async fn a_far_node_collects_no_votes_that_were_given_up() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    node(&quorum, 2).faults().delay_requests(Duration::from_millis(300));
    for _ in 0..2_000 {
        let held = claim("a");
        granted(&quorum, &held, TTL).await;
        quorum.release(&held).await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.leases(), 0);
    assert_eq!(quorum.status().await[2].missed_releases, 0);
}

/// It was away when the lease was renewed.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_votes_for_a_lease_that_is_held() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    cluster.stores[2].client().release(&held).await.unwrap();
    let renewing = Renew::new(held.clone(), TTL);
    node(&quorum, 2).faults().on(Verb::Vote).fail(ErrorKind::Timeout);
    assert!(matches!(quorum.renew(&renewing).await, Renewal::Renewed { .. }));
    sleep(Duration::from_millis(500)).await;
    assert_eq!(cluster.leases(), 2);
    node(&quorum, 2).faults().heal();
    until(|| cluster.leases() == 3).await;
    // A lease that was released meanwhile is not voted for.
    cluster.stores[2].client().release(&held).await.unwrap();
    node(&quorum, 2).faults().on(Verb::Vote).fail(ErrorKind::Timeout);
    assert!(matches!(quorum.renew(&renewing).await, Renewal::Renewed { .. }));
    quorum.release(&held).await.unwrap();
    node(&quorum, 2).faults().heal();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.leases(), 0);
    assert_eq!(quorum.status().await[2].missed_releases, 0);
}

/// A contender has the vote of a node for a moment, while it waits for a node that does not answer.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_voted_for_a_contender_for_a_moment_votes_for_the_lease_soon() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (held, contender) = (claim("a"), claim("a"));
    granted(&quorum, &held, TTL).await;
    let third = cluster.stores[2].client();
    third.release(&held).await.unwrap();
    let taken = third.try_acquire(&Acquire::new(contender.clone(), TTL)).await;
    assert!(matches!(taken, Ok(AcquireOutcome::Granted(_))), "{taken:?}");
    let renewal = quorum.renew(&Renew::new(held, TTL)).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    sleep(Duration::from_millis(30)).await;
    third.release(&contender).await.unwrap();
    assert_eq!(cluster.leases(), 2);
    // No renewal asks the node again.
    sleep(Duration::from_millis(100)).await;
    assert_eq!(cluster.leases(), 3);
}

/// The process holds more leases than the answers that a node may owe.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_votes_for_any_number_of_leases() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held: Vec<_> = (0..300).map(|number| claim(&number.to_string())).collect();
    node(&quorum, 2).faults().cut();
    for claim in &held {
        granted(&quorum, claim, TTL).await;
    }
    assert_eq!(cluster.leases(), 2 * held.len());
    node(&quorum, 2).faults().heal();
    renewed(&quorum, &held).await;
    until(|| cluster.leases() == 3 * held.len()).await;
}

/// The node owes so many answers that the last renewals do not reach it, and it has lost its leases meanwhile.
#[tokio::test(start_paused = true)]
async fn a_node_that_missed_renewals_votes_again_for_the_leases_that_it_lost() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held: Vec<_> = (0..300).map(|number| claim(&number.to_string())).collect();
    for claim in &held {
        granted(&quorum, claim, TTL).await;
    }
    let all = 3 * held.len();
    until(|| cluster.leases() == all).await;
    let gate = node(&quorum, 2).faults().on(Verb::Renew).hold_requests();
    renewed(&quorum, &held).await;
    gate.arrived(256).await;
    assert_eq!(gate.arrived(257).now_or_never(), None);
    for claim in &held {
        cluster.stores[2].client().release(claim).await.unwrap();
    }
    assert!(cluster.leases() < all);
    gate.open();
    sleep(Duration::from_secs(2)).await;
    renewed(&quorum, &held).await;
    until(|| cluster.leases() == all).await;
}

async fn renewed(quorum: &Quorum, held: &[Claim]) {
    for claim in held {
        let renewal = quorum.renew(&Renew::new(claim.clone(), TTL)).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    }
}

/// The votes of the other nodes have ended meanwhile, so the lease may belong to another client.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_does_not_vote_for_a_lease_that_is_over() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    node(&quorum, 2).faults().cut();
    let ttl = Ttl::new(Duration::from_millis(400)).unwrap();
    granted(&quorum, &claim("a"), ttl).await;
    // The quorum asks the node in vain until the lease is over.
    sleep(ttl.duration()).await;
    node(&quorum, 2).faults().heal();
    let before = node(&quorum, 2).stats().votes;
    sleep(Duration::from_secs(3)).await;
    assert_eq!((node(&quorum, 2).stats().votes, cluster.leases()), (before, 0));
}
