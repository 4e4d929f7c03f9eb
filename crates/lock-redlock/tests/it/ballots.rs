//! By which ballots nodes know a claim, and what becomes of ballots that were given up.

use std::time::Duration;

use lock_core::memory::Verb;
use lock_core::{Backend, InspectBackend, Released, Ttl};
use tokio::time::sleep;

use crate::support::{Cluster, claim, granted, node, until};

const TTL: Ttl = Ttl::DEFAULT;

/// Longer than a node has to answer.
const LATE: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_release_that_arrives_late_ends_no_later_vote() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    let gate = node(&quorum, 0).faults().on(Verb::Release).hold_requests();
    quorum.release(&held).await.unwrap();
    gate.arrived(1).await;
    // As if the release had been repeated on another connection.
    cluster.stores[0].force_release(&held.key).await.unwrap();
    granted(&quorum, &held, TTL).await;
    until(|| cluster.leases() == 3).await;
    gate.open();
    sleep(LATE).await;
    assert_eq!(cluster.leases(), 3);
    quorum.release(&held).await.unwrap();
    until(|| cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_ballot_that_was_given_up_is_never_used_again() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    for turn in 0..3 {
        granted(&quorum, &held, TTL).await;
        // Only the first ballots have the token of the claim.
        let released = cluster.stores[0].client().release(&held).await.unwrap();
        assert_eq!(matches!(released, Released::Freed { .. }), turn == 0, "{released:?}");
        quorum.release(&held).await.unwrap();
        until(|| cluster.leases() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_process_is_released_by_its_first_ballots() {
    let cluster = Cluster::of(3).await;
    let (quorum, other) = (cluster.join().await, cluster.join().await);
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    assert!(matches!(other.release(&held).await.unwrap(), Released::Freed { .. }));
    assert_eq!(cluster.leases(), 0);
    quorum.release(&held).await.unwrap();
    granted(&quorum, &held, TTL).await;
    // These ballots are known to one process alone.
    assert!(matches!(other.release(&held).await.unwrap(), Released::NotHeld));
    assert_eq!(cluster.leases(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_nobody_wants_any_more_is_not_asked_for() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    // That node has to say who it is before it is asked, and takes its time.
    node(&quorum, 0).faults().cut();
    let before = claim("b");
    granted(&quorum, &before, TTL).await;
    quorum.release(&before).await.unwrap();
    node(&quorum, 0).faults().heal();
    let votes = node(&quorum, 0).stats().votes;
    let gate = node(&quorum, 0).faults().on(Verb::Standing).hold_requests();
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    quorum.release(&held).await.unwrap();
    gate.open();
    sleep(LATE).await;
    assert_eq!(node(&quorum, 0).stats().votes, votes);
    assert_eq!(cluster.leases(), 0);
}
