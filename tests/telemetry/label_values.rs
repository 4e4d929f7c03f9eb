//! The values of labels, as the metrics record them.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::observer::{
    AcquireEnd, AcquireEnded, AcquisitionId, ClockJumped, DriverStalled, Entered, HandedOver,
    HoldId, Loss, LossReason, Observer, RenewalLate, StoreAnswered,
};
use lock_core::{Error, ErrorKind, Key, Mode};
use lock_telemetry::Metrics;
use metrics_exporter_prometheus::PrometheusBuilder;

/// A series, one of its labels, and a value.
pub(crate) type Labelled = (String, String, String);

/// What Prometheus reads after one event of each kind that the dashboard or an alert asks for.
pub(crate) fn recorded() -> BTreeSet<Labelled> {
    let recorder = PrometheusBuilder::new().with_recommended_naming(true).build_recorder();
    let page = recorder.handle();
    let metrics = Metrics::builder().recorder(recorder).build();
    let key = Key::new("it").unwrap();
    acquisitions(&metrics, &key);
    losses(&metrics, &key);
    let time = Duration::from_millis(1);
    let error = Error::new(ErrorKind::Timeout, "no answer");
    for error in [None, Some(&error)] {
        metrics.store_answered(&StoreAnswered { server: "a", verb: "acquire", error, took: time });
    }
    metrics.driver_stalled(&DriverStalled { late: time });
    metrics.clock_jumped(&ClockJumped { by: time });
    metrics.renewal_late(&RenewalLate { key: &key, late: time, left: time });
    page.render().lines().flat_map(labels).collect()
}

fn acquisitions(metrics: &Metrics, key: &Key) {
    let granted = [Entered::Free, Entered::Granted, Entered::HandOff, Entered::Cached]
        .map(|entered| AcquireEnd::Granted { hold: HoldId::new(1, 1), entered });
    let refused = [AcquireEnd::Busy, AcquireEnd::Timeout(None), AcquireEnd::Abandoned];
    for outcome in granted.into_iter().chain(refused) {
        let (id, mode) = (AcquisitionId::draw(), Mode::Exclusive);
        let waited = Duration::from_millis(1);
        metrics.acquire_ended(&AcquireEnded { id, key, mode, outcome, waited, stands_for: 1 });
    }
    metrics.handed_over(&HandedOver { key });
}

fn losses(metrics: &Metrics, key: &Key) {
    use LossReason::{DriverStopped, Expired, HeldTooLong, Released, Revoked};
    for reason in [Expired, Revoked, HeldTooLong, DriverStopped, Released] {
        let (left, since) = (Duration::ZERO, Duration::ZERO);
        metrics.lease_lost(&Loss { key, reason, holds: &[], left, since });
    }
}

/// The labels of a sample: `series{name="value",…} number`.
fn labels(line: &str) -> Vec<Labelled> {
    let Some((series, rest)) = line.split_once('{') else { return Vec::new() };
    let Some((labels, _)) = rest.rsplit_once('}') else { return Vec::new() };
    let pairs = labels.split(',').filter_map(|label| label.split_once('='));
    let own = |(name, value): (&str, &str)| {
        (series.to_owned(), name.to_owned(), value.trim_matches('"').to_owned())
    };
    pairs.map(own).collect()
}

/// The label values that a query asks for, with series and label: `series{label="value"}`, or more values with `|`
/// between them. Leaves out variables of the dashboard (`$…`).
pub(crate) fn wanted(query: &str) -> Vec<Labelled> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let last_word = |text: &str| {
        let text = text.trim_end_matches(|c| !is_word(c));
        text.rsplit(|c| !is_word(c)).next().unwrap_or_default().to_owned()
    };
    let (mut wanted, mut series) = (Vec::new(), String::new());
    let parts: Vec<&str> = query.split('"').collect();
    for pair in parts.chunks_exact(2) {
        let (outside, quoted) = (pair[0], pair[1]);
        if let Some((before, _)) = outside.rsplit_once('{') {
            series = last_word(before);
        }
        for value in quoted.split('|').filter(|value| !value.starts_with('$')) {
            wanted.push((series.clone(), last_word(outside), value.to_owned()));
        }
    }
    wanted
}
