//! Nodes whose limits differ.

use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, AcquireOutcome, Backend, ErrorKind, Grant, Renew, Renewal, Ttl};
use lock_redlock::Redlock;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, claim, granted, node};
use crate::twins::Address;

fn seconds(seconds: u64) -> Ttl {
    Ttl::new(Duration::from_secs(seconds)).unwrap()
}

/// A quorum over stores with these shortest leases.
async fn quorum<const COUNT: usize>(shortest: [Ttl; COUNT]) -> Redlock<Address> {
    let nodes = shortest.map(|ttl| Address::giving(&MemoryBackend::new(), ttl));
    let quorum = Redlock::builder().nodes(nodes).on_runtime(Handle::current()).build().await;
    let quorum = quorum.unwrap();
    quorum.init().await.unwrap();
    quorum
}

async fn asked(quorum: &Redlock<Address>, ttl: Ttl) -> Grant {
    match quorum.try_acquire(&Acquire::new(claim("a"), ttl)).await {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_node_is_asked_for_no_lease_that_is_too_short_for_it() {
    let quorum = quorum([seconds(3), Ttl::MIN, seconds(3)]).await;
    let (held, ttl) = (claim("a"), seconds(1));
    let sent = quorum.clock().now();
    let attempt = quorum.try_acquire(&Acquire::new(held.clone(), ttl)).await;
    let Ok(AcquireOutcome::Granted(grant)) = attempt else { panic!("{attempt:?}") };
    // The client counts the time that it asked for.
    assert_eq!(grant.valid_until, ttl.valid_until(sent));
    sleep(ttl.duration() / 2).await;
    let sent = quorum.clock().now();
    let renewal = quorum.renew(&Renew::new(held.clone(), ttl)).await;
    let Renewal::Renewed { valid_until, .. } = renewal else { panic!("{renewal:?}") };
    assert_eq!(valid_until, ttl.valid_until(sent));
    let _released = quorum.release(&held).await.unwrap();
    asked(&quorum, ttl).await;
}

/// A client dies. The key is free when its lease is over at a majority of nodes.
#[tokio::test(start_paused = true)]
async fn the_limit_of_a_quorum_is_that_of_its_fastest_majority() {
    let few = [Ttl::MIN, seconds(9), seconds(2)];
    let many = [seconds(2), seconds(9), seconds(1), Ttl::MIN, seconds(9)];
    for quorum in [quorum(few).await, quorum(many).await] {
        assert_eq!(quorum.shortest_ttl(), seconds(2));
        asked(&quorum, Ttl::MIN).await;
        // The other nodes vote for a lease that is held for longer than a moment.
        let begin = Instant::now();
        let next = claim("a");
        while !matches!(
            quorum.try_acquire(&Acquire::new(next.clone(), Ttl::DEFAULT)).await,
            Ok(AcquireOutcome::Granted(_))
        ) {
            sleep(Duration::from_millis(10)).await;
        }
        let limit = quorum.shortest_ttl().duration() + Duration::from_millis(100);
        assert!(begin.elapsed() < limit, "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn no_node_may_have_a_shortest_lease_that_is_longer_than_the_longest() {
    let nodes = [1, 5, 1].map(|ttl| Address::giving(&MemoryBackend::new(), seconds(ttl)));
    let error = Redlock::builder().nodes(nodes).max_ttl(seconds(4)).build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("the shortest lease of 2 is 5s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn each_node_has_as_long_to_answer_as_was_said_for_it() {
    let cluster = Cluster::of(3).await;
    let builder = cluster.builder().node_timeout(Duration::from_millis(20));
    let quorum = builder.timeout_of("3", Duration::from_millis(500)).build().await.unwrap();
    let _gate = node(&quorum, 0).faults().hold_requests();
    // The first node has not answered when its time is over. The third has more time, and its vote decides.
    node(&quorum, 2).faults().delay_replies(Duration::from_millis(300));
    let held = claim("a");
    granted(&quorum, &held, Ttl::DEFAULT).await;
    let _released = quorum.release(&held).await.unwrap();
    // The second node has no more time than the first.
    node(&quorum, 2).faults().delay_replies(Duration::ZERO);
    node(&quorum, 1).faults().delay_replies(Duration::from_millis(300));
    let begin = Instant::now();
    let error = quorum.try_acquire(&Acquire::new(claim("b"), Ttl::DEFAULT)).await.unwrap_err();
    assert!(error.to_string().contains("no answer within 20ms"), "{error}");
    assert!(begin.elapsed() < Duration::from_millis(300), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_time_limit_belongs_to_a_node() {
    let builder = Cluster::new(3).builder().timeout_of("4", Duration::from_secs(1));
    let error = builder.build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("a time limit for 4"), "{error}");
}
