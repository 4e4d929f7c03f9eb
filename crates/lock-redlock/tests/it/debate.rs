//! The arguments for and against the algorithm in 2016, and how this crate behaves. See the page `divergence`.

use std::time::Duration;

use lock_core::{Acquire, Backend, ErrorKind, FencingToken, InspectBackend, Ttl};
use tokio::time::{advance, sleep};

use crate::support::{Cluster, claim, granted, node};

const TTL: Ttl = Ttl::DEFAULT;

/// What a lock protects: it refuses tokens that are lower than the highest that it has seen.
#[derive(Default)]
struct Resource {
    highest: u64,
    writes: Vec<&'static str>,
}

impl Resource {
    fn write(&mut self, by: &'static str, token: FencingToken) -> bool {
        let accepted = token.get() >= self.highest;
        if accepted {
            self.highest = token.get();
            self.writes.push(by);
        }
        accepted
    }
}

/// Kleppmann: a client that is paused after it got the lock writes although its lease is over.
#[tokio::test(start_paused = true)]
async fn the_resource_refuses_a_holder_that_was_paused() {
    let cluster = Cluster::of(5).await;
    let (paused, other) = (cluster.join().await, cluster.join().await);
    let mut resource = Resource::default();

    let before = granted(&paused, &claim("a"), TTL).await;
    // Checked just before the write, and then the world stops.
    assert!(paused.clock().now() < before.valid_until);
    sleep(TTL.duration()).await;
    let after = granted(&other, &claim("a"), TTL).await;
    assert!(resource.write("the other", after.tokens.first()));

    assert!(!resource.write("the paused", before.tokens.first()), "its token is too low");
    assert!(paused.clock().now() >= before.valid_until, "and it could know");
    assert_eq!(resource.writes, ["the other"]);
}

/// Sanfilippo: the client checks the time after the answers, so that no delay before them does harm.
#[tokio::test(start_paused = true)]
async fn answers_that_took_longer_than_the_lease_are_no_grant() {
    let cluster = Cluster::of(5).await;
    let patient = cluster.builder().node_timeout(TTL.duration() * 3).build().await.unwrap();
    let other = cluster.join().await;
    for (_, node) in patient.nodes() {
        // Every node has granted it, but the client hears of that when the leases are over.
        node.faults().delay_replies(TTL.duration());
    }
    let error = patient.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.is_retryable());
    granted(&other, &claim("a"), TTL).await;
}

/// Kleppmann: if the clock of one node jumps, two clients can hold the lock. So they can here; but their tokens
/// tell the later from the earlier.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_makes_two_holders_whose_tokens_are_in_order() {
    let cluster = Cluster::of(3).await;
    let (first, second) = (cluster.join().await, cluster.join().await);
    let one = claim("a");
    // One of the three does not hear of it, so that the vote of each of the others counts.
    node(&first, 2).faults().cut();
    let early = granted(&first, &one, TTL).await;
    advance(Duration::from_secs(1)).await;

    // The clock of a node jumps beyond the end of the lease, which nothing else notices.
    assert_eq!(cluster.stores[1].force_release(&one.key).await.unwrap(), 1);
    let late = granted(&second, &claim("a"), TTL).await;

    let now = first.clock().now();
    assert!(now < early.valid_until && now < late.valid_until, "both may believe in it");
    assert!(late.tokens.first() > early.tokens.last());
    let mut resource = Resource::default();
    assert!(resource.write("the later", late.tokens.first()));
    assert!(!resource.write("the earlier", early.tokens.last()));
}

/// Kleppmann: a node that restarts without its data votes twice. Here it does not vote until every lease that it may
/// have forgotten is over. The tests of membership show that without a quarantine two clients would hold the lock.
#[tokio::test(start_paused = true)]
async fn a_node_that_restarted_empty_does_not_vote_twice() {
    let cluster = Cluster::of(3).await;
    let (holder, other) = (cluster.join().await, cluster.join().await);
    node(&holder, 2).faults().cut();
    let grant = granted(&holder, &claim("a"), TTL).await;
    cluster.stores[1].forget();
    cluster.stores[1].restart();

    while holder.clock().now() < grant.valid_until {
        let attempt = other.try_acquire(&Acquire::new(claim("a"), TTL)).await;
        assert!(!matches!(attempt, Ok(lock_core::AcquireOutcome::Granted(_))), "{attempt:?}");
        sleep(Duration::from_millis(700)).await;
    }
}
