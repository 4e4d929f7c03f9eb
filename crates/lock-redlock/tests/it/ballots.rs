//! By which ballots nodes know a claim, and what becomes of ballots that were given up.

use std::time::Duration;

use lock_core::memory::Verb;
use lock_core::{Backend, Claim, InspectBackend, Released, Renew, Renewal, Ttl};
use tokio::time::sleep;

use crate::support::{Cluster, Quorum, claim, granted, node, until};

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
async fn a_vote_that_is_no_longer_wanted_is_not_asked_for() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    // That node has to say which server it is before it is asked, and it is slow.
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

/// The engine renews a lease in a task of its own, which may run only after the lease was released.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_comes_after_the_release_does_not_overtake_it() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    for renews_first in [false, true] {
        let held = claim("a");
        granted(&quorum, &held, TTL).await;
        set_delays(&quorum, Verb::Renew, if renews_first { LATE / 10 } else { Duration::ZERO });
        let early = renews_first.then(|| tokio::spawn(renewal(&quorum, &held)));
        tokio::task::yield_now().await;
        set_delays(&quorum, Verb::Release, LATE / 6);
        let (releasing, releasing_claim) = (quorum.clone(), held.clone());
        let released = tokio::spawn(async move { releasing.release(&releasing_claim).await });
        tokio::task::yield_now().await;
        // Whatever is sent from now on overtakes the release.
        set_delays(&quorum, Verb::Release, Duration::ZERO);
        let renewed = match early {
            Some(early) => early.await.unwrap(),
            None => renewal(&quorum, &held).await,
        };
        assert!(matches!(renewed, Renewal::Lost), "{renewed:?}");
        let released = released.await.unwrap();
        assert!(matches!(released, Ok(Released::Freed { .. })), "{released:?}");
        until(|| cluster.leases() == 0).await;
    }
    let releases: u64 = quorum.nodes().map(|(_, node)| node.stats().releases).sum();
    assert_eq!(releases, 6);
}

/// Each node ends the lease for the release that reaches it first.
#[tokio::test(start_paused = true)]
async fn of_two_releases_at_one_moment_one_ends_the_lease() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    for overtakes in [false, true] {
        let held = claim("a");
        granted(&quorum, &held, TTL).await;
        set_delays(&quorum, Verb::Release, if overtakes { LATE / 6 } else { Duration::ZERO });
        let (releasing, releasing_claim) = (quorum.clone(), held.clone());
        let first = tokio::spawn(async move { releasing.release(&releasing_claim).await });
        tokio::task::yield_now().await;
        set_delays(&quorum, Verb::Release, if overtakes { Duration::ZERO } else { LATE / 6 });
        let second = quorum.release(&held).await.unwrap();
        let first = first.await.unwrap().unwrap();
        let (ended, other) = if overtakes { (second, first) } else { (first, second) };
        assert!(matches!((ended, other), (Released::Freed { .. }, Released::NotHeld)));
        until(|| cluster.leases() == 0).await;
    }
}

fn renewal(quorum: &Quorum, held: &Claim) -> impl Future<Output = Renewal> + Send + use<> {
    let (quorum, held) = (quorum.clone(), held.clone());
    async move { quorum.renew(&Renew::new(held, TTL)).await }
}

fn set_delays(quorum: &Quorum, verb: Verb, delay: Duration) {
    quorum.nodes().for_each(|(_, node)| node.faults().on(verb).delay_requests(delay));
}

/// The caller would take an error for an outage.
#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_the_nodes_to_release_its_earlier_ballots() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    // One node hears of the release at once.
    for index in [1, 2] {
        node(&quorum, index).faults().on(Verb::Release).delay_requests(Duration::from_millis(1));
    }
    let released = tokio::spawn({
        let (quorum, held) = (quorum.clone(), held.clone());
        async move { quorum.release(&held).await }
    });
    tokio::task::yield_now().await;
    granted(&quorum, &held, TTL).await;
    assert!(matches!(released.await.unwrap(), Ok(Released::Freed { .. })));
}
