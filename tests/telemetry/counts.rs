//! What the metrics count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_sync::{Locks, MutexGuard};
use lock_telemetry::Metrics;
use lock_tests::{RedisServer, SOON, eventually, soon};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::clients::{NAME, TTL, client, until_waiting};

/// A client, and what its observer has recorded.
struct Client {
    locks: Locks,
    recorded: Snapshotter,
}

impl Client {
    async fn of(server: &RedisServer) -> Self {
        let recorder = DebuggingRecorder::new();
        let recorded = recorder.snapshotter();
        let metrics = Metrics::builder().recorder(recorder).build();
        Self { locks: client(server, Arc::new(metrics)).await, recorded }
    }

    /// What was recorded since the last call. The times of a histogram are there once.
    fn read(&self) -> Recorded {
        let all = self.recorded.snapshot().into_vec().into_iter();
        let entry = |(key, _, _, value): (metrics_util::CompositeKey, _, _, DebugValue)| {
            let labels = key.key().labels().map(|it| format!(" {}={}", it.key(), it.value()));
            let numbers = match value {
                DebugValue::Counter(count) => vec![f64::from(u32::try_from(count).unwrap())],
                DebugValue::Gauge(now) => vec![now.into_inner()],
                DebugValue::Histogram(times) => {
                    times.into_iter().map(|it| it.into_inner()).collect()
                }
            };
            (format!("{}{}", key.key().name(), labels.collect::<String>()), numbers)
        };
        Recorded(all.map(entry).collect())
    }
}

/// The values by names and labels: one for a counter or a gauge, all of them for a histogram.
#[derive(Debug)]
struct Recorded(BTreeMap<String, Vec<f64>>);

impl Recorded {
    /// The values of this metric with all these labels.
    fn of(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        let is_it = |own: &str| {
            let mut words = own.split(' ');
            words.next() == Some(name)
                && labels.iter().all(|label| own.split(' ').any(|it| it == *label))
        };
        let found = self.0.iter().filter(|(own, _)| is_it(own));
        found.flat_map(|(_, values)| values.iter().copied()).collect()
    }

    #[track_caller]
    fn count(&self, name: &str, labels: &[&str]) -> f64 {
        self.of(name, labels).into_iter().sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_wait_for_one_another() {
    let server = RedisServer::start();
    let (here, there) = (Client::of(&server).await, Client::of(&server).await);
    let begin = Instant::now();
    let guard = soon(here.locks.lock(NAME)).await.unwrap();
    let locks = there.locks.clone();
    let waiting = tokio::spawn(async move { locks.lock(NAME).await });
    until_waiting(&here.locks, 1).await;
    assert_eq!(there.read().count("lock.waiting", &["mode=exclusive"]), 1.0);
    drop(guard);
    let guard = soon(waiting).await.unwrap().unwrap();
    let elapsed = begin.elapsed().as_secs_f64();

    let (first, second) = (here.read(), there.read());
    let acquired = ["outcome=granted", "mode=exclusive"];
    let free = first.of("lock.acquire.duration", &[&acquired[..], &["entered=free"]].concat());
    let pushed =
        second.of("lock.acquire.duration", &[&acquired[..], &["entered=granted"]].concat());
    let held = first.of("lock.hold.duration", &["outcome=dropped", "mode=exclusive"]);
    assert_eq!((free.len(), pushed.len(), held.len()), (1, 1, 1), "{first:?} {second:?}");
    for time in [free[0], pushed[0], held[0]] {
        assert!(time > 0.0 && time < elapsed, "{time} of {elapsed}");
    }
    assert_eq!(second.count("lock.waiting", &[]), 0.0);
    assert_eq!(second.count("lock.held", &["mode=exclusive"]), 1.0);
    assert_eq!(second.count("lock.handoffs", &["kind=remote"]), 1.0);
    assert_eq!(second.count("lock.handoffs", &["kind=local"]), 0.0);
    assert_eq!(first.count("lock.handoffs", &["kind=remote"]), 0.0);
    assert!(!first.of("lock.store.request.duration", &["outcome=ok"]).is_empty(), "{first:?}");
    assert!(first.of("lock.store.request.duration", &["outcome=timeout"]).is_empty());
    drop(guard);
    eventually("the lock is given back", SOON, || there.read().count("lock.held", &[]) == 0.0);
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
    eventually("all tasks wait", SOON, || {
        client.read().count("lock.waiting", &[]) == f64::from(TASKS)
    });
    drop(guard);
    for task in tasks {
        soon(task).await.unwrap().unwrap();
    }
    let found = client.read();
    assert_eq!(found.count("lock.handoffs", &["kind=local"]), f64::from(TASKS), "{found:?}");
    let passed_on = found.of("lock.acquire.duration", &["entered=handoff"]);
    assert_eq!(passed_on.len(), TASKS as usize, "{found:?}");
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

    let (first, second) = (here.read(), there.read());
    assert_eq!(first.count("lock.lost", &["reason=revoked"]), 1.0, "{first:?}");
    assert_eq!(first.of("lock.hold.duration", &["outcome=lost"]).len(), 1, "{first:?}");
    assert_eq!(first.count("lock.held", &[]), 0.0);
    assert_eq!(second.count("lock.lost", &["reason=held_too_long"]), 1.0, "{second:?}");
    assert_eq!(second.count("lock.lost", &["reason=revoked"]), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_fail_while_the_server_does_not_answer() {
    let server = RedisServer::start();
    let client = Client::of(&server).await;
    let guard = soon(client.locks.lock(NAME)).await.unwrap();
    let renewed = |found: &Recorded| found.of("lock.renew.duration", &["outcome=renewed"]).len();
    let mut seen = 0;
    eventually("a lease is renewed", SOON, || {
        seen += renewed(&client.read());
        seen > 0
    });
    assert_eq!(client.read().count("lock.renewals.failing", &[]), 0.0);
    server.kill();
    // The first renewal that fails is a third of the lease away.
    let failing = || client.read().count("lock.renewals.failing", &[]) == 1.0;
    eventually("a renewal fails", SOON, failing);
    soon(guard.lease().lost()).await;
    let begin = Instant::now();
    eventually("the lease fails no more", SOON, || {
        client.read().count("lock.renewals.failing", &[]) == 0.0
    });
    assert!(begin.elapsed() < SOON + TTL);
    assert_eq!(client.read().count("lock.lost", &["reason=expired"]), 1.0);
}
