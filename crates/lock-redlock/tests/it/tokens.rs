//! How the tokens of several nodes are brought into step.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, Backend, Ballot, Claim, FencingToken, Grant, QuorumNode, Renew, Renewal};
use lock_core::{Ttl, Vote};
use tokio::time::sleep;

use crate::support::{Cluster, claim, granted, node, until};

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

/// As if the clock of the client had been set back after the grant.
#[tokio::test(start_paused = true)]
async fn a_node_that_votes_later_gets_no_lower_token() {
    for is_renewed in [true, false] {
        let cluster = Cluster::of(3).await;
        let quorum = cluster.join().await;
        for store in &cluster.stores[..2] {
            ahead_of_clock(store).await;
        }
        node(&quorum, 2).faults().cut();
        let held = claim("a");
        let first = granted(&quorum, &held, TTL).await;
        node(&quorum, 2).faults().heal();
        if is_renewed {
            let renewal = quorum.renew(&Renew::new(held.clone(), TTL)).await;
            assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        } else {
            granted(&quorum, &held, TTL).await;
        }
        until(|| cluster.stores[2].live_leases() == 1).await;
        quorum.release(&held).await.unwrap();
        let next = voted(&cluster.stores[2], &claim("a"), FencingToken::new(0)).await;
        assert!(next.tokens.first() > first.tokens.last(), "renewed: {is_renewed}");
    }
}

pub(crate) async fn ahead_of_clock(store: &MemoryBackend) -> u64 {
    let held = claim("a");
    let grant = voted(store, &held, FencingToken::new(u64::MAX)).await;
    store.release(&held).await.unwrap();
    grant.tokens.last().get()
}

async fn voted(store: &MemoryBackend, claim: &Claim, floor: FencingToken) -> Grant {
    let vote = store.vote(&Ballot::new(Acquire::new(claim.clone(), TTL), floor)).await.unwrap();
    let Vote::Granted(grant) = vote else { panic!("{vote:?}") };
    grant
}
