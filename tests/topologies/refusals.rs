//! Servers that answer, and serve nothing for a while: a replica, a server that loads its data, a cluster that is down.
//!
//! No request runs there. So a client of a deployment asks again, and the caller sees an answer or an error that
//! passes. What was held before stays held.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{AcquireOutcome, Backend, Claim, Error, ErrorKind, Released};
use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::requests::attempt;
use lock_tests::{RedisCluster, RedisServer, SOON, Sentinels, eventually_async, soon};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::support::{claim, granted, long, released, renewed};

/// Longer than a server takes to load its data on a busy machine.
const PATIENT: Duration = Duration::from_secs(60);

fn client(url: String, patience: Duration) -> RedisBackend {
    RedisBackend::builder(url).command_timeout(patience).build().unwrap()
}

/// Asks once.
fn asking(backend: &RedisBackend, claim: Claim) -> JoinHandle<Result<AcquireOutcome, Error>> {
    let backend = backend.clone();
    tokio::spawn(async move { attempt(&backend, &claim, long()).await })
}

/// The error says that a later request may work, and why this one did not.
fn passes(error: &Error, why: &str) {
    assert!(error.kind() == ErrorKind::NotReady && error.is_retryable(), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

/// How often a server has refused a command with this code.
fn refusals(server: &RedisServer, code: &str) -> u64 {
    let info = server.cli(&["INFO", "errorstats"]).text();
    let count = format!("errorstat_{code}:count=");
    info.lines().find_map(|line| line.strip_prefix(&count)?.parse().ok()).unwrap_or(0)
}

/// The lease that was there before is there, and after its release the next claim gets the lock.
async fn nothing_is_lost(backend: &RedisBackend, held: &Claim) {
    let next = claim(held.key.as_bytes());
    renewed(backend, held).await;
    let refused = attempt(backend, &next, long()).await;
    assert!(matches!(refused, Ok(AcquireOutcome::Busy { .. })), "{refused:?}");
    assert!(matches!(released(backend, held).await, Released::Freed { .. }));
    granted(backend, &next).await;
}

#[tokio::test]
async fn a_server_that_became_a_replica_refuses_and_a_waiter_goes_on_once_it_is_a_primary() {
    let server = RedisServer::start();
    let backend = client(server.url(), SOON);
    let [here, there] = [(); 2].map(|()| Locks::new(client(server.url(), SOON)));
    let [here, there] = [&here, &there].map(|locks| locks.mutex("a", ()).unwrap());
    let held = claim("b");
    granted(&backend, &held).await;
    let guard = soon(here.lock()).await.unwrap();
    // The connections stay, and no server is at the other address.
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]).text(), "OK");
    passes(&attempt(&backend, &claim("c"), long()).await.unwrap_err(), "is a replica");
    passes(&backend.release(&held).await.unwrap_err(), "is a replica");
    let before = refusals(&server, "READONLY");
    let waiting = tokio::spawn(async move {
        MutexGuard::release(there.lock().await.unwrap()).await.unwrap();
    });
    let is_refused = async || refusals(&server, "READONLY") > before;
    eventually_async("the waiter is refused", SOON, is_refused).await;
    assert!(!waiting.is_finished() && MutexGuard::lease(&guard).is_valid());
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]).text(), "OK");
    MutexGuard::release(guard).await.unwrap();
    soon(waiting).await.unwrap();
    nothing_is_lost(&backend, &held).await;
}

/// Behind sentinels, one request outlasts the time in which the server that it reached is a replica.
#[tokio::test]
async fn behind_sentinels_a_request_that_reached_a_replica_is_sent_again() {
    // The sentinels go on to name the first server for longer than the test takes.
    let deployment = Sentinels::with_patience(1, 3, PATIENT);
    let backend = client(deployment.url(), PATIENT);
    let held = claim("a");
    granted(&backend, &held).await;
    let server = &deployment.servers()[0];
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]).text(), "OK");
    let asked = asking(&backend, claim("b"));
    let roles = server.commandstats().calls("role");
    let is_refused = async || {
        // The client has left its connection, and asks the server for its role at each attempt to connect.
        refusals(server, "READONLY") > 0 && server.commandstats().calls("role") > roles + 1
    };
    eventually_async("the request is refused", SOON, is_refused).await;
    assert!(!asked.is_finished());
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]).text(), "OK");
    let answer = soon(asked).await.unwrap();
    assert!(matches!(answer, Ok(AcquireOutcome::Granted(_))), "{answer:?}");
    nothing_is_lost(&backend, &held).await;
}

#[tokio::test]
async fn a_request_outlasts_that_a_cluster_is_down_or_fails_with_an_error_that_passes() {
    // It serves no slot unless it serves all.
    let cluster = RedisCluster::of(1, 0, |it| it.config("cluster-require-full-coverage", "yes"));
    let [brief, patient] =
        [Duration::from_millis(200), PATIENT].map(|patience| client(cluster.url(), patience));
    let held = claim("a");
    granted(&patient, &held).await;
    renewed(&brief, &held).await;
    let server = cluster.nodes()[0].server();
    let slot = cluster.slot_of("lock:{another}").to_string();
    assert_eq!(server.cli(&["CLUSTER", "DELSLOTS", &slot]).text(), "OK");
    passes(&attempt(&brief, &claim("b"), long()).await.unwrap_err(), "is failing over");
    let before = refusals(server, "CLUSTERDOWN");
    let asked = asking(&patient, claim("c"));
    let is_refused = async || refusals(server, "CLUSTERDOWN") > before + 2;
    eventually_async("the request is refused", SOON, is_refused).await;
    assert!(!asked.is_finished());
    assert_eq!(server.cli(&["CLUSTER", "ADDSLOTS", &slot]).text(), "OK");
    let answer = soon(asked).await.unwrap();
    assert!(matches!(answer, Ok(AcquireOutcome::Granted(_))), "{answer:?}");
    nothing_is_lost(&patient, &held).await;
}

/// A service of one server that takes a second and a half to load its data.
fn slow_to_load() -> Sentinels {
    let deployment = Sentinels::of(0, 1, PATIENT, |server| {
        let server = server.config("rdbcompression", "no").config("key-load-delay", "5000");
        // The server looks after its clients each time that it has read so much.
        server.config("loading-process-events-interval-bytes", "1024")
    });
    let fill = (0..300).flat_map(|number| [format!("fill{number}"), "x".repeat(100)]);
    let fill: Vec<_> = ["MSET".to_owned()].into_iter().chain(fill).collect();
    assert_eq!(deployment.servers()[0].cli(&fill).text(), "OK");
    deployment
}

#[tokio::test]
async fn a_request_outlasts_that_a_server_loads_its_data() {
    let deployment = Arc::new(slow_to_load());
    let backend = client(deployment.url(), PATIENT);
    let held = claim("a");
    granted(&backend, &held).await;
    let server = &deployment.servers()[0];
    assert_eq!(server.cli(&["SAVE"]).text(), "OK");
    server.kill();
    let loading = {
        let deployment = Arc::clone(&deployment);
        spawn_blocking(move || deployment.servers()[0].restart())
    };
    // A client of this server alone sees why.
    let single = client(server.url(), SOON);
    let is_loading = async || {
        let error = single.release(&claim("c")).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        error.kind() == ErrorKind::NotReady
            && error.to_string().contains("is still loading its data")
    };
    eventually_async("the server is loading", SOON, is_loading).await;
    // The connection has gone. A request that was under way on it might have run, and would fail.
    let asked = asking(&backend, claim("b"));
    soon(loading).await.unwrap();
    let answer = soon(asked).await.unwrap();
    assert!(matches!(answer, Ok(AcquireOutcome::Granted(_))), "{answer:?}");
    nothing_is_lost(&backend, &held).await;
}
