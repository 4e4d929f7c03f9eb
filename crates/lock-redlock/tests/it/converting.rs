//! What becomes of conversions that fail, or that nobody waits for any more.

use std::time::Duration;

use lock_core::memory::Verb;
use lock_core::{Acquire, Attempt, Backend, ErrorKind, Kind, Mode, Renew, Renewal, Ttl};
use lock_core::{Claim, InspectBackend};
use tokio::time::{sleep, timeout};

use crate::support::{Cluster, Quorum, claim, granted, node, until};

const TTL: Ttl = Ttl::DEFAULT;

async fn renewed(quorum: &Quorum, claim: &Claim) -> Renewal {
    quorum.renew(&Renew::new(claim.clone(), TTL)).await
}

/// An upgradable lease, and the request to upgrade it.
async fn upgradable(quorum: &Quorum) -> (Claim, Acquire) {
    let upgradable = claim("a").in_mode(Mode::Upgradable);
    granted(quorum, &upgradable, TTL).await;
    let upgrade = Acquire::new(upgradable.clone().in_mode(Mode::Exclusive), TTL);
    (upgradable, upgrade.converting(Mode::Upgradable))
}

/// Somebody reads on one node alone.
async fn read_on(cluster: &Cluster, store: usize) {
    let reader = Acquire::new(claim("a").in_mode(Mode::Shared), TTL);
    let read = cluster.stores[store].try_acquire(&reader).await;
    assert!(matches!(read, Ok(Attempt::Granted(_))), "{read:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_was_dropped_goes_on_until_the_nodes_have_answered() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    // One node has it no more, another upgrades it, and nobody hears of either in time.
    cluster.stores[1].force_release(&upgradable.key).await.unwrap();
    let gate = node(&quorum, 0).faults().on(Verb::Vote).hold_replies();
    let gates = [1, 2].map(|index| node(&quorum, index).faults().on(Verb::Vote).hold_requests());
    let dropped = timeout(Duration::from_millis(1), quorum.try_acquire(&upgrade)).await;
    assert!(dropped.is_err());
    read_on(&cluster, 2).await;
    let renewal = renewed(&quorum, &upgradable).await;
    let Renewal::Unknown(error) = renewal else { panic!("{renewal:?}") };
    assert!(error.is_retryable(), "{error}");
    gate.open();
    drop(gates);
    // Nobody wants to have it upgraded, so it is what it was.
    let kept = async {
        while !matches!(renewed(&quorum, &upgradable).await, Renewal::Renewed { .. }) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(1), kept).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_was_dropped_is_taken_back_where_it_was_granted() {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    // Two nodes have answered when it is dropped, and the others do not.
    let gates = [2, 3, 4].map(|index| node(&quorum, index).faults().hold_requests());
    let dropped = timeout(Duration::from_millis(1), quorum.try_acquire(&upgrade)).await;
    assert!(dropped.is_err());
    until(|| (0..2).all(|index| node(&quorum, index).stats().votes == 3)).await;
    for store in &cluster.stores[..2] {
        let holders = store.inspect(&upgradable.key).await.unwrap().holders;
        assert_eq!(holders[0].kind, Kind::Upgradable);
    }
    drop(gates);
    assert!(matches!(renewed(&quorum, &upgradable).await, Renewal::Renewed { .. }));
}

/// The way back came after the release of the former mode, and before that of the other.
#[tokio::test(start_paused = true)]
async fn what_was_released_is_not_brought_back_by_an_upgrade_that_failed() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    read_on(&cluster, 1).await;
    read_on(&cluster, 2).await;
    let gate = node(&quorum, 0).faults().on(Verb::Vote).hold_replies();
    let upgrading = quorum.try_acquire(&upgrade);
    let meanwhile = async {
        gate.arrived(1).await;
        gate.open();
        let back = node(&quorum, 0).faults().on(Verb::Vote).hold_requests();
        back.arrived(1).await;
        back
    };
    let (attempt, back) = tokio::join!(upgrading, meanwhile);
    assert!(matches!(attempt, Ok(Attempt::Busy { .. })), "{attempt:?}");
    quorum.release(&upgradable).await.unwrap();
    // What is still to be released is released later.
    node(&quorum, 0).faults().on(Verb::Release).fail_next(1, ErrorKind::Timeout);
    back.open();
    // The readers stay.
    until(|| cluster.stores[0].live_leases() == 0 && cluster.leases() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_goes_from_nodes_that_missed_a_conversion_too() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let written = claim("a");
    granted(&quorum, &written, TTL).await;
    node(&quorum, 0).faults().cut();
    let read = written.clone().in_mode(Mode::Shared);
    let downgrade = Acquire::new(read.clone(), TTL).converting(Mode::Exclusive);
    assert!(matches!(quorum.try_acquire(&downgrade).await, Ok(Attempt::Granted(_))));
    node(&quorum, 0).faults().heal();
    for store in &cluster.stores[1..] {
        store.force_release(&read.key).await.unwrap();
    }
    assert!(matches!(renewed(&quorum, &read).await, Renewal::Lost));
    until(|| cluster.leases() == 0).await;
}

/// A node that has missed all of them has the first.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_converted_twice_leaves_nothing_behind() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    node(&quorum, 0).faults().on(Verb::Vote).fail_next(2, ErrorKind::Timeout);
    assert!(matches!(quorum.try_acquire(&upgrade).await, Ok(Attempt::Granted(_))));
    let read = upgradable.clone().in_mode(Mode::Shared);
    let downgrade = Acquire::new(read.clone(), TTL).converting(Mode::Exclusive);
    assert!(matches!(quorum.try_acquire(&downgrade).await, Ok(Attempt::Granted(_))));
    quorum.release(&read).await.unwrap();
    until(|| cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lacks_a_lease_and_one_that_refuses_to_convert_it_do_not_end_it() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    cluster.stores[0].force_release(&upgradable.key).await.unwrap();
    node(&quorum, 1).faults().on(Verb::Vote).fail(ErrorKind::Denied);
    let error = quorum.try_acquire(&upgrade).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // Two do have it, as a renewal finds.
    let renewal = renewed(&quorum, &upgradable).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    // A majority that lacks it has the last word.
    cluster.stores[2].force_release(&upgradable.key).await.unwrap();
    cluster.stores[0].force_release(&upgradable.key).await.unwrap();
    let error = quorum.try_acquire(&upgrade).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
}
