//! How few nodes are asked while nothing fails.

use std::time::Duration;

use lock_core::memory::{Gate, Verb};
use lock_core::{Acquire, AcquireOutcome, Backend, InspectBackend, Released, Renew, Renewal, Ttl};
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, Quorum, claim, granted, node, until};
use crate::tokens::ahead_of_clock;

pub(crate) const TTL: Ttl = Ttl::DEFAULT;

/// How long a request is under way.
pub(crate) const TRIP: Duration = Duration::from_millis(4);

/// A quorum that knows how far away the nodes are.
pub(crate) async fn of_five() -> (Cluster, Quorum) {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    for (_, node) in quorum.nodes() {
        node.faults().delay_requests(TRIP);
    }
    pass(&quorum).await;
    sleep(Duration::from_secs(1)).await;
    (cluster, quorum)
}

async fn pass(quorum: &Quorum) {
    let held = claim("a");
    granted(quorum, &held, TTL).await;
    assert!(matches!(quorum.release(&held).await, Ok(Released::Freed { .. })));
}

fn commands(quorum: &Quorum) -> u64 {
    quorum.nodes().map(|(_, node)| node.stats().total()).sum()
}

/// The nodes that are asked first for the key of these tests.
pub(crate) async fn first(quorum: &Quorum) -> Vec<usize> {
    let votes = |index| node(quorum, index).stats().votes;
    let before: Vec<_> = (0..5).map(votes).collect();
    pass(quorum).await;
    (0..5).filter(|&index| votes(index) > before[index]).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pass_without_contention_asks_a_majority_alone() {
    let (cluster, quorum) = of_five().await;
    let before = commands(&quorum);
    let began = Instant::now();
    for _ in 0..10 {
        pass(&quorum).await;
    }
    assert_eq!(began.elapsed(), 20 * TRIP);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(commands(&quorum) - before, 10 * 6);
    assert_eq!(cluster.leases(), 0);
}

/// Each pass ends while the slowest node of the majority still has to answer the release.
#[tokio::test(start_paused = true)]
async fn a_node_that_answers_a_little_later_than_others_is_not_away() {
    let (cluster, quorum) = of_five().await;
    let slowest = first(&quorum).await[0];
    node(&quorum, slowest).faults().delay_requests(TRIP + TRIP / 4);
    let before = commands(&quorum);
    for _ in 0..10 {
        pass(&quorum).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(commands(&quorum) - before, 10 * 6);
    assert_eq!(cluster.leases(), 0);
}

/// It has voted, and another node has a token that it must confirm.
#[tokio::test(start_paused = true)]
async fn a_node_that_falls_silent_after_its_vote_delays_no_request_for_long() {
    let (cluster, quorum) = of_five().await;
    let asked = first(&quorum).await;
    ahead_of_clock(&cluster.stores[asked[0]]).await;
    let silent = node(&quorum, asked[1]).faults().on(Verb::Confirm).hold_requests();
    let began = Instant::now();
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    silent.open();
    quorum.release(&held).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.leases(), 0);
}

/// It has voted, and the other nodes of the majority need it: the rest is gone.
#[tokio::test(start_paused = true)]
async fn a_slow_confirmation_counts_while_other_nodes_are_missing() {
    let (cluster, quorum) = of_five().await;
    let asked = first(&quorum).await;
    for missing in (0..5).filter(|node| !asked.contains(node)) {
        node(&quorum, missing).faults().cut();
    }
    pass(&quorum).await;
    ahead_of_clock(&cluster.stores[asked[0]]).await;
    let slow = node(&quorum, asked[1]).faults().on(Verb::Confirm).hold_requests();
    let held = claim("a");
    let request = Acquire::new(held.clone(), TTL);
    let (outcome, ()) = tokio::join!(quorum.try_acquire(&request), async {
        sleep(20 * TRIP).await;
        slow.open();
    });
    assert!(matches!(outcome, Ok(AcquireOutcome::Granted(_))), "{outcome:?}");
    quorum.release(&held).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_held_for_longer_than_a_moment_gets_the_votes_of_all() {
    let (cluster, quorum) = of_five().await;
    let held = claim("a");
    let grant = granted(&quorum, &held, TTL).await;
    assert_eq!(cluster.leases(), 3);
    sleep(Duration::from_millis(150)).await;
    assert_eq!(cluster.leases(), 5);
    // They end with the others.
    sleep(grant.valid_until.saturating_duration_since(quorum.clock().now())).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.leases(), 0);
}

/// Before the moment is over, the lease stands at three of five nodes. Two of these lose their data.
#[tokio::test(start_paused = true)]
async fn a_minority_that_forgets_in_the_first_moment_ends_no_lease() {
    let (cluster, quorum) = of_five().await;
    let asked = first(&quorum).await;
    let renew = Renew::new(claim("a"), TTL);
    granted(&quorum, &renew.claim, TTL).await;
    for &node in &asked[..2] {
        cluster.stores[node].forget();
        cluster.stores[node].restart();
    }
    // One node renews. The renewal asks the nodes that were not asked before, and their votes count for the next one.
    assert!(matches!(quorum.renew(&renew).await, Renewal::Unknown(_)));
    until(|| cluster.leases() == 3).await;
    assert!(matches!(quorum.renew(&renew).await, Renewal::Renewed { .. }));
    assert!(matches!(quorum.release(&renew.claim).await, Ok(Released::Freed { .. })));
}

/// The votes of the other two nodes are under way when the lease is renewed, and one node has lost its data.
#[tokio::test(start_paused = true)]
async fn a_vote_that_is_under_way_is_no_lost_lease() {
    let (cluster, quorum) = of_five().await;
    let asked = first(&quorum).await;
    let renew = Renew::new(claim("a"), TTL);
    granted(&quorum, &renew.claim, TTL).await;
    let others = (0..5).filter(|node| !asked.contains(node));
    let gates: Vec<_> =
        others.map(|index| node(&quorum, index).faults().on(Verb::Vote).hold_requests()).collect();
    for gate in &gates {
        gate.arrived(1).await;
    }
    cluster.stores[asked[0]].forget();
    cluster.stores[asked[0]].restart();
    let renewal = quorum.renew(&renew).await;
    assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    gates.iter().for_each(Gate::open);
    until(|| cluster.leases() == 4).await;
    assert!(matches!(quorum.renew(&renew).await, Renewal::Renewed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_in_the_first_moment_ends_the_lease() {
    let (cluster, quorum) = of_five().await;
    let late = first(&quorum).await[0];
    let renew = Renew::new(claim("a"), TTL);
    granted(&quorum, &renew.claim, TTL).await;
    assert_eq!(cluster.join().await.force_release(&renew.claim.key).await.unwrap(), 1);
    // The renewal hears from one of the three nodes after the others.
    node(&quorum, late).faults().delay_requests(2 * TRIP);
    assert!(matches!(quorum.renew(&renew).await, Renewal::Lost));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_is_replaced_after_two_round_trips() {
    let (cluster, quorum) = of_five().await;
    let silent = first(&quorum).await[0];
    let gate = node(&quorum, silent).faults().hold_requests();
    let began = Instant::now();
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    assert_eq!(began.elapsed(), 3 * TRIP);
    quorum.release(&held).await.unwrap();
    // From now on it is known.
    let began = Instant::now();
    for _ in 0..10 {
        granted(&quorum, &held, TTL).await;
        quorum.release(&held).await.unwrap();
    }
    assert_eq!(began.elapsed(), 20 * TRIP);
    gate.open();
    until(|| cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn another_node_stands_in_for_one_that_is_away_until_it_is_back() {
    let (cluster, quorum) = of_five().await;
    let before = first(&quorum).await;
    let gate = node(&quorum, before[0]).faults().hold_requests();
    // The first pass finds that the node is away. The second checks whether it is back.
    pass(&quorum).await;
    pass(&quorum).await;
    let commanded = commands(&quorum);
    for _ in 0..10 {
        pass(&quorum).await;
    }
    assert_eq!(commands(&quorum) - commanded, 10 * 6);
    gate.open();
    sleep(Duration::from_secs(2)).await;
    pass(&quorum).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(first(&quorum).await, before);
    assert_eq!(cluster.leases(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_is_replaced_at_once() {
    let (cluster, quorum) = of_five().await;
    let refusing = first(&quorum).await[0];
    let other = claim("a");
    let attempt = cluster.stores[refusing].try_acquire(&Acquire::new(other, TTL)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    let began = Instant::now();
    granted(&quorum, &claim("a"), TTL).await;
    assert_eq!(began.elapsed(), 2 * TRIP);
}

/// The others are free, so it would have to release their votes.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_costs_a_majority_of_refusals() {
    let (_cluster, quorum) = of_five().await;
    let other = claim("a");
    granted(&quorum, &other, TTL).await;
    let before = commands(&quorum);
    let attempt = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Busy { .. })), "{attempt:?}");
    assert_eq!(commands(&quorum) - before, 3);
}

#[tokio::test(start_paused = true)]
async fn the_other_nodes_have_time_to_answer_however_far_away_they_are() {
    let (_cluster, quorum) = of_five().await;
    let silent = first(&quorum).await[0];
    let far = Duration::from_millis(700);
    quorum.nodes().for_each(|(_, node)| node.faults().delay_requests(far));
    for _ in 0..20 {
        pass(&quorum).await;
    }
    sleep(Duration::from_secs(1)).await;
    let _gate = node(&quorum, silent).faults().hold_requests();
    // A node has a second to answer.
    let began = Instant::now();
    granted(&quorum, &claim("a"), TTL).await;
    assert_eq!(began.elapsed(), far + Duration::from_millis(250));
}

/// The nodes are so near that a command costs more than a round trip.
#[tokio::test]
async fn a_lock_that_others_wait_for_costs_one_refusal_while_it_moves_on() {
    let cluster = Cluster::of(5).await;
    let (quorum, other) = (cluster.join().await, cluster.join().await);
    pass(&quorum).await;
    pass(&quorum).await;
    let watched = claim("a");
    let watch = quorum.watch(&watched.key).await.unwrap();
    let refused = async || {
        let before = commands(&quorum);
        let attempt = quorum.try_acquire(&Acquire::new(watched.clone(), TTL)).await;
        assert!(matches!(attempt, Ok(AcquireOutcome::Busy { .. })), "{attempt:?}");
        commands(&quorum) - before
    };
    for _ in 0..3 {
        let holder = claim("a");
        granted(&other, &holder, TTL).await;
        assert_eq!(refused().await, 1);
        // After a while, that claim may have the first node alone.
        sleep(Duration::from_millis(6)).await;
        assert!(refused().await >= 3);
        other.release(&holder).await.unwrap();
        until(|| cluster.leases() == 0).await;
        let before = commands(&quorum);
        granted(&quorum, &watched, TTL).await;
        assert_eq!(commands(&quorum) - before, 3);
        quorum.release(&watched).await.unwrap();
        until(|| cluster.leases() == 0).await;
    }
    drop(watch);
}

/// It was left there by a client that is gone.
#[tokio::test]
async fn a_vote_at_the_node_that_is_asked_first_does_not_keep_a_lock() {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    pass(&quorum).await;
    let first = first(&quorum).await;
    let watched = claim("a");
    let _watch = quorum.watch(&watched.key).await.unwrap();
    for index in first {
        let left = claim("a");
        let attempt = cluster.stores[index].try_acquire(&Acquire::new(left.clone(), TTL)).await;
        assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
        let attempt = quorum.try_acquire(&Acquire::new(watched.clone(), TTL)).await;
        if let Ok(AcquireOutcome::Busy { retry_after }) = attempt {
            let soon = retry_after.unwrap();
            assert!(soon < Duration::from_millis(100), "{soon:?}");
            sleep(soon).await;
            granted(&quorum, &watched, TTL).await;
        }
        quorum.release(&watched).await.unwrap();
        cluster.stores[index].release(&left).await.unwrap();
        until(|| cluster.leases() == 0).await;
    }
}
