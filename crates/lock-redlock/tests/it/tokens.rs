//! How the tokens of several nodes are brought into step.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, Backend, Grant, Ttl};
use tokio::time::sleep;

use crate::support::{Cluster, claim, granted, node};

const TTL: Ttl = Ttl::DEFAULT;

#[tokio::test(start_paused = true)]
async fn tokens_are_brought_into_step_when_nodes_are_not() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    // One node is ahead of all clocks, because another client has confirmed a token there.
    let ahead = ahead_of_clock(&cluster.stores[1]).await;
    let held = claim("a");
    let first = granted(&quorum, &held, TTL).await;
    assert!(first.tokens.first().get() > ahead);
    let confirmations: u64 = quorum.nodes().map(|(_, node)| node.stats().confirmations).sum();
    assert_eq!(confirmations, 2);
    quorum.release(&held).await.unwrap();
    // Now they are in step. The next client needs one round, and gets a higher token from any majority.
    for missing in 0..3 {
        let other = cluster.join().await;
        node(&other, missing).faults().cut();
        let next = claim("a");
        let grant = granted(&other, &next, TTL).await;
        assert!(grant.tokens.first() > first.tokens.last());
        other.release(&next).await.unwrap();
    }
}

/// Its votes have come, but not the confirmations of its token.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_before_nodes_have_confirmed_its_token_gives_its_votes_back() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    ahead_of_clock(&cluster.stores[1]).await;
    let confirms = |(_, node): (_, &MemoryBackend)| node.faults().on(Verb::Confirm).hold_requests();
    let gates: Vec<_> = quorum.nodes().map(confirms).collect();
    let request = Acquire::new(claim("a"), TTL);
    let asking = tokio::time::timeout(Duration::from_millis(100), quorum.try_acquire(&request));
    assert!(asking.await.is_err());
    gates.iter().for_each(|gate| gate.open());
    // The leases end only later.
    sleep(TTL.duration() / 2).await;
    assert_eq!(cluster.leases(), 0);
}

async fn ahead_of_clock(store: &MemoryBackend) -> u64 {
    use lock_core::{Ballot, FencingToken, QuorumNode, Vote};
    let held = claim("a");
    let floor = FencingToken::new(u64::MAX);
    let vote = store.vote(&Ballot::new(Acquire::new(held.clone(), TTL), floor)).await.unwrap();
    let Vote::Granted(Grant { tokens, .. }) = vote else { panic!("{vote:?}") };
    store.release(&held).await.unwrap();
    tokens.last().get()
}
