//! What becomes of conversions that fail, or that nobody waits for any more.

use std::time::Duration;

use lock_core::memory::Verb;
use lock_core::{Acquire, Attempt, Backend, ErrorKind, Kind, Mode, Renew, Renewal, Ttl};
use lock_core::{Claim, InspectBackend};
use tokio::time::{Instant, sleep, timeout};

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

/// Somebody has a lease on one node alone, or has it for longer.
async fn held_on(cluster: &Cluster, store: usize, claim: &Claim) {
    let held = cluster.stores[store].try_acquire(&Acquire::new(claim.clone(), TTL)).await;
    assert!(matches!(held, Ok(Attempt::Granted(_))), "{held:?}");
}

/// Somebody reads on one node alone.
async fn read_on(cluster: &Cluster, store: usize) -> Claim {
    let reader = claim("a").in_mode(Mode::Shared);
    held_on(cluster, store, &reader).await;
    reader
}

/// Somebody writes on one node alone, where all other leases are lost.
async fn written_on(cluster: &Cluster, store: usize) -> Claim {
    let writer = claim("a");
    cluster.stores[store].force_release(&writer.key).await.unwrap();
    held_on(cluster, store, &writer).await;
    writer
}

async fn kind_on(cluster: &Cluster, store: usize, claim: &Claim) -> Kind {
    cluster.stores[store].inspect(&claim.key).await.unwrap().holders[0].kind
}

/// An upgrade that failed, but was not taken back where it was granted: on the first node. Somebody reads on the
/// second, and writes on the third.
async fn stranded(cluster: &Cluster, quorum: &Quorum) -> (Claim, Acquire, Claim) {
    let (upgradable, upgrade) = upgradable(quorum).await;
    let reader = read_on(cluster, 1).await;
    written_on(cluster, 2).await;
    let votes = node(quorum, 0).faults().on(Verb::Vote);
    let gate = votes.hold_replies();
    let last = node(quorum, 1).faults().on(Verb::Vote).hold_requests();
    let refuse_the_next = async {
        gate.arrived(1).await;
        votes.fail_next(1, ErrorKind::Denied);
        gate.open();
        sleep(Duration::from_millis(1)).await;
        last.open();
    };
    let (attempt, ()) = tokio::join!(quorum.try_acquire(&upgrade), refuse_the_next);
    assert!(!matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    assert_eq!(kind_on(cluster, 0, &upgradable).await, Kind::Exclusive);
    (upgradable, upgrade, reader)
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
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    assert_eq!(kind_on(&cluster, 0, &upgradable).await, Kind::Exclusive);
    gate.open();
    drop(gates);
    // Nobody wants to have it upgraded, so it is what it was.
    let votes = node(&quorum, 0).stats().votes;
    until(|| node(&quorum, 0).stats().votes > votes).await;
    assert_eq!(kind_on(&cluster, 0, &upgradable).await, Kind::Upgradable);
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
async fn a_node_that_lacks_a_lease_takes_the_place_of_one_that_refuses_to_convert_it() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    cluster.stores[0].force_release(&upgradable.key).await.unwrap();
    node(&quorum, 1).faults().on(Verb::Vote).fail(ErrorKind::Denied);
    let attempt = quorum.try_acquire(&upgrade).await.unwrap();
    assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
    let renewal = renewed(&quorum, &upgrade.claim).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    // A majority that lacks it has the last word.
    cluster.stores[2].force_release(&upgradable.key).await.unwrap();
    cluster.stores[0].force_release(&upgradable.key).await.unwrap();
    let back = Acquire::new(upgradable, TTL).converting(Mode::Exclusive);
    let error = quorum.try_acquire(&back).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_node_that_lacks_a_lease_does_not_end_it_when_the_others_fail() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    cluster.stores[0].force_release(&upgradable.key).await.unwrap();
    for index in [1, 2] {
        node(&quorum, index).faults().on(Verb::Vote).fail(ErrorKind::Denied);
    }
    let error = quorum.try_acquire(&upgrade).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // Two do have it, as a renewal finds.
    let renewal = renewed(&quorum, &upgradable).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_just_upgraded_a_lease_keeps_it() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    read_on(&cluster, 1).await;
    node(&quorum, 2).faults().cut();
    let gate = node(&quorum, 0).faults().on(Verb::Vote).hold_replies();
    let upgrading = quorum.try_acquire(&upgrade);
    let meanwhile = async {
        gate.arrived(1).await;
        assert_eq!(kind_on(&cluster, 0, &upgradable).await, Kind::Exclusive);
        let renewal = renewed(&quorum, &upgradable).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        gate.open();
    };
    let (attempt, ()) = tokio::join!(upgrading, meanwhile);
    assert!(!matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    assert_eq!(kind_on(&cluster, 0, &upgradable).await, Kind::Upgradable);
}

/// One node had it from the beginning, another is away, and the third had somebody else then.
async fn of_two_nodes(cluster: &Cluster, quorum: &Quorum) -> (Claim, Acquire) {
    let writer = written_on(cluster, 1).await;
    let (upgradable, upgrade) = upgradable(quorum).await;
    until(|| node(quorum, 1).stats().votes == 1).await;
    cluster.stores[1].release(&writer).await.unwrap();
    node(quorum, 2).faults().cut();
    (upgradable, upgrade)
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_the_place_of_one_that_is_away() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, _) = of_two_nodes(&cluster, &quorum).await;
    let renewal = renewed(&quorum, &upgradable).await;
    assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    until(|| cluster.stores[1].live_leases() == 1).await;
    let renewal = renewed(&quorum, &upgradable).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_the_place_of_one_that_is_away_during_an_upgrade() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = of_two_nodes(&cluster, &quorum).await;
    let gate = node(&quorum, 0).faults().on(Verb::Vote).hold_replies();
    let upgrading = quorum.try_acquire(&upgrade);
    let meanwhile = async {
        gate.arrived(1).await;
        until(|| cluster.stores[1].live_leases() == 1).await;
        let renewal = renewed(&quorum, &upgradable).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        gate.open();
    };
    let (attempt, ()) = tokio::join!(upgrading, meanwhile);
    assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
}

/// One node has it upgraded nearly all the time, another never, and the third has lost it.
#[tokio::test(start_paused = true)]
async fn a_lease_outlives_an_upgrade_that_waits_for_longer() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    let (reader, writer) = (read_on(&cluster, 1).await, written_on(&cluster, 2).await);
    node(&quorum, 2).faults().on(Verb::Vote).delay_replies(Duration::from_millis(900));
    let end = Instant::now() + 3 * TTL.duration();
    let upgrading = async {
        while Instant::now() < end {
            held_on(&cluster, 1, &reader).await;
            held_on(&cluster, 2, &writer).await;
            let attempt = quorum.try_acquire(&upgrade).await;
            assert!(!matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
            sleep(Duration::from_millis(1)).await;
        }
    };
    let renewing = async {
        while Instant::now() < end {
            sleep(TTL.duration() / 3).await;
            let renewal = renewed(&quorum, &upgradable).await;
            assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        }
    };
    tokio::join!(upgrading, renewing);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_did_not_take_back_an_upgrade_keeps_the_lease_and_is_told() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, ..) = stranded(&cluster, &quorum).await;
    let renewal = renewed(&quorum, &upgradable).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    let votes = node(&quorum, 0).stats().votes;
    until(|| node(&quorum, 0).stats().votes == votes + 2).await;
    assert_eq!(kind_on(&cluster, 0, &upgradable).await, Kind::Upgradable);
}

#[tokio::test(start_paused = true)]
async fn what_is_about_to_be_released_does_not_keep_a_lease() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade, _) = stranded(&cluster, &quorum).await;
    node(&quorum, 0).faults().on(Verb::Release).fail(ErrorKind::Timeout);
    quorum.release(&upgrade.claim).await.unwrap();
    let renewal = renewed(&quorum, &upgradable).await;
    assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_under_way_is_not_taken_back_by_a_renewal() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade, reader) = stranded(&cluster, &quorum).await;
    let gate = node(&quorum, 1).faults().on(Verb::Vote).hold_requests();
    let told = node(&quorum, 0).faults().on(Verb::Vote).hold_replies();
    let renewal = renewed(&quorum, &upgradable).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    told.arrived(1).await;
    cluster.stores[1].release(&reader).await.unwrap();
    let upgrading = quorum.try_acquire(&upgrade);
    let meanwhile = async {
        told.arrived(2).await;
        told.open();
        sleep(Duration::from_millis(1)).await;
        gate.open();
    };
    let (attempt, ()) = tokio::join!(upgrading, meanwhile);
    assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    assert_eq!(kind_on(&cluster, 0, &upgradable).await, Kind::Exclusive);
}

/// What was asked about the mode that it had before ended it.
#[tokio::test(start_paused = true)]
async fn what_was_upgraded_outlives_the_mode_that_it_had() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (upgradable, upgrade) = upgradable(&quorum).await;
    assert!(matches!(quorum.try_acquire(&upgrade).await, Ok(Attempt::Granted(_))));
    assert!(matches!(renewed(&quorum, &upgradable).await, Renewal::Lost));
    until(|| node(&quorum, 2).stats().releases == 1).await;
    assert_eq!(cluster.leases(), 3);
    assert!(matches!(renewed(&quorum, &upgrade.claim).await, Renewal::Renewed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_the_place_of_one_that_is_away_in_the_new_mode() {
    for (from, to) in [
        (Mode::Exclusive, Mode::Shared),
        (Mode::Exclusive, Mode::Upgradable),
        (Mode::Upgradable, Mode::Exclusive),
    ] {
        let cluster = Cluster::of(3).await;
        let quorum = cluster.join().await;
        let held = claim("a").in_mode(from);
        let (away, absent) = (node(&quorum, 0).faults(), node(&quorum, 2).faults());
        absent.cut();
        let before = granted(&quorum, &held, TTL).await;
        absent.heal();
        let gate = away.hold_requests();
        let request = Acquire::new(held.clone().in_mode(to), TTL).converting(from);
        let Ok(Attempt::Granted(grant)) = quorum.try_acquire(&request).await else {
            panic!("{from:?} did not become {to:?}");
        };
        assert!(to != Mode::Exclusive || grant.tokens.first() > before.tokens.last());
        // It is there on two nodes, and on all when the other answers.
        let rival = claim("a");
        let refused = cluster.join().await.try_acquire(&Acquire::new(rival, TTL)).await;
        assert!(matches!(refused, Ok(Attempt::Busy { .. })), "{refused:?}");
        gate.open();
        sleep(Duration::from_secs(5)).await;
        assert!(matches!(renewed(&quorum, &request.claim).await, Renewal::Renewed { .. }));
        quorum.release(&request.claim).await.unwrap();
        until(|| cluster.leases() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_too_many_nodes_have_lost_is_not_made_anew_in_another_mode() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (held, upgrade) = upgradable(&quorum).await;
    let away = node(&quorum, 0).faults().hold_requests();
    for store in [1, 2] {
        cluster.stores[store].force_release(&held.key).await.unwrap();
    }
    let error = quorum.try_acquire(&upgrade).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    away.open();
    let _lost = quorum.release(&held).await.unwrap();
    until(|| cluster.leases() == 0).await;
}
