//! What Prometheus reads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lock_telemetry::names::{Kind, METRICS, Metric};
use lock_tests::{EtcdServer, PostgresServer, RedisServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// How long the load may take to show everything, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The metrics about nodes: only a quorum has nodes.
const OF_NODES: &str = "lock.nodes.";
/// The metric about requests: memory has none.
const OF_REQUESTS: &str = "lock.store.";

/// The samples of a page, by name and labels.
struct Page(BTreeMap<String, f64>);

impl Page {
    async fn get(addr: SocketAddr) -> Result<Self, AnyError> {
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or("no head")?;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let samples = body.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |line: &str| {
            let (name, value) = line.rsplit_once(' ').ok_or("no value")?;
            Ok((name.to_owned(), value.parse()?))
        };
        samples.map(parse).collect::<Result<_, AnyError>>().map(Self)
    }

    /// The samples whose names begin with `name` and which have all these labels.
    fn of<'a>(&'a self, name: &'a str, labels: &'a [&str]) -> impl Iterator<Item = f64> {
        let is_it = move |sample: &str| {
            let own = sample.split('{').next().unwrap_or_default();
            own == name && labels.iter().all(|label| sample.contains(label))
        };
        self.0.iter().filter(move |(sample, _)| is_it(sample)).map(|(_, value)| *value)
    }

    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.of(name, labels).sum()
    }

    /// Whether the page has samples of this metric.
    fn has(&self, metric: &Metric) -> bool {
        let name = exported(metric);
        let parts: &[&str] = match metric.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        parts.iter().all(|part| self.of(&format!("{name}{part}"), &[]).next().is_some())
    }
}

/// The name of a metric in Prometheus.
fn exported(metric: &Metric) -> String {
    let unit = metric.unit.map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
    let kind = if metric.kind == Kind::Counter { "_total" } else { "" };
    metric.name.replace('.', "_") + &unit + kind
}

/// Reads the page until it has all of this, and returns it.
async fn read(show: &Show, wanted: impl Fn(&Page) -> Vec<String>) -> Page {
    let start = Instant::now();
    loop {
        let page = Page::get(show.endpoint.addr()).await.unwrap();
        let missing = wanted(&page);
        if missing.is_empty() {
            return page;
        }
        assert!(start.elapsed() < LIMIT, "missing: {missing:?}; there is {:#?}", page.0);
        sleep(Duration::from_millis(50)).await;
    }
}

/// The metrics that are not on the page.
fn missing(page: &Page, without: &[&str]) -> Vec<String> {
    let wanted = METRICS.iter().filter(|it| without.iter().all(|not| !it.name.starts_with(not)));
    let missing = wanted.filter(|metric| !page.has(metric));
    missing.map(exported).collect()
}

/// What the load does sooner or later, and the page does not show yet.
fn not_yet(page: &Page, samples: &[(&str, &[&str])]) -> Vec<String> {
    let missing = samples.iter().filter(|(name, labels)| page.sum(name, labels) < 1.0);
    missing.map(|(name, labels)| format!("{name} {labels:?}")).collect()
}

const ACQUIRED: &str = "lock_acquire_duration_seconds_count";

/// Over every store.
const ALWAYS: [(&str, &[&str]); 9] = [
    (ACQUIRED, &[r#"outcome="granted""#, r#"entered="handoff""#, r#"lock="hot""#]),
    (ACQUIRED, &[r#"outcome="granted""#, r#"mode="shared""#]),
    (ACQUIRED, &[r#"outcome="busy""#]),
    (ACQUIRED, &[r#"outcome="timeout""#]),
    (ACQUIRED, &[r#"outcome="abandoned""#]),
    ("lock_hold_duration_seconds_count", &[r#"outcome="released""#, r#"lock="reports""#]),
    ("lock_renew_duration_seconds_count", &[r#"outcome="renewed""#]),
    ("lock_lost_total", &[r#"reason="held_too_long""#, r#"lock="slow""#]),
    ("lock_handoffs_total", &[r#"kind="local""#]),
];

/// The numbers fit together.
fn check(page: &Page, since: Instant) {
    let granted = page.sum(ACQUIRED, &[r#"outcome="granted""#]);
    let ended = page.sum("lock_hold_duration_seconds_count", &[]);
    let held = page.sum("lock_held", &[]);
    // The page is read while the load goes on.
    assert!((granted - ended - held).abs() <= 20.0, "{granted} {ended} {held}");
    let waiting = page.sum("lock_waiting", &[]);
    assert!((0.0..=20.0).contains(&waiting) && (0.0..=20.0).contains(&held));
    let (held, elapsed) = (page.sum("lock_hold_duration_seconds_sum", &[]), since.elapsed());
    assert!(held > 0.0 && held < 20.0 * elapsed.as_secs_f64(), "{held} in {elapsed:?}");
    let ratio = page.sum("lock_hold_ttl_ratio_sum", &[]);
    // The ttl is one second.
    assert!((ratio - held).abs() < 0.2 * held + 1.0, "{ratio} {held}");
    let no_unit = METRICS.iter().filter(|metric| metric.kind == Kind::Gauge);
    assert!(no_unit.count() >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_memory_the_page_has_every_metric_of_locks() {
    let (since, addr) = (Instant::now(), ANY_PORT.parse().unwrap());
    let show = Show::begin("memory:", addr).await.unwrap();
    let wanted = |page: &Page| {
        let missing = missing(page, &[OF_NODES, OF_REQUESTS]).into_iter();
        missing.chain(not_yet(page, &ALWAYS)).collect()
    };
    check(&read(&show, wanted).await, since);
    show.end().await.unwrap();
}

/// Over one store, the page has every metric but those of nodes, and these lines.
async fn has_the_metrics_of_a_store(url: &str, also: &[(&str, &[&str])]) {
    let (since, addr) = (Instant::now(), ANY_PORT.parse().unwrap());
    let show = Show::begin(url, addr).await.unwrap();
    let wanted = |page: &Page| {
        let missing = missing(page, &[OF_NODES]).into_iter();
        missing.chain(not_yet(page, &ALWAYS)).chain(not_yet(page, also)).collect()
    };
    check(&read(&show, wanted).await, since);
    show.end().await.unwrap();
}

const REQUESTS: &str = "lock_store_request_duration_seconds_count";
const HAND_OVERS: &str = "lock_handoffs_total";

#[tokio::test(flavor = "multi_thread")]
async fn over_redis_the_page_has_every_metric_but_those_of_nodes() {
    let server = RedisServer::start();
    let also: [(&str, &[&str]); 3] = [
        (HAND_OVERS, &[r#"kind="remote""#, r#"backend="redis""#]),
        (HAND_OVERS, &[r#"kind="given""#]),
        (REQUESTS, &[r#"verb="renew""#, r#"outcome="ok""#]),
    ];
    has_the_metrics_of_a_store(&server.url(), &also).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_postgres_the_page_has_the_metrics_of_a_store() {
    let server = PostgresServer::start();
    let also: [(&str, &[&str]); 2] =
        [(HAND_OVERS, &[r#"kind="remote""#]), (REQUESTS, &[r#"verb="renew""#, r#"outcome="ok""#])];
    has_the_metrics_of_a_store(&server.locks(), &also).await;
}

/// A request to etcd has the name of a call of etcd.
#[tokio::test(flavor = "multi_thread")]
async fn over_etcd_the_page_has_the_metrics_of_a_store() {
    let server = EtcdServer::start();
    let also: [(&str, &[&str]); 2] =
        [(HAND_OVERS, &[r#"kind="remote""#]), (REQUESTS, &[r#"verb="Txn""#, r#"outcome="ok""#])];
    has_the_metrics_of_a_store(&server.locks(), &also).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_quorum_the_page_has_every_metric() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let hosts: Vec<_> = servers.iter().map(|server| server.addr().to_string()).collect();
    let url = format!("redlock+redis://{}", hosts.join(","));
    // The servers are new, and an operator says so.
    lock_any::init(&url).await.unwrap();
    let show = Show::begin(&url, ANY_PORT.parse().unwrap()).await.unwrap();
    read(&show, |page| not_yet(page, &ALWAYS[..1])).await;
    servers[2].kill();
    let out: [(&str, &[&str]); 2] = [("lock_nodes_out", &[]), ("lock_nodes_kept_out_total", &[])];
    let wanted = |page: &Page| {
        let missing = missing(page, &[]).into_iter();
        missing.chain(not_yet(page, &out)).collect()
    };
    read(&show, wanted).await;
    show.end().await.unwrap();
}
