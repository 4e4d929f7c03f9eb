//! What a recorder has after some events.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquisitionId, ClockJumped, Connected, DriverStalled,
    Entered, HandedOver, HoldBegun, HoldEnd, HoldEnded, HoldId, LeaseRenewed, Loss, LossReason,
    NodeBack, NodeKeptOut, Observer, Redirected, RenewalLate, RenewalOutcome, StoreAnswered,
    WhyKeptOut,
};
use lock_core::{Error, ErrorKind, FencingToken, Key, Mode};
use lock_telemetry::names::{Kind, METRICS};
use lock_telemetry::{Metrics, MetricsBuilder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

const TTL: Duration = Duration::from_secs(1);
const TOOK: Duration = Duration::from_millis(250);

/// An observer, and what it has recorded.
struct Bench {
    metrics: Metrics,
    recorded: Snapshotter,
}

impl Bench {
    fn new(configure: impl FnOnce(MetricsBuilder) -> MetricsBuilder) -> Self {
        let recorder = DebuggingRecorder::new();
        let recorded = recorder.snapshotter();
        Self { metrics: configure(Metrics::builder()).recorder(recorder).build(), recorded }
    }

    /// Every metric with its labels, as `name{label=value,…}`. Histograms are emptied.
    fn read(&self) -> BTreeMap<String, Value> {
        let all = self.recorded.snapshot().into_vec().into_iter();
        all.map(|(key, _, _, value)| {
            let labels = key.key().labels().map(|it| format!("{}={}", it.key(), it.value()));
            let labels = labels.collect::<Vec<_>>().join(",");
            (format!("{}{{{labels}}}", key.key().name()), Value::from(value))
        })
        .collect()
    }
}

#[derive(Debug, PartialEq)]
enum Value {
    Count(u64),
    Now(f64),
    Times(Vec<f64>),
}

impl From<DebugValue> for Value {
    fn from(value: DebugValue) -> Self {
        match value {
            DebugValue::Counter(count) => Self::Count(count),
            DebugValue::Gauge(now) => Self::Now(now.into_inner()),
            DebugValue::Histogram(times) => {
                Self::Times(times.into_iter().map(|time| time.into_inner()).collect())
            }
        }
    }
}

#[track_caller]
fn check(found: &BTreeMap<String, Value>, wanted: &[(&str, Value)]) {
    for (name, value) in wanted {
        assert_eq!(found.get(*name), Some(value), "{name} in {found:#?}");
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn acquire(metrics: &Metrics, key: &Key, mode: Mode, end: Option<AcquireEnd<'_>>) {
    let id = AcquisitionId::draw();
    metrics.acquire_begun(&AcquireBegun { id, key, mode, stands_for: 1 });
    if let Some(end) = end {
        metrics.acquire_ended(&AcquireEnded {
            id,
            key,
            mode,
            outcome: end,
            waited: TOOK,
            stands_for: 1,
        });
    }
}

#[test]
fn calls_are_counted_by_outcome_mode_and_way() {
    let bench = Bench::new(|it| it.label("backend", "memory"));
    let orders = key("orders/42");
    let hold = HoldId::new(1, 1);
    for entered in [Entered::Free, Entered::Free, Entered::HandOff] {
        let granted = AcquireEnd::Granted { hold, entered };
        acquire(&bench.metrics, &orders, Mode::Exclusive, Some(granted));
    }
    acquire(&bench.metrics, &orders, Mode::Shared, Some(AcquireEnd::Busy));
    acquire(&bench.metrics, &orders, Mode::Shared, None);
    let acquired = "lock.acquire.duration{backend=memory,outcome=granted,mode=exclusive,entered=";
    check(
        &bench.read(),
        &[
            (&format!("{acquired}free}}"), Value::Times(vec![0.25, 0.25])),
            (&format!("{acquired}handoff}}"), Value::Times(vec![0.25])),
            (
                "lock.acquire.duration{backend=memory,outcome=busy,mode=shared,entered=none}",
                Value::Times(vec![0.25]),
            ),
            ("lock.waiting{backend=memory,mode=exclusive}", Value::Now(0.0)),
            ("lock.waiting{backend=memory,mode=shared}", Value::Now(1.0)),
        ],
    );
}

#[test]
fn holds_are_measured_by_their_end_and_beside_the_ttl() {
    let bench = Bench::new(|it| it);
    let (orders, token) = (key("orders/42"), FencingToken::new(7));
    let begin = |number| {
        let (id, mode) = (HoldId::new(1, number), Mode::Shared);
        bench.metrics.hold_begun(&HoldBegun {
            id,
            acquisition: None,
            key: &orders,
            mode,
            token,
            stands_for: 1,
        });
    };
    let end = |number, how| {
        let (id, mode) = (HoldId::new(1, number), Mode::Shared);
        bench.metrics.hold_ended(&HoldEnded {
            id,
            acquisition: None,
            key: &orders,
            mode,
            how,
            held: TOOK,
            ttl: TTL,
            stands_for: 1,
        });
    };
    (1..=4).for_each(begin);
    end(1, HoldEnd::Dropped);
    end(2, HoldEnd::Lost(LossReason::Expired));
    check(
        &bench.read(),
        &[
            ("lock.hold.duration{outcome=dropped,mode=shared}", Value::Times(vec![0.25])),
            ("lock.hold.duration{outcome=lost,mode=shared}", Value::Times(vec![0.25])),
            ("lock.hold.ttl_ratio{}", Value::Times(vec![0.25, 0.25])),
            ("lock.held{mode=shared}", Value::Now(2.0)),
        ],
    );
}

#[test]
fn an_event_counts_for_all_acquisitions_for_which_it_stands() {
    let bench = Bench::new(|it| it);
    let (orders, mode, token) = (key("orders/42"), Mode::Exclusive, FencingToken::new(7));
    let (id, hold, stands_for) = (AcquisitionId::draw(), HoldId::new(1, 1), 3);
    let (key, acquisition, waited, held) = (&orders, Some(id), TOOK, TOOK);
    let outcome = AcquireEnd::Granted { hold, entered: Entered::HandOff };
    let begun = AcquireBegun { id, key, mode, stands_for };
    let ended = AcquireEnded { id, key, mode, outcome, waited, stands_for };
    let (id, how, ttl) = (hold, HoldEnd::Dropped, TTL);
    let holds = HoldBegun { id, acquisition, key, mode, token, stands_for };
    let held = HoldEnded { id, acquisition, key, mode, how, held, ttl, stands_for };
    for _ in 0..2 {
        bench.metrics.acquire_begun(&begun);
        bench.metrics.hold_begun(&holds);
    }
    bench.metrics.acquire_ended(&ended);
    bench.metrics.hold_ended(&held);
    let acquired = "lock.acquire.duration{outcome=granted,mode=exclusive,entered=handoff}";
    check(
        &bench.read(),
        &[
            ("lock.waiting{mode=exclusive}", Value::Now(3.0)),
            (acquired, Value::Times(vec![0.25; 3])),
            ("lock.handoffs{kind=local}", Value::Count(3)),
            ("lock.held{mode=exclusive}", Value::Now(3.0)),
            ("lock.hold.duration{outcome=dropped,mode=exclusive}", Value::Times(vec![0.25; 3])),
            ("lock.hold.ttl_ratio{}", Value::Times(vec![0.25; 3])),
        ],
    );
}

#[test]
fn losses_hand_overs_and_alarms_are_counted() {
    let bench = Bench::new(|it| it);
    let (orders, metrics) = (key("orders/42"), &bench.metrics);
    for reason in [LossReason::Expired, LossReason::Revoked, LossReason::Expired] {
        metrics.lease_lost(&Loss {
            key: &orders,
            reason,
            holds: &[],
            left: Duration::ZERO,
            since: TOOK,
        });
    }
    use Entered::{Cached, Granted, HandOff};
    for entered in [HandOff, Granted, Granted, Cached] {
        let granted = AcquireEnd::Granted { hold: HoldId::new(1, 1), entered };
        acquire(metrics, &orders, Mode::Exclusive, Some(granted));
    }
    metrics.handed_over(&HandedOver { key: &orders });
    metrics.driver_stalled(&DriverStalled { late: TOOK });
    metrics.clock_jumped(&ClockJumped { by: TOOK });
    metrics.renewal_late(&RenewalLate { key: &orders, late: TOOK, left: TOOK });
    check(
        &bench.read(),
        &[
            ("lock.lost{reason=expired}", Value::Count(2)),
            ("lock.lost{reason=revoked}", Value::Count(1)),
            ("lock.handoffs{kind=local}", Value::Count(1)),
            ("lock.handoffs{kind=remote}", Value::Count(2)),
            ("lock.handoffs{kind=given}", Value::Count(1)),
            ("lock.driver.alarms{kind=stalled}", Value::Count(1)),
            ("lock.driver.alarms{kind=clock_jumped}", Value::Count(1)),
            ("lock.driver.alarms{kind=renewal_late}", Value::Count(1)),
        ],
    );
}

#[test]
fn counters_begin_at_zero() {
    let found = Bench::new(|it| it).read();
    check(
        &found,
        &[
            ("lock.lost{reason=expired}", Value::Count(0)),
            ("lock.handoffs{kind=remote}", Value::Count(0)),
            ("lock.reconnects{}", Value::Count(0)),
            ("lock.driver.alarms{kind=stalled}", Value::Count(0)),
            ("lock.renewals.failing{}", Value::Now(0.0)),
        ],
    );
}

#[test]
fn requests_connections_and_nodes_are_counted() {
    let bench = Bench::new(|it| it);
    let metrics = &bench.metrics;
    let error = Error::new(ErrorKind::Timeout, "no answer");
    for (verb, error) in [("acquire", None), ("acquire", Some(&error)), ("renew", None)] {
        metrics.store_answered(&StoreAnswered { server: "db:6379", verb, error, took: TOOK });
    }
    for again in [false, true, true] {
        metrics.connected(&Connected { server: "db:6379", again });
    }
    metrics.redirected(&Redirected { from: "db:6379", to: None });
    metrics.node_kept_out(&NodeKeptOut { node: "a", why: WhyKeptOut::Quarantine });
    metrics.node_kept_out(&NodeKeptOut { node: "b", why: WhyKeptOut::Failed(&error) });
    metrics.node_back(&NodeBack { node: "a", after: TOOK });
    let request = "lock.store.request.duration";
    check(
        &bench.read(),
        &[
            (&format!("{request}{{verb=acquire,outcome=ok}}"), Value::Times(vec![0.25])),
            (&format!("{request}{{verb=acquire,outcome=timeout}}"), Value::Times(vec![0.25])),
            (&format!("{request}{{verb=renew,outcome=ok}}"), Value::Times(vec![0.25])),
            ("lock.reconnects{}", Value::Count(2)),
            ("lock.redirects{}", Value::Count(1)),
            ("lock.nodes.kept_out{node=a,reason=quarantine}", Value::Count(1)),
            ("lock.nodes.kept_out{node=b,reason=failed}", Value::Count(1)),
            ("lock.nodes.out{node=a}", Value::Now(0.0)),
            ("lock.nodes.out{node=b}", Value::Now(1.0)),
        ],
    );
}

#[test]
fn a_lease_fails_until_it_is_renewed_or_lost() {
    let bench = Bench::new(|it| it);
    let (one, other, metrics) = (key("a"), key("b"), &bench.metrics);
    let error = Error::new(ErrorKind::Unreachable, "no connection");
    let renewed =
        |key, outcome| metrics.lease_renewed(&LeaseRenewed { key, outcome, took: TOOK, ttl: TTL });
    let failing = || match bench.read().remove("lock.renewals.failing{}") {
        Some(Value::Now(leases)) => leases,
        other => panic!("{other:?}"),
    };
    renewed(&one, RenewalOutcome::Renewed);
    assert_eq!(failing(), 0.0);
    renewed(&one, RenewalOutcome::Failed(&error));
    renewed(&one, RenewalOutcome::Failed(&error));
    renewed(&other, RenewalOutcome::Failed(&error));
    assert_eq!(failing(), 2.0);
    renewed(&one, RenewalOutcome::Renewed);
    assert_eq!(failing(), 1.0);
    metrics.lease_lost(&Loss {
        key: &other,
        reason: LossReason::Expired,
        holds: &[],
        left: Duration::ZERO,
        since: TOOK,
    });
    assert_eq!(failing(), 0.0);
}

#[test]
fn a_name_is_a_label_only_by_its_class() {
    let bench = Bench::new(|it| it);
    acquire(&bench.metrics, &key("orders/42"), Mode::Exclusive, None);
    assert!(bench.read().keys().all(|name| !name.contains("orders")));

    fn class(key: &Key) -> Cow<'_, str> {
        match key.as_bytes().first() {
            Some(b'o') => Cow::Borrowed("orders/*"),
            _ => Cow::Owned(key.to_string()),
        }
    }
    let bench = Bench::new(|it| it.classify(class).most_classes(2));
    for name in ["orders/1", "orders/2", "users/1", "users/2", "users/3"] {
        acquire(&bench.metrics, &key(name), Mode::Exclusive, None);
    }
    let waiting = |class| format!("lock.waiting{{lock={class},mode=exclusive}}");
    check(
        &bench.read(),
        &[
            (&waiting("orders/*"), Value::Now(2.0)),
            (&waiting("users/1"), Value::Now(1.0)),
            (&waiting("other"), Value::Now(2.0)),
        ],
    );
}

#[test]
fn every_name_is_unique_and_every_time_is_in_seconds() {
    let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        let is_time = metric.name.ends_with(".duration");
        assert_eq!(metric.unit, is_time.then_some(metrics::Unit::Seconds), "{}", metric.name);
        assert!(!is_time || metric.kind == Kind::Histogram, "{}", metric.name);
    }
}
