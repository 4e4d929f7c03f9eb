//! What becomes of votes that are late, lost, split or not enough.

use std::sync::Arc;
use std::time::Duration;

use lock_core::memory::Verb;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Key, Mode, OwnerToken, Released, Ttl,
};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, Quorum, claim, granted, node, until};

const TTL: Ttl = Ttl::DEFAULT;

/// Longer than a node has to answer.
const LATE: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_dead_minority_costs_no_time() {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    let gates = [1, 3].map(|index| node(&quorum, index).faults().hold_requests());
    let before = Instant::now();
    for _ in 0..10 {
        let claim = claim("a");
        granted(&quorum, &claim, TTL).await;
        let released = quorum.release(&claim).await.unwrap();
        assert!(matches!(released, Released::Freed { .. }));
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    drop(gates);
}

#[tokio::test(start_paused = true)]
async fn a_late_vote_stays_while_the_lease_is_held() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let gate = node(&quorum, 2).faults().on(Verb::Vote).hold_requests();
    let claim = claim("a");
    granted(&quorum, &claim, TTL).await;
    assert_eq!(cluster.stores[2].live_leases(), 0);
    gate.open();
    until(|| cluster.stores[2].live_leases() == 1).await;
    // No client takes it back.
    sleep(LATE).await;
    assert_eq!(cluster.stores[2].live_leases(), 1);
    quorum.release(&claim).await.unwrap();
    until(|| cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_comes_after_the_release_is_undone() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let gate = node(&quorum, 0).faults().on(Verb::Vote).hold_requests();
    let claim = claim("a");
    granted(&quorum, &claim, TTL).await;
    gate.arrived(1).await;
    quorum.release(&claim).await.unwrap();
    gate.open();
    until(|| node(&quorum, 0).stats().releases >= 2).await;
    until(|| cluster.leases() == 0).await;
}

/// No request waits for the vote any more when the node gets it, and the release has overtaken it.
#[tokio::test(start_paused = true)]
async fn a_vote_that_was_given_up_does_not_stay_for_its_lease() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let _gate = node(&quorum, 2).faults().on(Verb::Vote).hold_requests();
    let claim = claim("a");
    granted(&quorum, &claim, TTL).await;
    quorum.release(&claim).await.unwrap();
    // The node does not know the ballot that it releases.
    until(|| node(&quorum, 2).stats().releases > 0).await;
    sleep(LATE).await;
    let late = Acquire::new(claim, TTL);
    let vote = cluster.stores[2].try_acquire(&late).await;
    assert!(matches!(vote, Ok(AcquireOutcome::Granted(_))), "{vote:?}");
    until(|| cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_leaves_nothing_behind() {
    let cluster = Cluster::of(5).await;
    let (holder, loser) = (cluster.join().await, cluster.join().await);
    // The holder has three of five, and the loser cannot have more than the other two.
    for index in [3, 4] {
        node(&holder, index).faults().cut();
    }
    let held = claim("a");
    granted(&holder, &held, TTL).await;
    // One of the two answers late: its vote is given before the answer, and undone after it.
    node(&loser, 4).faults().on(Verb::Vote).delay_replies(Duration::from_millis(500));
    let attempt = loser.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Busy { .. }), "{attempt:?}");
    assert_eq!(cluster.stores[3].live_leases(), 0);
    until(|| cluster.stores[4].live_leases() == 0).await;
    assert_eq!(cluster.leases(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_is_impossible_is_refused_early() {
    let cluster = Cluster::of(5).await;
    let (holder, other) = (cluster.join().await, cluster.join().await);
    granted(&holder, &claim("a"), TTL).await;
    let _gates = [0, 1].map(|index| node(&other, index).faults().hold_requests());
    let before = Instant::now();
    let attempt = other.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Busy { retry_after: Some(_) }), "{attempt:?}");
    for index in [2, 3, 4] {
        node(&other, index).faults().cut();
    }
    let error = other.try_acquire(&Acquire::new(claim("b"), TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_on_arrival_is_refused() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let ttl = Ttl::new(Duration::from_millis(100)).unwrap();
    for (_, node) in quorum.nodes() {
        node.faults().on(Verb::Vote).delay_replies(Duration::from_millis(15));
    }
    // Slow, but in time.
    granted(&quorum, &claim("a"), ttl).await;
    let ttl = Ttl::new(Duration::from_millis(15)).unwrap();
    let error = quorum.try_acquire(&Acquire::new(claim("b"), ttl)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(error.to_string(), "a lease of 15ms was over before a quorum had granted it");
    for (_, node) in quorum.nodes() {
        node.faults().heal();
    }
    granted(&cluster.join().await, &claim("b"), TTL).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_names_every_node_and_what_it_said() {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    node(&quorum, 1).faults().cut();
    node(&quorum, 2).faults().fail(ErrorKind::OutOfMemory);
    let _gate = node(&quorum, 4).faults().hold_requests();
    cluster.stores[0].forget();
    let error = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 of 5 nodes voted, 3 are needed: \
         1: quarantined for another 61s at least, for it may have forgotten leases; \
         2: the connection to the store is cut; \
         3: the store was told to fail this request; \
         5: no answer yet"
    );
    assert!(error.is_retryable());
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_for_good_is_said_so() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    node(&quorum, 0).faults().fail(ErrorKind::Denied);
    granted(&quorum, &claim("a"), TTL).await;
    node(&quorum, 1).faults().fail(ErrorKind::Denied);
    let error = quorum.try_acquire(&Acquire::new(claim("b"), TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test(start_paused = true)]
async fn too_long_a_lease_is_refused_before_anything_is_sent() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let before: Vec<_> = quorum.nodes().map(|(_, node)| node.stats()).collect();
    let error = quorum.try_acquire(&Acquire::new(claim("a"), Ttl::MAX)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("86400s") && error.to_string().contains("60s"), "{error}");
    let after: Vec<_> = quorum.nodes().map(|(_, node)| node.stats()).collect();
    assert_eq!(before, after);
}

/// A store on which this claim has a vote before the others ask.
async fn vote_for(cluster: &Cluster, claim: &Claim, stores: &[usize]) {
    for &index in stores {
        let attempt = cluster.stores[index].try_acquire(&Acquire::new(claim.clone(), TTL)).await;
        assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    }
}

fn tagged(first: u8) -> Claim {
    let mut bytes = [7; 16];
    bytes[0] = first;
    Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes(bytes))
}

#[tokio::test(start_paused = true)]
async fn the_favourite_of_a_split_vote_is_granted_when_the_others_give_way() {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    let (favourite, other, third) = (tagged(1), tagged(2), tagged(3));
    vote_for(&cluster, &other, &[0, 1]).await;
    vote_for(&cluster, &third, &[2]).await;
    let stores = cluster.stores.clone();
    // The other sees that it is not the favourite as soon as all votes are given.
    let gives_way = async move {
        until(|| stores.iter().all(|store| store.live_leases() == 1)).await;
        for store in &stores[..2] {
            store.release(&other).await.unwrap();
        }
    };
    let (grant, ()) = tokio::join!(granted(&quorum, &favourite, TTL), gives_way);
    assert!(grant.valid_until > quorum.clock().now());
    // It never let go of what it had.
    assert_eq!(cluster.stores.iter().map(|store| store.stats().votes).sum::<u64>(), 0);
    assert_eq!(node(&quorum, 4).stats().releases, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_not_the_favourite_gives_way() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (favourite, other) = (tagged(1), tagged(2));
    vote_for(&cluster, &favourite, &[0]).await;
    node(&quorum, 1).faults().cut();
    let attempt = quorum.try_acquire(&Acquire::new(other, TTL)).await.unwrap();
    // It does not move, so it is a holder whose other node does not answer.
    let AcquireOutcome::Busy { retry_after: Some(retry_after) } = attempt else {
        panic!("{attempt:?}")
    };
    assert!(retry_after > TTL.duration() - LATE, "{retry_after:?}");
    assert_eq!(node(&quorum, 2).stats().votes, 3);
    assert_eq!(cluster.stores[2].live_leases(), 0);
}

/// The vote of the last node is cast, and its answer is lost. The claim asks this node again, and gives up before the
/// node has answered.
#[tokio::test(start_paused = true)]
async fn a_vote_is_given_back_although_its_node_was_asked_again() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (favourite, other) = (tagged(1), tagged(2));
    vote_for(&cluster, &other, &[1]).await;
    node(&quorum, 2).faults().on(Verb::Vote).lose_replies(1);
    // The standing is known until the answer is lost.
    let _gate = node(&quorum, 2).faults().on(Verb::Standing).hold_requests();
    let attempt = quorum.try_acquire(&Acquire::new(favourite, TTL)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Busy { .. })), "{attempt:?}");
    until(|| cluster.leases() == 1).await;
    assert_eq!(cluster.stores[1].live_leases(), 1);
}

/// The votes are split, and take a while.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_for_a_short_lease_waits_for_the_first() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    vote_for(&cluster, &tagged(2), &[1]).await;
    vote_for(&cluster, &tagged(3), &[2]).await;
    for (_, node) in quorum.nodes() {
        node.faults().delay_requests(Duration::from_millis(15));
    }
    let request = Acquire::new(tagged(9), Ttl::new(Duration::from_millis(100)).unwrap());
    let (first, repeated) =
        tokio::join!(quorum.try_acquire(&request), quorum.try_acquire(&request));
    assert!(matches!(first, Ok(AcquireOutcome::Busy { .. })), "{first:?}");
    assert_eq!(format!("{first:?}"), format!("{repeated:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contenders_settle_within_a_few_rounds() {
    const CONTENDERS: usize = 5;
    const GAMES: usize = 20;
    for stores in [3, 5] {
        let cluster = Cluster::of(stores).await;
        let mut votes = 0;
        for game in 0..GAMES {
            let start = Arc::new(Barrier::new(CONTENDERS));
            let mut tasks = JoinSet::new();
            for _ in 0..CONTENDERS {
                // A busy machine must not make a node late.
                let builder = cluster.builder().node_timeout(Duration::from_secs(10));
                let quorum = builder.build().await.unwrap();
                for (index, (_, node)) in quorum.nodes().enumerate() {
                    // Each is nearest to another node, which makes for split votes.
                    let steps = (index + tasks.len()) % stores;
                    node.faults().delay_requests(Duration::from_micros(300) * steps as u32);
                }
                let (start, claim) = (Arc::clone(&start), claim(&game.to_string()));
                tasks.spawn(async move {
                    start.wait().await;
                    let attempt = quorum.try_acquire(&Acquire::new(claim, TTL)).await.unwrap();
                    let votes: u64 = quorum.nodes().map(|(_, node)| node.stats().votes).sum();
                    (matches!(attempt, AcquireOutcome::Granted(_)), votes)
                });
            }
            let contenders = tasks.join_all().await;
            assert_eq!(contenders.iter().filter(|(granted, _)| *granted).count(), 1);
            votes += contenders.iter().map(|(_, votes)| *votes as usize).sum::<usize>();
        }
        let rounds = votes as f64 / (GAMES * CONTENDERS * stores) as f64;
        assert!(rounds < 4.0, "{rounds} rounds each, with {stores} stores");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_reaches_a_node_that_comes_back() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    node(&quorum, 0).faults().cut();
    quorum.release(&held).await.unwrap();
    assert_eq!(cluster.leases(), 1);
    sleep(Duration::from_secs(3)).await;
    let status = &quorum.status().await[0];
    assert_eq!(status.missed_releases, 1, "{status:?}");
    node(&quorum, 0).faults().heal();
    until(|| cluster.leases() == 0).await;
    assert!(quorum.status().await[0].missed_releases == 0);
}

#[tokio::test(start_paused = true)]
async fn one_node_that_has_heard_of_a_release_before_does_not_make_it_a_loss() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let (absent, slow) = (node(&quorum, 2).faults(), node(&quorum, 1).faults());
    absent.cut();
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    absent.heal();
    // As if the network had delivered the request twice.
    let twice = cluster.stores[0].client().release(&held).await.unwrap();
    assert!(matches!(twice, Released::Freed { .. }));
    slow.on(Verb::Release).delay_replies(Duration::from_millis(50));
    let released = quorum.release(&held).await.unwrap();
    assert!(matches!(released, Released::Freed { .. }), "{released:?}");
    // A lease that no client has is gone.
    assert!(matches!(quorum.release(&held).await.unwrap(), Released::NotHeld));
}

/// As when a task goes away with its runtime, and its request is repeated elsewhere.
#[tokio::test(start_paused = true)]
async fn a_request_that_fails_takes_no_votes_from_another_for_the_same_claim() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    node(&quorum, 2).faults().cut();
    let slow = node(&quorum, 1).faults().on(Verb::Vote);
    slow.delay_replies(LATE);
    let held = claim("a");
    let request = Acquire::new(held.clone(), TTL);
    let repetition = async {
        // The node answers within the time of this request, but after the time of the first.
        sleep(Duration::from_millis(500)).await;
        slow.delay_replies(Duration::from_millis(600));
        quorum.try_acquire(&request).await
    };
    let (first, second) = tokio::join!(quorum.try_acquire(&request), repetition);
    assert!(first.is_err(), "{first:?}");
    assert!(matches!(second, Ok(AcquireOutcome::Granted(_))), "{second:?}");
    sleep(LATE).await;
    assert_eq!(cluster.leases(), 2);
    quorum.release(&held).await.unwrap();
    until(|| cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answered_one_release_badly_is_waited_for() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let held = claim("a");
    granted(&quorum, &held, TTL).await;
    let _silent = node(&quorum, 0).faults().hold_requests();
    let late = node(&quorum, 1).faults().on(Verb::Release);
    late.delay_replies(Duration::from_millis(100));
    late.lose_replies(1);
    let again = async {
        // It has been asked to release once more, and has not answered yet.
        sleep(Duration::from_millis(150)).await;
        granted(&quorum, &held, TTL).await
    };
    let (_, grant) = tokio::join!(quorum.release(&held), again);
    assert!(grant.valid_until > lock_core::Clock::tokio().now());
}

fn _assert_futures_are_send(quorum: &Quorum, request: &Acquire) {
    fn is_send<T: Send>(_: T) {}
    is_send(quorum.try_acquire(request));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_node_is_not_asked_without_end() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let gate = node(&quorum, 1).faults().hold_requests();
    for _ in 0..1000 {
        let claim = claim("a");
        granted(&quorum, &claim, TTL).await;
        quorum.release(&claim).await.unwrap();
    }
    let asked = || node(&quorum, 1).stats().votes;
    assert!((100..300).contains(&asked()), "{}", asked());
    // It is asked again when those have timed out, and when it answers all is well.
    gate.open();
    sleep(LATE).await;
    assert_eq!(cluster.leases(), 0);
    let before = asked();
    granted(&quorum, &claim("a"), TTL).await;
    assert_eq!(asked(), before + 1);
    assert_eq!(cluster.leases(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_holds_up_no_claim_that_is_asked_for_again() {
    let cluster = Cluster::of(3).await;
    let (holder, waiter) = (cluster.join().await, cluster.join().await);
    granted(&holder, &claim("a"), TTL).await;
    node(&waiter, 1).faults().cut();
    // Others have missed their releases there before.
    for _ in 0..3 {
        let other = claim("b");
        granted(&waiter, &other, TTL).await;
        waiter.release(&other).await.unwrap();
        sleep(LATE).await;
    }
    let request = Acquire::new(claim("a"), TTL);
    node(&waiter, 0).faults().cut();
    for _ in 0..5 {
        let before = Instant::now();
        let error = waiter.try_acquire(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_majorities_cannot_do_is_refused_without_a_request() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let group = OwnerToken::generate().unwrap();
    for mode in [Mode::Joint { group }, Mode::Permits { take: 1, of: 2 }] {
        let request = Acquire::new(claim("a").in_mode(mode), TTL);
        let error = quorum.try_acquire(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    assert!((0..3).all(|index| node(&quorum, index).stats().votes == 0));
    assert!(quorum.capabilities().converter().is_none());
}
