//! What the metrics count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_sync::{Locks, MutexGuard};
use lock_telemetry::Metrics;
use lock_tests::{RedisServer, SOON, eventually, soon};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::clients::{NAME, client, until_pushed, until_waiting};

/// A client, and what its observer has recorded.
struct Client {
    locks: Locks,
    recorded: PrometheusHandle,
}

impl Client {
    async fn of(server: &RedisServer) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let recorded = recorder.handle();
        let metrics = Metrics::builder().recorder(recorder).build();
        Self { locks: client(server, Arc::new(metrics)).await, recorded }
    }

    /// The sum of the samples with this name and all these labels.
    #[track_caller]
    fn count(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let page = self.recorded.render();
        let labels: Vec<_> = labels.iter().map(|(name, is)| format!("{name}=\"{is}\"")).collect();
        let is_it = |line: &&str| {
            let own = line.split(['{', ' ']).next();
            own == Some(name) && labels.iter().all(|label| line.contains(label))
        };
        let values = page.lines().filter(is_it).map(|line| line.rsplit(' ').next().unwrap());
        values.map(|value| value.parse::<f64>().unwrap()).sum()
    }

    /// How many calls got the lock in this way, and how long they took together.
    fn entered(&self, way: &str) -> (f64, f64) {
        let labels = [("outcome", "granted"), ("mode", "exclusive"), ("entered", way)];
        let [count, sum] = ["count", "sum"]
            .map(|part| self.count(&format!("lock_acquire_duration_{part}"), &labels));
        (count, sum)
    }

    fn lost(&self, reason: &str) -> f64 {
        self.count("lock_lost", &[("reason", reason)])
    }

    fn handed_over(&self, kind: &str) -> f64 {
        self.count("lock_handoffs", &[("kind", kind)])
    }

    fn requests(&self, outcome: &str) -> f64 {
        self.count("lock_store_request_duration_count", &[("outcome", outcome)])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_wait_for_one_another() {
    until_pushed(one_client_waits_for_another).await;
}

/// Returns whether the waiter has the lock by the message of its grant.
async fn one_client_waits_for_another() -> bool {
    let server = RedisServer::start();
    let (here, there) = (Client::of(&server).await, Client::of(&server).await);
    let begin = Instant::now();
    let guard = soon(here.locks.lock(NAME)).await.unwrap();
    let locks = there.locks.clone();
    let waiting = tokio::spawn(async move { locks.lock(NAME).await });
    until_waiting(&here.locks, 1).await;
    assert_eq!(there.count("lock_waiting", &[("mode", "exclusive")]), 1.0);
    assert_eq!(here.count("lock_held", &[("mode", "exclusive")]), 1.0);
    drop(guard);
    let guard = soon(waiting).await.unwrap().unwrap();
    let elapsed = begin.elapsed().as_secs_f64();

    let is_pushed = there.entered("free").0 == 0.0;
    let way = if is_pushed { "granted" } else { "free" };
    for (count, time) in [here.entered("free"), there.entered(way)] {
        assert_eq!(count, 1.0);
        assert!(time > 0.0 && time < elapsed, "{time} of {elapsed}");
    }
    assert_eq!(here.count("lock_hold_duration_count", &[("outcome", "dropped")]), 1.0);
    assert_eq!((there.count("lock_waiting", &[]), there.count("lock_held", &[])), (0.0, 1.0));
    assert_eq!(there.handed_over("remote"), if is_pushed { 1.0 } else { 0.0 });
    assert_eq!((there.handed_over("local"), here.handed_over("remote")), (0.0, 0.0));
    assert!(here.requests("ok") >= 2.0 && here.requests("timeout") == 0.0);
    drop(guard);
    assert_eq!(there.count("lock_held", &[]), 0.0);
    is_pushed
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_client_pass_the_lock_on() {
    const TASKS: u32 = 5;
    let server = RedisServer::start();
    let client = Client::of(&server).await;
    let guard = soon(client.locks.lock(NAME)).await.unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let locks = client.locks.clone();
            tokio::spawn(async move { locks.lock(NAME).await.map(drop) })
        })
        .collect();
    let all_wait = || client.count("lock_waiting", &[]) == f64::from(TASKS);
    eventually("all tasks wait", SOON, all_wait);
    drop(guard);
    for task in tasks {
        soon(task).await.unwrap().unwrap();
    }
    // A call counts as waiting a moment before it is in line. So a late task may find the lock free.
    let (passed_on, all) = (client.entered("handoff").0, f64::from(TASKS));
    assert!((1.0..=all).contains(&passed_on), "{passed_on}");
    assert_eq!(client.handed_over("local"), passed_on);
    assert_eq!(client.count("lock_acquire_duration_count", &[("outcome", "granted")]), all + 1.0);
    assert_eq!(client.handed_over("remote"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_is_counted_with_its_reason() {
    let server = RedisServer::start();
    let (here, there) = (Client::of(&server).await, Client::of(&server).await);
    let guard = soon(here.locks.lock(NAME)).await.unwrap();
    // The client watches the key of a guard that lives for a while.
    let lease = guard.lease();
    server.flushall();
    soon(lease.lost()).await;
    drop(soon(there.locks.lock(NAME)).await.unwrap());
    drop(guard);

    let short = there.locks.mutex("short", ()).unwrap().with_max_hold(Duration::from_millis(50));
    let short = short.unwrap();
    let guard = soon(short.lock()).await.unwrap();
    soon(MutexGuard::lease(&guard).lost()).await;
    drop(guard);

    // The holder may hear of the loss a moment before the observer.
    let lost = |client: &Client| (client.lost("revoked"), client.lost("held_too_long"));
    eventually("both losses are counted", SOON, || {
        (lost(&here), lost(&there)) == ((1.0, 0.0), (0.0, 1.0))
    });
    for client in [&here, &there] {
        assert_eq!(client.count("lock_hold_duration_count", &[("outcome", "lost")]), 1.0);
        assert_eq!(client.count("lock_held", &[]), 0.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_fail_while_the_server_does_not_answer() {
    let server = RedisServer::start();
    let client = Client::of(&server).await;
    let guard = soon(client.locks.lock(NAME)).await.unwrap();
    let renewals = |outcome| client.count("lock_renew_duration_count", &[("outcome", outcome)]);
    eventually("a lease is renewed", SOON, || renewals("renewed") >= 1.0);
    let failing = || client.count("lock_renewals_failing", &[]);
    assert_eq!(failing(), 0.0);
    server.kill();
    // The first renewal that fails is a third of the lease away. The lease may be over when this test looks.
    eventually("a renewal fails", SOON, || {
        renewals("failed") >= 1.0 && (failing() == 1.0 || !guard.lease().is_valid())
    });
    soon(guard.lease().lost()).await;
    eventually("the lease counts no more", SOON, || failing() == 0.0);
    eventually("the loss is counted", SOON, || client.lost("expired") == 1.0);
}
