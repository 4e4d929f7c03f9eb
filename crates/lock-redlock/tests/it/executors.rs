//! A quorum works whichever thread polls, and whichever task or runtime ends meanwhile.

use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, Backend, ErrorKind, Renew, Renewal, Ttl};
use lock_redlock::Redlock;
use tokio::runtime::Builder;

use crate::support::{Cluster, claim, granted, node, of_three};

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

/// The votes arrive, and their answers do not. The background has no turn before the assertions: it might have to open a
/// connection first, and could not.
#[tokio::test(start_paused = true)]
async fn votes_without_an_answer_are_given_back_on_the_connection_of_the_votes() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let silent = |verb| [0, 1].map(|index| node(&quorum, index).faults().on(verb).hold_replies());
    let gates = silent(Verb::Vote);
    let error = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap_err();
    assert_eq!((error.kind(), cluster.leases()), (ErrorKind::Timeout, 0), "{error}");
    gates.iter().for_each(|gate| gate.open());

    // So are the votes of a lease that ends because the answers to its renewals are lost.
    let held = claim("a");
    let grant = granted(&quorum, &held, TTL).await;
    let _gates = silent(Verb::Renew);
    let renew = Renew::new(held, TTL);
    while quorum.clock().now() < grant.valid_until {
        let renewal = quorum.renew(&renew).await;
        assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    }
    assert!(matches!(quorum.renew(&renew).await, Renewal::Lost));
    assert_eq!(cluster.leases(), 0);
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
    assert!(matches!(attempt, lock_core::AcquireOutcome::Granted(_)));
}
