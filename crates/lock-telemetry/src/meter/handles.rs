//! The handles of metrics. The first use of a handle registers it. Later uses find it by two numbers.

use std::fmt;
use std::sync::{Arc, OnceLock};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder};

use super::labels::Value;
use super::names::{Kind, METRICS, Metric};

/// Where metrics go: to the recorder of the process, or to a recorder of the app.
#[derive(Clone, Default)]
pub(super) struct Sink(Option<Arc<dyn Recorder + Send + Sync>>);

impl Sink {
    pub(super) fn to(recorder: Arc<dyn Recorder + Send + Sync>) -> Self {
        Self(Some(recorder))
    }

    fn with<R>(&self, ask: impl FnOnce(&dyn Recorder) -> R) -> R {
        match &self.0 {
            Some(recorder) => ask(&**recorder),
            None => metrics::with_recorder(ask),
        }
    }

    /// Tells the recorder what each metric means.
    pub(super) fn describe(&self) {
        self.with(|recorder| {
            for metric in METRICS {
                let (name, about) = (KeyName::from_const_str(metric.name), metric.about.into());
                match metric.kind {
                    Kind::Counter => recorder.describe_counter(name, metric.unit, about),
                    Kind::Gauge => recorder.describe_gauge(name, metric.unit, about),
                    Kind::Histogram => recorder.describe_histogram(name, metric.unit, about),
                }
            }
        });
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Sink(own)" } else { "Sink(global)" })
    }
}

/// What all metrics of one group share: the recorder, and labels that do not change.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) sink: Sink,
    pub(super) labels: Vec<Label>,
}

impl Group {
    /// The handle of the metric with these labels beside the common ones.
    pub(super) fn register<H: Handle>(&self, metric: &Metric, labels: Vec<Label>) -> H {
        const METADATA: Metadata<'static> =
            Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        let labels: Vec<Label> = self.labels.iter().cloned().chain(labels).collect();
        let key = Key::from_parts(KeyName::from_const_str(metric.name), labels);
        self.sink.with(|recorder| H::register(recorder, &key, &METADATA))
    }
}

/// A kind of metric.
pub(super) trait Handle: Sized {
    fn register(recorder: &dyn Recorder, key: &Key, metadata: &Metadata<'_>) -> Self;
}

impl Handle for Counter {
    fn register(recorder: &dyn Recorder, key: &Key, metadata: &Metadata<'_>) -> Self {
        recorder.register_counter(key, metadata)
    }
}

impl Handle for Gauge {
    fn register(recorder: &dyn Recorder, key: &Key, metadata: &Metadata<'_>) -> Self {
        recorder.register_gauge(key, metadata)
    }
}

impl Handle for Histogram {
    fn register(recorder: &dyn Recorder, key: &Key, metadata: &Metadata<'_>) -> Self {
        recorder.register_histogram(key, metadata)
    }
}

/// The handles of one metric, for all values of its labels. The labels have the order of [`Metric::labels`].
pub(super) struct Handles<H> {
    metric: &'static Metric,
    slots: Box<[OnceLock<H>]>,
}

impl<H: Handle> Handles<H> {
    /// A metric without labels has one combination of values.
    pub(super) fn new(metric: &'static Metric, combinations: usize) -> Self {
        Self { metric, slots: (0..combinations).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn only(&self, group: &Group) -> &H {
        self.slot(0, group, &[])
    }

    pub(super) fn by<A: Value>(&self, group: &Group, value: &A) -> &H {
        match self.slots[value.index()].get() {
            Some(handle) => handle,
            None => self.slot(value.index(), group, &[value.text()]),
        }
    }

    /// The handles of a metric whose first label has one value in all of them.
    pub(super) fn below<A: Value>(&self, group: &Group, first: &'static str, value: &A) -> &H {
        match self.slots[value.index()].get() {
            Some(handle) => handle,
            None => self.slot(value.index(), group, &[first, value.text()]),
        }
    }

    pub(super) fn by_two<A: Value, B: Value>(&self, group: &Group, one: &A, two: &B) -> &H {
        let index = one.index() * B::COUNT + two.index();
        match self.slots[index].get() {
            Some(handle) => handle,
            None => self.slot(index, group, &[one.text(), two.text()]),
        }
    }

    pub(super) fn by_three<A: Value, B: Value, C: Value>(
        &self,
        group: &Group,
        (one, two, three): (&A, &B, &C),
    ) -> &H {
        let index = (one.index() * B::COUNT + two.index()) * C::COUNT + three.index();
        match self.slots[index].get() {
            Some(handle) => handle,
            None => self.slot(index, group, &[one.text(), two.text(), three.text()]),
        }
    }

    /// The handle at `index`, for these values of the labels.
    #[cold]
    fn slot(&self, index: usize, group: &Group, values: &[&'static str]) -> &H {
        let register = || {
            let pairs = self.metric.labels.iter().zip(values);
            let labels = pairs.map(|(name, value)| Label::from_static_parts(name, value));
            group.register(self.metric, labels.collect())
        };
        self.slots[index].get_or_init(register)
    }
}

impl<H> fmt::Debug for Handles<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handles").field(&self.metric.name).finish()
    }
}
