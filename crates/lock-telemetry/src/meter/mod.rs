//! The observer that counts and measures.

mod handles;
mod labels;
pub mod names;
mod per_class;
mod per_store;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use lock_core::Key;
use lock_core::observer::{
    AcquireBegun, AcquireEnded, ClockJumped, Connected, DriverStalled, HandedOver, HoldBegun,
    HoldEnded, LeaseRenewed, Loss, NodeBack, NodeKeptOut, Observer, Redirected, RenewalLate,
    StoreAnswered,
};
use metrics::{Histogram, Label, Recorder, SharedString};

use self::handles::{Group, Sink};
use self::labels::{Alarm, Answer, HandOff, Way};
use self::per_class::{Classes, Classify};
use self::per_store::Store;
use crate::outage::Outage;

/// An observer that feeds a recorder of the [`metrics`](::metrics) facade.
///
/// The module [`names`] lists the metrics, with units and labels. Times are in seconds. Install the recorder before you
/// make the observer, or [pass it](MetricsBuilder::recorder). The observer registers each metric when it first needs
/// the metric. After that, an event costs no look-up and no allocation, unless locks have
/// [classes](MetricsBuilder::classify).
///
/// An event counts for as many acquisitions as it [stands for](lock_core::observer#samples), and its time is recorded
/// as often, but no more than 256 times. So with `observe_one_in(n)` and a greater `n`, the counters are estimates of
/// all acquisitions, and the histograms show how times are distributed, but not how many there were.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use lock_core::observer::{Connected, Observer};
/// use lock_telemetry::Metrics;
/// use metrics_util::debugging::{DebugValue, DebuggingRecorder};
///
/// // An app installs a recorder for the process, and calls `Metrics::new()`.
/// let recorder = DebuggingRecorder::new();
/// let recorded = recorder.snapshotter();
/// let metrics = Arc::new(
///     Metrics::builder().recorder(recorder).label("backend", "redis").build(),
/// );
///
/// // It gives the observer to the builders of its locks and of their store. They call it:
/// metrics.connected(&Connected { server: "db:6379", again: true });
///
/// let all = recorded.snapshot().into_vec();
/// let (.., value) = all.iter().find(|(key, ..)| key.key().name() == "lock.reconnects").unwrap();
/// assert_eq!(*value, DebugValue::Counter(1));
/// ```
pub struct Metrics {
    classes: Classes,
    store: Store,
    outage: Outage,
}

impl Metrics {
    /// Metrics for the recorder of the process, without classes of locks.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Begins to configure metrics.
    pub fn builder() -> MetricsBuilder {
        MetricsBuilder { group: Group::default(), classify: None, most: MOST_CLASSES }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("classes", &self.classes).finish_non_exhaustive()
    }
}

/// The limit of classes of locks, unless the app sets another one.
const MOST_CLASSES: usize = 100;

/// Configures [`Metrics`].
///
/// # Examples
///
/// ```
/// use std::borrow::Cow;
///
/// use lock_telemetry::Metrics;
///
/// // `orders/42` and `orders/43` count together.
/// let metrics = Metrics::builder()
///     .label("backend", "redis")
///     .classify(|key| match key.as_bytes().split(|byte| *byte == b'/').next() {
///         Some(kind) => Cow::Owned(format!("{}/*", kind.escape_ascii())),
///         None => Cow::Borrowed("none"),
///     })
///     .most_classes(20)
///     .build();
/// # drop(metrics);
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct MetricsBuilder {
    group: Group,
    classify: Option<Box<Classify>>,
    most: usize,
}

impl MetricsBuilder {
    /// Feeds this recorder instead of the recorder of the process, as in the [example](Metrics).
    pub fn recorder(mut self, recorder: impl Recorder + Send + Sync + 'static) -> Self {
        self.group.sink = Sink::to(Arc::new(recorder));
        self
    }

    /// Adds a label to every metric, for example the kind of the store.
    pub fn label(mut self, name: impl Into<SharedString>, value: impl Into<SharedString>) -> Self {
        self.group.labels.push(Label::new(name, value));
        self
    }

    /// Adds the label `lock` to the metrics about locks: the class to which a lock belongs.
    ///
    /// The name of a lock is no label, because a recorder keeps every value of a label for ever, and an app has any
    /// number of locks. So `classify` maps names to a few classes. The observer calls it for each event about a lock,
    /// so it should be quick.
    pub fn classify(
        mut self,
        class: impl Fn(&Key) -> Cow<'_, str> + Send + Sync + 'static,
    ) -> Self {
        self.classify = Some(Box::new(class));
        self
    }

    /// How many classes have a label of their own: 100 by default. Locks of all further classes count as `other`.
    pub fn most_classes(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Makes the observer, and tells the recorder what each metric means.
    pub fn build(self) -> Metrics {
        self.group.sink.describe();
        let store = Store::new(self.group.clone());
        let classes = match self.classify {
            None => Classes::one(self.group),
            Some(classify) => Classes::many(self.group, self.most, classify),
        };
        Metrics { classes, store, outage: Outage::default() }
    }
}

impl fmt::Debug for MetricsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsBuilder").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Observer for Metrics {
    fn acquire_begun(&self, event: &AcquireBegun<'_>) {
        self.classes.with(event.key, |class| {
            class.waiting.by(&class.group, &event.mode).increment(event.stands_for);
        });
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        let way = Way::of(&event.outcome);
        self.classes.with(event.key, |class| {
            class.waiting.by(&class.group, &event.mode).decrement(event.stands_for);
            let values = (&event.outcome, &event.mode, &way);
            let acquire = class.acquire.by_three(&class.group, values);
            record(acquire, event.waited.as_secs_f64(), event.stands_for);
            if let Some(kind) = HandOff::of(&event.outcome) {
                class.handoffs.by(&class.group, &kind).increment(event.stands_for.into());
            }
        });
    }

    fn hold_begun(&self, event: &HoldBegun<'_>) {
        self.classes.with(event.key, |class| {
            class.held.by(&class.group, &event.mode).increment(event.stands_for);
        });
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        self.classes.with(event.key, |class| {
            class.held.by(&class.group, &event.mode).decrement(event.stands_for);
            let (held, ttl) = (event.held.as_secs_f64(), event.ttl.as_secs_f64());
            let hold = class.hold.by_two(&class.group, &event.how, &event.mode);
            record(hold, held, event.stands_for);
            record(class.ratio.only(&class.group), held / ttl, event.stands_for);
        });
        if let Some(failing) = self.outage.gone(event.key) {
            self.store.show_failing(failing);
        }
    }

    fn lease_renewed(&self, event: &LeaseRenewed<'_>) {
        self.classes.with(event.key, |class| {
            class.renew.by(&class.group, &event.outcome).record(event.took);
        });
        self.store.show_failing(self.outage.renewed(event).1);
    }

    fn lease_lost(&self, event: &Loss<'_>) {
        self.classes.with(event.key, |class| {
            class.lost.by(&class.group, &event.reason).increment(1);
        });
        self.store.show_failing(self.outage.lost(event.key));
    }

    fn handed_over(&self, event: &HandedOver<'_>) {
        self.classes.with(event.key, |class| {
            class.handoffs.by(&class.group, &HandOff::Given).increment(1);
        });
    }

    fn store_answered(&self, event: &StoreAnswered<'_>) {
        let answer = Answer(event.error.map(lock_core::Error::kind));
        self.store.answered(event.verb, &answer, event.took);
    }

    fn connected(&self, event: &Connected<'_>) {
        if event.again {
            self.store.reconnects.only(&self.store.group).increment(1);
        }
    }

    fn redirected(&self, _: &Redirected<'_>) {
        self.store.redirects.only(&self.store.group).increment(1);
    }

    fn node_kept_out(&self, event: &NodeKeptOut<'_>) {
        self.store.kept_out(event.node, event.why.name());
    }

    fn node_back(&self, event: &NodeBack<'_>) {
        self.store.show_out(event.node, false);
    }

    fn driver_stalled(&self, _: &DriverStalled) {
        self.store.alarm(Alarm::Stalled);
    }

    fn clock_jumped(&self, _: &ClockJumped) {
        self.store.alarm(Alarm::ClockJumped);
    }

    fn renewal_late(&self, _: &RenewalLate<'_>) {
        self.store.alarm(Alarm::RenewalLate);
    }
}

/// A time is recorded no more often than this. A recorder takes each one by itself, while the lock is held.
const MOST_RECORDS: u32 = 256;

/// Records a value once for each of the acquisitions or holds for which it stands, up to [`MOST_RECORDS`].
#[inline]
fn record(histogram: &Histogram, value: f64, stands_for: u32) {
    histogram.record_many(value, stands_for.min(MOST_RECORDS) as usize);
}
