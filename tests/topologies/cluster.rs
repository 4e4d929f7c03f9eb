//! A cluster whose primaries fail over: holders, waiters and renewals go on.

use std::time::Duration;

use lock_core::{AcquireOutcome, Backend, Hint, Renew, Renewal};
use lock_redis::RedisBackend;
use lock_tests::{RedisCluster, soon};

use crate::support::{
    Waiter, claim, granted, guards_go_through, long, released, renewed, served_in_order,
};

fn client(cluster: &RedisCluster) -> RedisBackend {
    RedisBackend::open(cluster.url()).unwrap()
}

/// A cluster, and the place of the replica of the primary of the lock `a`.
fn with_replicas() -> (RedisCluster, usize, usize) {
    let cluster = RedisCluster::start(3, 3);
    let primary = cluster.owner_of("lock:{a}");
    (cluster, primary, primary + 3)
}

/// Waits until the replica has what the primary has.
fn replicated(cluster: &RedisCluster, primary: usize) {
    let primary = cluster.nodes()[primary].server();
    assert_eq!(primary.cli(&["SET", "lock:{a}:marker", "1"]).text(), "OK");
    lock_tests::eventually("the replica has everything", Duration::from_secs(30), || {
        primary.cli(&["SET", "lock:{a}:marker", "1"]);
        primary.cli(&["WAIT", "1", "1000"]).int() == 1
    });
}

/// A holder and two waiters go through a failover: they keep what they have, and are served in order.
async fn go_through(fail: impl FnOnce(&RedisCluster, usize, usize)) {
    let (cluster, primary, replica) = with_replicas();
    let clients = [(); 3].map(|()| client(&cluster));
    let held = claim("a");
    let token = granted(&clients[0], &held).await.tokens.last();
    let mut first = Waiter::queue(&clients[1], claim("a")).await;
    let mut second = Waiter::queue(&clients[2], claim("a")).await;
    replicated(&cluster, primary);
    fail(&cluster, primary, replica);
    soon(renewed(&clients[0], &held)).await;
    soon(released(&clients[0], &held)).await;
    let (grant, _) = tokio::join!(first.gets_it(), async {
        second.hears(Hint::Resync).await;
    });
    served_in_order(token, &grant, &first, &mut second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_keeps_the_holder_and_the_order_of_waiters() {
    go_through(|cluster, _, replica| cluster.fail_over_to(replica, false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_killed_is_replaced_and_what_was_replicated_stays() {
    go_through(|cluster, primary, _| cluster.nodes()[primary].server().kill()).await;
}

/// The holder releases before any waiter has subscribed at the new primary: the first waiter keeps its turn.
#[tokio::test]
async fn a_waiter_keeps_its_turn_although_its_client_has_not_resubscribed() {
    let (cluster, primary, replica) = with_replicas();
    let clients = [(); 3].map(|()| client(&cluster));
    let held = claim("a");
    granted(&clients[0], &held).await;
    // Their watches are not polled, so they stay where they are.
    let first = Waiter::queue(&clients[1], claim("a")).await;
    let second = Waiter::queue(&clients[2], claim("a")).await;
    replicated(&cluster, primary);
    cluster.fail_over_to(replica, false);
    released(&clients[0], &held).await;
    let overtakes = matches!(second.ask().await, AcquireOutcome::Granted(_));
    assert!(!overtakes, "the first waiter lost its turn");
    assert!(
        matches!(first.ask().await, AcquireOutcome::Granted(_)),
        "the first waiter lost its turn"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_and_its_waiters_live_through_a_failover() {
    let (cluster, primary, replica) = with_replicas();
    let server = cluster.nodes()[primary].server();
    guards_go_through([(); 2].map(|()| client(&cluster)), server, || {
        replicated(&cluster, primary);
        cluster.fail_over_to(replica, true);
    })
    .await;
}

#[tokio::test]
async fn a_seed_that_is_down_and_a_cluster_without_a_server_are_told_apart() {
    let cluster = RedisCluster::start(3, 0);
    let backend = client(&cluster);
    let other = cluster.owner_of("lock:{b}");
    cluster.nodes()[(other + 1) % 3].server().kill();
    let held = claim("b");
    granted(&backend, &held).await;
    let fresh = client(&cluster);
    released(&backend, &held).await;
    granted(&fresh, &claim("b")).await;
    cluster.nodes().iter().for_each(|node| node.server().kill());
    let renewal = backend.renew(&Renew::new(claim("b"), long())).await;
    assert!(matches!(&renewal, Renewal::Unknown(error) if error.is_retryable()), "{renewal:?}");
}
