//! What a collector gets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;

use lock_telemetry::names::{Kind, METRICS};
use lock_tests::RedisServer;
use metrics::{Key, Level, Metadata, Recorder};
use serde_json::Value;

use super::*;

/// A collector that keeps every message, as JSON, with its path.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Value)>>>);

impl Collector {
    /// Serves until the test ends. Returns the endpoint.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let collector = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let collector = collector.clone();
                thread::spawn(move || collector.serve(&stream.unwrap()));
            }
        });
        endpoint
    }

    /// Takes one message after another, until the client closes the connection.
    fn serve(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some((path, length)) = head(&mut reader) {
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            self.0.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap()));
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            stream.write_all(answer).unwrap();
        }
    }

    /// Everything at these places, in all messages with this path.
    fn all(&self, path: &str, places: &[&str]) -> Vec<Value> {
        let messages = self.0.lock().unwrap();
        let of_path = messages.iter().filter(|(own, _)| own == path);
        of_path.flat_map(|(_, message)| inside(message, places)).collect()
    }

    /// The spans by their names.
    fn spans(&self) -> BTreeMap<String, Vec<Value>> {
        let mut spans = BTreeMap::<String, Vec<Value>>::new();
        for span in self.all("/v1/traces", &["resourceSpans", "scopeSpans", "spans"]) {
            spans.entry(text(&span["name"]).to_owned()).or_default().push(span);
        }
        spans
    }

    /// The metrics by their names, as the last message has them.
    fn metrics(&self) -> BTreeMap<String, Value> {
        let metrics = self.all("/v1/metrics", &["resourceMetrics", "scopeMetrics", "metrics"]);
        metrics.into_iter().map(|it| (text(&it["name"]).to_owned(), it)).collect()
    }
}

/// The path and the length of the next message.
fn head(reader: &mut impl BufRead) -> Option<(String, usize)> {
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    Some((first.split(' ').nth(1)?.to_owned(), length))
}

/// The items of lists in lists.
fn inside(value: &Value, places: &[&str]) -> Vec<Value> {
    match places {
        [] => vec![value.clone()],
        [place, rest @ ..] => {
            let items = value[*place].as_array().into_iter().flatten();
            items.flat_map(|item| inside(item, rest)).collect()
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The sum of a field over all points of a metric.
fn sum(metric: &Value, kind: &str, field: &str) -> f64 {
    let points = metric[kind]["dataPoints"].as_array().into_iter().flatten();
    // Large integers are strings.
    let number = |it: &Value| it.as_f64().or_else(|| text(it).parse().ok()).unwrap_or_default();
    points.map(|point| number(&point[field])).sum()
}

/// A metric with those points alone that have this value of a label.
fn of(metric: &Value, kind: &str, value: &str) -> Value {
    let mut metric = metric.clone();
    if let Some(points) = metric[kind]["dataPoints"].as_array_mut() {
        points.retain(|point| {
            inside(point, &["attributes"]).iter().any(|it| it["value"]["stringValue"] == value)
        });
    }
    metric
}

/// Runs the example, and returns the collector.
fn collect(url: &str) -> Collector {
    let collector = Collector::default();
    let telemetry = Telemetry::to(&collector.start()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(telemetry.subscriber(), || {
        runtime.block_on(serve(url, telemetry.observer())).unwrap();
    });
    telemetry.end().unwrap();
    collector
}

#[test]
fn the_collector_gets_spans_with_parents_and_links() {
    let collector = collect("memory:");
    let spans = collector.spans();
    let count = REQUESTS as usize;
    for name in ["request", "lock.acquire", "lock.hold"] {
        assert_eq!(spans.get(name).map(Vec::len), Some(count), "{name} in {:?}", spans.keys());
    }
    let ids = |name: &str| spans[name].iter().map(|it| text(&it["spanId"])).collect::<Vec<_>>();
    let (requests, acquired) = (ids("request"), ids("lock.acquire"));
    for span in spans["lock.acquire"].iter().chain(&spans["lock.hold"]) {
        assert!(requests.contains(&text(&span["parentSpanId"])), "{span}");
    }
    // The first caller does not wait. The others do, unless they come late on a busy machine.
    assert!((1..count).contains(&spans["lock.wait"].len()), "{:?}", spans["lock.wait"]);
    for span in &spans["lock.wait"] {
        assert!(acquired.contains(&text(&span["parentSpanId"])), "{span}");
    }
    for hold in &spans["lock.hold"] {
        let links: Vec<_> = inside(hold, &["links"]);
        assert_eq!(links.len(), 1, "{hold}");
        let acquire = text(&links[0]["spanId"]);
        let found = spans["lock.acquire"].iter().find(|it| it["spanId"] == acquire).unwrap();
        assert_eq!(found["parentSpanId"], hold["parentSpanId"], "another request");
    }
}

/// The name of a metric in Prometheus, by the rules of a collector.
fn in_prometheus(name: &str, metric: &Value) -> String {
    let is_gauge = metric["gauge"].is_object();
    let unit = match text(&metric["unit"]) {
        "s" => "_seconds",
        "1" if is_gauge => "_ratio",
        _ => "",
    };
    let kind = if metric["sum"]["isMonotonic"] == true { "_total" } else { "" };
    name.replace('.', "_") + unit + kind
}

#[test]
fn the_metrics_of_the_collector_have_the_names_of_the_page_in_prometheus() {
    let collector = Collector::default();
    let telemetry = Telemetry::to(&collector.start()).unwrap();
    let bridge = Bridge::new(telemetry.meters.meter("locks"));
    let about = Metadata::new("", Level::INFO, None);
    for metric in METRICS {
        let key = Key::from_static_name(metric.name);
        match metric.kind {
            Kind::Counter => bridge.register_counter(&key, &about).increment(1),
            Kind::Gauge => bridge.register_gauge(&key, &about).set(1.0),
            Kind::Histogram => bridge.register_histogram(&key, &about).record(1.0),
        }
    }
    telemetry.end().unwrap();
    let metrics = collector.metrics();
    assert_eq!(metrics.len(), METRICS.len(), "{:?}", metrics.keys());
    let page = include_str!("../../docs/OPERATIONS.md");
    for (name, metric) in &metrics {
        let row = format!("| `{name}` | `{}` |", in_prometheus(name, metric));
        assert!(page.contains(&row), "no row: {row}");
        assert!(!metric["gauge"].is_object() || metric["unit"] != "1", "{metric}");
    }
}

#[test]
fn the_collector_gets_metrics_in_seconds() {
    let server = RedisServer::start();
    let collector = collect(&server.url());
    let metrics = collector.metrics();
    let acquired = &metrics["lock.acquire.duration"];
    assert_eq!(acquired["unit"], "s");
    assert_eq!(sum(acquired, "histogram", "count"), f64::from(REQUESTS));
    assert!(sum(acquired, "histogram", "sum") > 0.0);
    // Each holder works for five milliseconds.
    let held = sum(&metrics["lock.hold.duration"], "histogram", "sum");
    assert!(held >= 0.005 * f64::from(REQUESTS), "{held}");
    assert_eq!(sum(&metrics["lock.hold.duration"], "histogram", "count"), f64::from(REQUESTS));
    // A request that comes late, on a busy machine, may find the lock free.
    let passed_on = sum(&of(&metrics["lock.handoffs"], "sum", "local"), "sum", "asInt");
    assert_eq!(passed_on, sum(&of(acquired, "histogram", "handoff"), "histogram", "count"));
    assert!((1.0..=f64::from(REQUESTS - 1)).contains(&passed_on), "{passed_on}");
    assert!(sum(&metrics["lock.store.request.duration"], "histogram", "count") >= 2.0);
    assert_eq!(sum(&metrics["lock.held"], "gauge", "asDouble"), 0.0);
    assert_eq!(sum(&metrics["lock.lost"], "sum", "asInt"), 0.0);
}
