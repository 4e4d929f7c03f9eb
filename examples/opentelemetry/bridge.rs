//! A recorder of the `metrics` facade that records to OpenTelemetry.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_telemetry::names::{BUCKETS, HOLD_TTL_RATIO, METRICS, Metric, RATIO_BUCKETS};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

/// Records the metrics of locks to a meter. Units, descriptions and buckets are those of
/// [`names`](lock_telemetry::names).
///
/// All instruments with one name have one unit and one description: otherwise OpenTelemetry takes them for different
/// ones.
pub struct Bridge(Meter);

impl Bridge {
    /// A recorder for this meter.
    pub fn new(meter: Meter) -> Self {
        Self(meter)
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").finish_non_exhaustive()
    }
}

/// The unit and the description of the metric with this name. A metric without a unit has an empty unit: if a gauge has
/// the unit `1`, a collector that writes to Prometheus adds `_ratio` to its name.
fn about(name: &str) -> (&'static str, &'static str) {
    let known: Option<&Metric> = METRICS.iter().find(|metric| metric.name == name);
    known.map_or(("", ""), |it| (it.unit.map_or("", |unit| unit.as_canonical_label()), it.about))
}

fn labels(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|it| KeyValue::new(it.key().to_owned(), it.value().to_owned())).collect()
}

impl Recorder for Bridge {
    // The names say it.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let (unit, description) = about(key.name());
        let counter = self.0.u64_counter(key.name().to_owned());
        let counter = counter.with_unit(unit).with_description(description).build();
        let labels = labels(key);
        counter.add(0, &labels);
        Counter::from_arc(Arc::new(Counted { counter, labels, last: AtomicU64::new(0) }))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let (unit, description) = about(key.name());
        let (now, labels) = (Arc::new(Now::default()), labels(key));
        let shown = Arc::clone(&now);
        // Read when it is collected: two changes at once could be recorded in the wrong order.
        let gauge = self.0.f64_observable_gauge(key.name().to_owned());
        let gauge = gauge.with_unit(unit).with_description(description);
        gauge.with_callback(move |to| to.observe(shown.get(), &labels)).build();
        Gauge::from_arc(now)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let (unit, description) = about(key.name());
        let is_ratio = key.name() == HOLD_TTL_RATIO.name;
        let bounds = if is_ratio { RATIO_BUCKETS } else { BUCKETS };
        let histogram = self.0.f64_histogram(key.name().to_owned()).with_unit(unit);
        let histogram = histogram.with_description(description).with_boundaries(bounds.to_vec());
        Histogram::from_arc(Arc::new(Measured {
            histogram: histogram.build(),
            labels: labels(key),
        }))
    }
}

struct Counted {
    counter: opentelemetry::metrics::Counter<u64>,
    labels: Vec<KeyValue>,
    /// The highest absolute value so far.
    last: AtomicU64,
}

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        self.counter.add(value, &self.labels);
    }

    fn absolute(&self, value: u64) {
        let last = self.last.fetch_max(value, Ordering::Relaxed);
        self.counter.add(value.saturating_sub(last), &self.labels);
    }
}

/// The bits of a number.
#[derive(Default)]
struct Now(AtomicU64);

impl Now {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn add(&self, value: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // The function never refuses.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

impl GaugeFn for Now {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

struct Measured {
    histogram: opentelemetry::metrics::Histogram<f64>,
    labels: Vec<KeyValue>,
}

impl HistogramFn for Measured {
    fn record(&self, value: f64) {
        self.histogram.record(value, &self.labels);
    }
}
