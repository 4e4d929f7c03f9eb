//! How soon clients lock again after a failover. The figures are printed; the limits are those of a busy machine.

use std::time::{Duration, Instant};

use lock_core::{Acquire, AcquireOutcome, Backend};
use lock_redis::RedisBackend;
use lock_tests::{RedisCluster, RedisServer, SOON, Sentinels, eventually, eventually_async};
use tokio::task::block_in_place;

use crate::support::{claim, granted, long};

/// How long servers may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits until a claim is granted, which no other owner stops.
async fn grants_again(backend: &RedisBackend) -> Instant {
    let request = Acquire::new(claim("again"), long());
    loop {
        match backend.try_acquire(&request).await {
            Ok(AcquireOutcome::Granted(_)) => return Instant::now(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}

/// Whether a server takes writes of a key, and since when.
fn writes(server: &RedisServer) -> Instant {
    let set = ["SET", "lock:{again}:probe", "1"];
    eventually("the next primary writes", LIMIT, || {
        server.try_cli(&set).is_ok_and(|answer| matches!(answer, lock_tests::resp::Value::Text(_)))
    });
    Instant::now()
}

/// A client that asks all the time is served at most a second after the servers, and some more on a busy machine.
fn judge(what: &str, begun: Instant, servers: Instant, client: Instant) {
    let own = servers.duration_since(begun);
    let more = client.saturating_duration_since(servers);
    println!("{what}: the servers took {own:?}, the client {more:?} more");
    assert!(more < SOON, "{what}: {more:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_cluster_recovers_soon_after_the_servers() {
    let cluster = RedisCluster::start(3, 3);
    let backend = RedisBackend::open(cluster.url()).unwrap();
    granted(&backend, &claim("before")).await;
    let primary = cluster.owner_of("lock:{again}");
    let begun = Instant::now();
    cluster.nodes()[primary].server().kill();
    let client = tokio::spawn(async move { grants_again(&backend).await });
    let servers = block_in_place(|| writes(cluster.nodes()[primary + 3].server()));
    judge("a cluster, killed", begun, servers, client.await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_behind_sentinels_recovers_soon_after_the_servers() {
    let deployment = Sentinels::start(1, 3);
    let backend = RedisBackend::open(deployment.url()).unwrap();
    granted(&backend, &claim("before")).await;
    let begun = Instant::now();
    deployment.servers()[0].kill();
    let client = tokio::spawn(async move { grants_again(&backend).await });
    let servers = block_in_place(|| {
        let written = writes(&deployment.servers()[1]);
        // The servers are done when a sentinel names the next primary.
        eventually("a sentinel names the next primary", LIMIT, || deployment.primary() == 1);
        written.max(Instant::now())
    });
    judge("sentinels, killed", begun, servers, client.await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_confirms_recovers_soon_after_all_replicas_acknowledge() {
    let deployment = Sentinels::start(1, 3);
    let builder = RedisBackend::builder(deployment.url());
    let backend = builder.confirm(1, Duration::from_millis(500)).build().unwrap();
    let request = Acquire::new(claim("before"), long());
    eventually_async("the first grant is confirmed", SOON, async || {
        matches!(backend.try_acquire(&request).await, Ok(AcquireOutcome::Granted(_)))
    })
    .await;
    let [old, new] = deployment.servers() else { panic!() };
    let begun = Instant::now();
    old.kill();
    let client = tokio::spawn(async move { grants_again(&backend).await });
    let servers = block_in_place(|| {
        eventually("another primary is named", LIMIT, || deployment.primary() == 1);
        old.restart();
        eventually("the replica acknowledges again", LIMIT, || {
            new.cli(&["SET", "marker", "1"]);
            new.cli(&["WAIT", "1", "100"]).int() == 1
        });
        Instant::now()
    });
    judge("sentinels, confirmed", begun, servers, client.await.unwrap());
}
