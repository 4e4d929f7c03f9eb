//! A quorum works whichever thread polls, and whichever task or runtime ends meanwhile.

use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use futures::future::join_all;
use lock_core::memory::{Gate, MemoryBackend, Verb};
use lock_core::{Acquire, AcquireOutcome, Backend, ErrorKind, Renew, Renewal, Ttl};
use lock_redlock::Redlock;
use tokio::runtime::Builder;

use crate::support::{Cluster, Quorum, claim, granted, node, of_three};

const TTL: Ttl = Ttl::DEFAULT;

#[test]
fn no_runtime_is_needed_to_ask() {
    block_on(async {
        let (nodes, quorum) = of_three().await;
        let held = claim("a");
        granted(&quorum, &held, TTL).await;
        quorum.release(&held).await.unwrap();
        let _gates = [0, 1].map(|index| node(&quorum, index).faults().hold_requests());
        let error = quorum.try_acquire(&Acquire::new(held, TTL)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(
            error.to_string(),
            "1 of 3 nodes voted, 2 are needed: 1: no answer within 50ms; 2: no answer within 50ms"
        );
        assert!(nodes.iter().all(|node| node.live_leases() == 0));
    });
}

#[test]
fn no_runtime_is_needed_to_replace_a_node() {
    block_on(async {
        let stores = ["a", "b", "c", "d"].map(|name| (name, MemoryBackend::new()));
        let join = async |out: &str| {
            let members = stores.iter().filter(|(name, _)| *name != out);
            let builder = Redlock::builder().max_ttl(TTL);
            let quorum = members.fold(builder, |it, (name, store)| it.node(*name, store.client()));
            quorum.build().await.unwrap()
        };
        join("d").await.init().await.unwrap();
        let after = join("c").await;
        after.replace("c", "d").await.unwrap();
        granted(&after, &claim("a"), TTL).await;
    });
}

#[test]
fn what_is_left_to_do_survives_the_runtime_that_asked() {
    for mut asker in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let (nodes, quorum) = block_on(of_three());
        let gate = node(&quorum, 2).faults().on(Verb::Vote).hold_requests();
        let held = claim("a");
        let asker = asker.enable_all().build().unwrap();
        asker.block_on(async {
            granted(&quorum, &held, TTL).await;
            gate.arrived(1).await;
            quorum.release(&held).await.unwrap();
        });
        drop(asker);
        gate.open();
        wait(|| node(&quorum, 2).stats().releases >= 2);
        wait(|| nodes.iter().all(|node| node.live_leases() == 0));
    }
}

/// Holds the answers of two of three nodes to these requests back.
fn silence(quorum: &Quorum, verbs: &[Verb]) -> Vec<Gate> {
    let of = |index| verbs.iter().map(move |verb| node(quorum, index).faults().on(*verb));
    (0..2).flat_map(of).map(|faults| faults.hold_replies()).collect()
}

/// The votes arrive, and their answers do not. The background has no turn before the assertions: it might have to open a
/// connection first, and could not.
#[tokio::test(start_paused = true)]
async fn votes_without_an_answer_are_given_back_on_the_connection_of_the_votes() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let gates = silence(&quorum, &[Verb::Vote]);
    let error = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap_err();
    assert_eq!((error.kind(), cluster.leases()), (ErrorKind::Timeout, 0), "{error}");
    gates.iter().for_each(|gate| gate.open());

    // So are the votes of a lease that ends because the answers to its renewals are lost.
    let held = claim("a");
    let grant = granted(&quorum, &held, TTL).await;
    let _gates = silence(&quorum, &[Verb::Renew]);
    let renew = Renew::new(held, TTL);
    while quorum.clock().now() < grant.valid_until {
        let renewal = quorum.renew(&renew).await;
        assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    }
    assert!(matches!(quorum.renew(&renew).await, Renewal::Lost));
    assert_eq!(cluster.leases(), 0);
}

/// More votes than answers that a node may owe.
#[tokio::test(start_paused = true)]
async fn any_number_of_votes_without_an_answer_are_given_back() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let _gates = silence(&quorum, &[Verb::Vote, Verb::Release]);
    let ask = |number: usize| {
        let request = Acquire::new(claim(&number.to_string()), TTL);
        let quorum = &quorum;
        async move { quorum.try_acquire(&request).await.unwrap_err() }
    };
    let errors = join_all((0..300).map(ask)).await;
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Timeout), "{:?}", errors[0]);
    assert_eq!(cluster.leases(), 0);
}

/// The other two nodes decide. So no request waits for the vote of the silent node.
#[tokio::test(start_paused = true)]
async fn a_vote_of_a_node_that_is_known_to_be_silent_is_given_back_at_once() {
    let cluster = Cluster::of(3).await;
    let holder = cluster.join().await;
    node(&holder, 0).faults().cut();
    let quorum = cluster.join().await;
    let _gate = node(&quorum, 0).faults().on(Verb::Vote).hold_replies();
    for key in ["a", "b", "c"] {
        granted(&holder, &claim(key), TTL).await;
        let attempt = quorum.try_acquire(&Acquire::new(claim(key), TTL)).await;
        assert!(matches!(attempt, Ok(AcquireOutcome::Busy { .. })), "{attempt:?}");
        // The first request has found out that the node is silent.
        assert!(cluster.stores[0].live_leases() <= 1, "{key}");
    }
    assert!(node(&quorum, 0).stats().votes > 1);
}

/// Waits until something is so that happens on another thread.
fn wait(mut is_so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not come to pass within ten seconds");
}

#[tokio::test]
async fn nodes_may_be_of_different_types() {
    use lock_core::QuorumNode;
    use std::sync::Arc;

    let nodes: [Arc<dyn QuorumNode>; 3] = [
        Arc::new(MemoryBackend::new()),
        Arc::new(Box::new(MemoryBackend::new())),
        Arc::new(Arc::new(MemoryBackend::new())),
    ];
    let quorum: Redlock = Redlock::builder().nodes(nodes).build().await.unwrap();
    quorum.init().await.unwrap();
    let attempt = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Granted(_)));
}
