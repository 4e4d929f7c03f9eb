//! The dashboard and the alert rules ask for metrics that exist, and the page describes each panel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lock_telemetry::names::{Kind, METRICS, Metric};
use serde_json::Value;

use crate::label_values::{Labelled, recorded, wanted};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn read(file: &str) -> String {
    fs::read_to_string(docs().join(file)).unwrap()
}

/// The panels with queries.
fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&read("grafana/locks.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    panels.filter(|panel| panel["type"] != "row").cloned().collect()
}

fn title(panel: &Value) -> &str {
    panel["title"].as_str().unwrap()
}

fn queries(panel: &Value) -> Vec<&str> {
    let targets = panel["targets"].as_array().unwrap();
    targets.iter().map(|target| target["expr"].as_str().unwrap()).collect()
}

/// The expressions of these alert rules.
fn alerts(rules: &str) -> Vec<&str> {
    let ends = ["labels:", "for:"];
    let rules = rules.split("expr:").skip(1);
    let rules = rules.map(|rule| ends.iter().fold(rule, |it, end| it.split(end).next().unwrap()));
    rules.map(|expression| expression.trim_start_matches([' ', '>', '-'])).collect()
}

/// The name of a metric in Prometheus.
fn exported(metric: &Metric) -> String {
    let unit = metric.unit.map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
    let kind = if metric.kind == Kind::Counter { "_total" } else { "" };
    metric.name.replace('.', "_") + &unit + kind
}

/// Every series that Prometheus has of the metrics.
fn series() -> BTreeMap<String, &'static Metric> {
    let of = |metric: &'static Metric| {
        let parts: &[&str] = match metric.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        parts.iter().map(move |part| (exported(metric) + part, metric))
    };
    METRICS.iter().flat_map(of).collect()
}

/// The words of a query, outside quotes.
fn words(query: &str) -> BTreeSet<&str> {
    let outside = query.split('"').step_by(2);
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_$".contains(c);
    outside.flat_map(|text| text.split(move |c| !is_word(c))).filter(|it| !it.is_empty()).collect()
}

/// The words of a query that are no metric, no label of its metrics, and not known otherwise.
fn unknown(query: &str) -> Vec<String> {
    const LANGUAGE: [&str; 9] =
        ["sum", "max", "by", "rate", "increase", "histogram_quantile", "le", "job", "instance"];
    let series = series();
    let metrics: Vec<_> = words(query).into_iter().filter_map(|word| series.get(word)).collect();
    assert!(!metrics.is_empty(), "no metric in {query}");
    let labels: BTreeSet<&str> = metrics.iter().flat_map(|it| it.labels.iter().copied()).collect();
    let is_known = |word: &str| {
        LANGUAGE.contains(&word)
            || word.starts_with('$')
            || word.starts_with(|c: char| c.is_ascii_digit())
            || series.contains_key(word)
            || labels.contains(word)
    };
    words(query).into_iter().filter(|word| !is_known(word)).map(str::to_owned).collect()
}

/// The values of labels in a query that the metrics never record.
fn unrecorded(query: &str) -> Vec<Labelled> {
    let recorded = recorded();
    // The exporter may write no `_bucket` series. `_count` has the same labels.
    let as_count = |series: &str| series.replace("_bucket", "_count");
    let is_unknown = |(series, label, value): &Labelled| {
        !recorded.contains(&(as_count(series), label.clone(), value.clone()))
    };
    wanted(query).into_iter().filter(is_unknown).collect()
}

#[test]
fn every_query_and_every_alert_asks_for_values_of_labels_that_exist() {
    let (panels, rules) = (panels(), read("prometheus/alerts.yml"));
    let all: Vec<&str> = panels.iter().flat_map(queries).chain(alerts(&rules)).collect();
    let values: BTreeSet<_> = all.iter().flat_map(|query| wanted(query)).collect();
    assert!(values.len() >= 6, "the values were not read: {values:?}");
    for query in all {
        assert_eq!(unrecorded(query), [], "{query}");
    }
    let wrong = unrecorded("sum(lock_handoffs_total{job=~\"$job\", kind=~\"local|remtoe\"})");
    let lacks = ["lock_handoffs_total", "kind", "remtoe"].map(str::to_owned);
    assert_eq!(wrong, [lacks.into()]);
    let wrong =
        unrecorded("lock_held + rate(lock_acquire_duration_seconds_bucket{outcome=\"grant\"}[5m])");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

#[test]
fn every_query_asks_for_metrics_and_labels_that_exist() {
    let panels = panels();
    assert!(panels.len() >= 12, "the dashboard was not read");
    for panel in &panels {
        let queries = queries(panel);
        assert!(!queries.is_empty(), "{} asks for nothing", title(panel));
        for query in queries {
            assert_eq!(unknown(query), [""; 0], "{}: {query}", title(panel));
        }
    }
    assert_eq!(unknown("sum by (color) (lock_held)"), ["color"]);
    assert_eq!(unknown("lock_held + lock_hold"), ["lock_hold"]);
}

#[test]
fn every_alert_asks_for_metrics_and_labels_that_exist() {
    let rules = read("prometheus/alerts.yml");
    let expressions = alerts(&rules);
    assert!(expressions.len() >= 5, "the rules were not read");
    for expression in expressions {
        let unknown: Vec<_> = unknown(expression);
        // A duration such as `5m` begins with a digit.
        assert_eq!(unknown, [""; 0], "{expression}");
    }
}

#[test]
fn every_panel_is_described_on_the_page_and_no_other() {
    let page = read("DASHBOARD.md");
    let described: Vec<&str> = page.lines().filter_map(|it| it.strip_prefix("### ")).collect();
    let panels = panels();
    let titles: Vec<&str> = panels.iter().map(title).collect();
    assert_eq!(described, titles);
    // Each section says when to worry, or that there is no reason to.
    for section in page.split("\n### ").skip(1) {
        let says =
            section.contains("Worry") || section.contains("worry") || section.contains("Above");
        assert!(says, "no advice: {section}");
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&read("grafana/locks.json")).unwrap();
    // An import makes a new dashboard, and finds the data source by the variable.
    assert!(dashboard["id"].is_null() && dashboard["uid"].is_string());
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "numbers of panels are used twice");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
    for panel in self::panels() {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", title(&panel));
        let grid = &panel["gridPos"];
        assert!(grid["x"].as_u64().unwrap() + grid["w"].as_u64().unwrap() <= 24);
    }
}

#[test]
fn the_page_on_operations_lists_every_metric_with_its_labels() {
    let page = read("OPERATIONS.md");
    let kinds = |kind| match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    for metric in METRICS {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!(
            "| `{}` | `{}` | {} | {}",
            metric.name,
            exported(metric),
            kinds(metric.kind),
            labels.join(", ")
        );
        assert!(page.contains(row.trim_end()), "no row: {row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `lock.")).count();
    assert_eq!(rows, METRICS.len());
}
