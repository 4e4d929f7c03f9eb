//! Values that are written while a bare majority has the lease.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::Verb;
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Committed, ErrorKind, FencingToken,
    Released, Renew, Renewal, Stored, Ttl,
};
use tokio::time::{Instant, sleep};

use crate::few::{TRIP, TTL, first, of_five};
use crate::support::{Cluster, Quorum, claim, granted, node, until};

/// How long a write waits at least for a node that refuses its vote, and for a node that does not answer.
const REST: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(100);

/// Five nodes, of which three have just granted a lease.
struct Held {
    cluster: Cluster,
    quorum: Quorum,
    claim: Claim,
    token: FencingToken,
    /// The nodes with the lease.
    asked: Vec<usize>,
    /// A node without the lease.
    other: usize,
}

impl Held {
    async fn begin() -> Self {
        let (cluster, quorum) = of_five().await;
        let asked = first(&quorum).await;
        let other = (0..5).find(|node| !asked.contains(node)).unwrap();
        let claim = claim("a");
        let token = granted(&quorum, &claim, TTL).await.tokens.last();
        assert_eq!(cluster.leases(), 3);
        Self { cluster, quorum, claim, token, asked, other }
    }

    /// Writes a value. Returns how long that took.
    async fn write(&self, value: Option<&[u8]>) -> Duration {
        let began = Instant::now();
        let stored = self.quorum.store(&self.claim, self.token, value).await;
        assert_eq!(stored.unwrap(), Stored::Written);
        began.elapsed()
    }

    async fn release(&self) {
        let released = self.quorum.release(&self.claim).await;
        assert!(matches!(released, Ok(Released::Freed { .. })), "{released:?}");
    }

    /// What a node keeps.
    async fn kept_by(&self, node: usize) -> Option<Vec<u8>> {
        self.cluster.stores[node].load(&self.claim.key).await.unwrap().map(|cell| cell.value)
    }

    /// What another client loads, and whether it is settled.
    async fn loaded(&self) -> Option<(Vec<u8>, bool)> {
        let cell = self.cluster.join().await.load(&self.claim.key).await.unwrap();
        cell.map(|cell| (cell.value, cell.settled))
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_outlives_the_loss_of_a_minority() {
    let held = Held::begin().await;
    assert_eq!(held.write(Some(b"value")).await, 2 * TRIP);
    held.release().await;
    for &node in &held.asked[..2] {
        held.cluster.stores[node].forget();
        held.cluster.stores[node].restart();
    }
    assert_eq!(held.loaded().await, Some((b"value".to_vec(), true)));
    until(|| held.cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_does_not_wait_for_a_node_that_is_away() {
    let mut held = Held::begin().await;
    let gate = node(&held.quorum, held.other).faults().hold_requests();
    let mut took = Vec::new();
    for _ in 0..3 {
        took.push(held.write(Some(b"value")).await);
        held.release().await;
        // The quorum learns that the node has not answered for a while.
        sleep(2 * LATE).await;
        held.claim = claim("a");
        held.token = granted(&held.quorum, &held.claim, TTL).await.tokens.last();
    }
    // The second lease was asked of all nodes, to find out whether the node is back. So no node votes before it writes.
    assert_eq!(took, [TRIP + LATE, TRIP, 2 * TRIP]);
    held.release().await;
    gate.open();
    until(|| held.cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn another_node_writes_in_place_of_one_that_has_voted() {
    let held = Held::begin().await;
    let _gate = node(&held.quorum, held.asked[0]).faults().hold_requests();
    held.write(Some(b"value")).await;
    assert_eq!(held.loaded().await, Some((b"value".to_vec(), true)));
}

/// Both writes have one token, so the node cannot tell which of the two is the later.
#[tokio::test(start_paused = true)]
async fn a_vote_that_comes_after_the_write_brings_no_value() {
    let held = Held::begin().await;
    let gate = node(&held.quorum, held.other).faults().hold_requests();
    held.write(Some(b"one")).await;
    held.write(Some(b"two")).await;
    gate.open();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(held.kept_by(held.other).await, None);
    // Now the node is known to have the lease.
    held.write(Some(b"three")).await;
    assert_eq!(held.kept_by(held.other).await, Some(b"three".to_vec()));
    held.release().await;
}

#[tokio::test(start_paused = true)]
async fn an_erased_value_does_not_come_back_with_a_late_vote() {
    let held = Held::begin().await;
    let gate = node(&held.quorum, held.other).faults().hold_requests();
    held.write(Some(b"value")).await;
    let erased = held.write(None);
    tokio::join!(erased, sleep(2 * TRIP).map(|()| gate.open()));
    sleep(Duration::from_secs(1)).await;
    held.release().await;
    assert_ne!(held.kept_by(held.other).await, Some(b"value".to_vec()));
    assert_eq!(held.loaded().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_dropped_leaves_no_vote_behind() {
    for polls in 1..6 {
        let held = Held::begin().await;
        {
            let mut write = pin!(held.quorum.store(&held.claim, held.token, Some(b"value")));
            for _ in 0..polls {
                assert!(write.as_mut().now_or_never().is_none(), "{polls}");
                sleep(TRIP / 4).await;
            }
        }
        held.release().await;
        until(|| held.cluster.leases() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_voted_for_a_contender_gets_no_value() {
    let held = Held::begin().await;
    let contender = Acquire::new(claim("a"), TTL);
    let attempt = held.cluster.stores[held.other].try_acquire(&contender).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    let took = held.write(Some(b"value")).await;
    assert!(took >= TRIP + REST && took <= REST + 3 * TRIP, "{took:?}");
    assert_eq!(held.kept_by(held.other).await, None);
    held.release().await;
    until(|| held.cluster.leases() == 1).await;
}

/// As when the nodes are asked at once, and one of them is slow.
#[tokio::test(start_paused = true)]
async fn a_write_waits_for_a_vote_that_is_under_way() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    node(&quorum, 2).faults().on(Verb::Vote).delay_requests(LATE / 2);
    let claim = claim("a");
    let token = granted(&quorum, &claim, TTL).await.tokens.last();
    let votes = node(&quorum, 2).stats().votes;
    let stored = quorum.store(&claim, token, Some(b"value")).await.unwrap();
    assert_eq!(stored, Stored::Written);
    assert_eq!(cluster.stores[2].load(&claim.key).await.unwrap().unwrap().value, b"value");
    assert_eq!(node(&quorum, 2).stats().votes, votes);
}

/// The answer to its vote was lost, and it is too slow to be asked for another vote. A renewal shows that it has the lease.
#[tokio::test(start_paused = true)]
async fn a_node_whose_vote_has_no_answer_gets_values_after_the_next_renewal() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let slow = node(&quorum, 2).faults();
    let gate = slow.on(Verb::Vote).hold_replies();
    let claim = claim("a");
    let token = granted(&quorum, &claim, TTL).await.tokens.last();
    sleep(Duration::from_secs(2)).await;
    gate.open();
    let store = async |value: &[u8]| {
        let stored = quorum.store(&claim, token, Some(value)).await;
        assert_eq!(stored.unwrap(), Stored::Written);
        sleep(Duration::from_secs(1)).await;
        cluster.stores[2].load(&claim.key).await.unwrap().map(|cell| cell.value)
    };
    slow.delay_replies(2 * LATE);
    assert_eq!(store(b"one").await, None);
    let renewal = quorum.renew(&Renew::new(claim.clone(), TTL)).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(store(b"two").await, Some(b"two".to_vec()));
}

/// Between the end of the lease and the last answers, another client may have held the lock, and may have loaded the earlier
/// value.
#[tokio::test(start_paused = true)]
async fn a_write_that_a_majority_has_only_after_the_lease_is_in_doubt() {
    let ttl = Ttl::new(Duration::from_millis(500)).unwrap();
    for (late, nodes) in [(false, [0, 1]), (true, [1, 2])] {
        let cluster = Cluster::of(3).await;
        let quorum = cluster.join().await;
        let claim = claim("a");
        let token = granted(&quorum, &claim, ttl).await.tokens.last();
        // Each node has the vote when the write begins.
        sleep(Duration::from_millis(100)).await;
        for slow in if late { &nodes[..] } else { &nodes[..1] } {
            node(&quorum, *slow).faults().on(Verb::Cell).delay_replies(ttl.duration());
        }
        match (quorum.store(&claim, token, Some(b"value")).await, late) {
            (Ok(Stored::Written), false) => {}
            (Err(error), true) => {
                assert!(error.is_retryable() && error.to_string().contains("was over"), "{error}");
            }
            (other, _) => panic!("{other:?}"),
        }
        assert_eq!(
            cluster.stores[nodes[0]].load(&claim.key).await.unwrap().unwrap().value,
            b"value"
        );
    }
}

/// All votes of a repeated request fail. The claim keeps its lease, so a write must not say that the claim is not held.
#[tokio::test(start_paused = true)]
async fn a_write_to_nodes_that_could_not_be_asked_is_no_loss_of_the_lease() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let claim = claim("a");
    let token = granted(&quorum, &claim, TTL).await.tokens.last();
    let votes = || quorum.nodes().map(|(_, node)| node.faults().on(Verb::Vote));
    votes().for_each(|votes| votes.fail(ErrorKind::Unreachable));
    quorum.try_acquire(&Acquire::new(claim.clone(), TTL)).await.unwrap_err();
    let error = quorum.store(&claim, token, Some(b"value")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    quorum.nodes().for_each(|(_, node)| node.faults().heal());
    let renewal = quorum.renew(&Renew::new(claim.clone(), TTL)).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    let stored = quorum.store(&claim, token, Some(b"value")).await;
    assert_eq!(stored.unwrap(), Stored::Written);
}

/// The contender has the vote of the node for a moment. A majority has the value earlier.
#[tokio::test(start_paused = true)]
async fn a_node_that_a_contender_leaves_soon_gets_the_value_as_well() {
    let held = Held::begin().await;
    let (store, contender) = (&held.cluster.stores[held.other], Acquire::new(claim("a"), TTL));
    let attempt = store.try_acquire(&contender).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    let moment = async {
        sleep(TRIP).await;
        store.release(&contender.claim).await.unwrap();
    };
    tokio::join!(held.write(Some(b"value")), moment);
    assert_eq!(held.kept_by(held.other).await, Some(b"value".to_vec()));
    held.release().await;
    until(|| held.cluster.leases() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_release_is_refused_may_have_written_the_value() {
    let held = Held::begin().await;
    let releases = |node_number| node(&held.quorum, node_number).faults().on(Verb::Release);
    (0..5).for_each(|node| releases(node).fail(ErrorKind::Denied));
    let commit = || held.quorum.commit(&held.claim, held.token, b"value");
    let error = commit().await.unwrap_err();
    assert!(error.is_retryable(), "nothing was written: {error}");
    assert_eq!(held.loaded().await, Some((b"value".to_vec(), true)));
    assert_eq!(commit().await.unwrap(), Committed::Done { told: 0 });
}

/// One node of the majority has lost its data, and a contender has the votes of both other nodes for a moment.
#[tokio::test(start_paused = true)]
async fn a_write_waits_for_votes_that_a_contender_has_for_a_moment() {
    let held = Held::begin().await;
    held.cluster.stores[held.asked[0]].forget();
    held.cluster.stores[held.asked[0]].restart();
    let contender = Acquire::new(claim("a"), TTL);
    let others = (0..5).filter(|node| !held.asked.contains(node));
    let others: Vec<_> = others.map(|node| &held.cluster.stores[node]).collect();
    for store in &others {
        let attempt = store.try_acquire(&contender).await;
        assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    }
    let moment = async {
        sleep(Duration::from_millis(30)).await;
        for store in &others {
            store.release(&contender.claim).await.unwrap();
        }
    };
    tokio::join!(held.write(Some(b"value")), moment);
    assert_eq!(held.loaded().await, Some((b"value".to_vec(), true)));
    held.release().await;
    until(|| held.cluster.leases() == 0).await;
}

/// Both values have one token. The nodes that grant the next lease have both values, so each of the two may be the value
/// of a majority.
#[tokio::test(start_paused = true)]
async fn the_next_holder_finds_out_which_of_two_values_a_majority_has() {
    for (granting, others) in [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1)] {
        let mut held = Held::begin().await;
        held.write(Some(b"first")).await;
        // As a write does that is dropped on its way.
        let spare = (0..5).filter(|node| !held.asked.contains(node)).take(others);
        for node in held.asked.iter().copied().take(granting).chain(spare) {
            let stored = held.cluster.stores[node].store(&held.claim, held.token, Some(b"second"));
            assert_eq!(stored.await.unwrap(), Stored::Written);
        }
        held.release().await;
        held.claim = claim("a");
        granted(&held.quorum, &held.claim, TTL).await;
        let cell = held.quorum.load_under(&held.claim).await.unwrap().unwrap();
        let expected = if granting + others < 3 { b"first".to_vec() } else { b"second".to_vec() };
        assert_eq!((cell.value, cell.settled), (expected, true), "{granting} and {others}");
        held.release().await;
        until(|| held.cluster.leases() == 0).await;
    }
}
