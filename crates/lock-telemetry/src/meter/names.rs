//! The names of the metrics, with their kinds, units and labels.
//!
//! A recorder for Prometheus writes `lock_acquire_duration_seconds` for [`ACQUIRE_DURATION`] and `lock_lost_total` for
//! [`LOST`].
//!
//! # Examples
//!
//! ```
//! use lock_telemetry::names::{ACQUIRE_DURATION, BUCKETS, Kind, METRICS};
//!
//! assert_eq!(ACQUIRE_DURATION.name, "lock.acquire.duration");
//! for metric in METRICS {
//!     println!("{} {:?}: {}", metric.name, metric.labels, metric.about);
//! }
//! // A recorder with buckets needs their bounds for each histogram.
//! assert!(METRICS.iter().any(|metric| metric.kind == Kind::Histogram));
//! assert!(BUCKETS.is_sorted());
//! ```

use metrics::Unit;

/// What a recorder keeps for a metric of [`Metrics`](crate::Metrics).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the facade has these three")]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Values, in buckets.
    Histogram,
}

/// A metric that [`Metrics`](crate::Metrics) records.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The name, with dots.
    pub name: &'static str,
    /// What a recorder keeps for the metric.
    pub kind: Kind,
    /// The unit of the values: seconds for times, none for ratios.
    pub unit: Option<Unit>,
    /// The names of the labels, beside those that the app [adds](crate::MetricsBuilder).
    pub labels: &'static [&'static str],
    /// What the metric means, in a sentence.
    pub about: &'static str,
}

/// The bounds of buckets for the times of [`Metrics`](crate::Metrics), in seconds: from the time of a hand-off within a
/// process to a long wait.
pub const BUCKETS: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// The bounds of buckets for [`HOLD_TTL_RATIO`] of [`Metrics`](crate::Metrics).
pub const RATIO_BUCKETS: &[f64] =
    &[0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 5.0, 10.0];

macro_rules! metrics {
    ($($name:ident: $kind:ident, $text:literal, $unit:expr, [$($label:literal),*], $about:literal;)*) => {
        $(
            #[doc = $about]
            pub const $name: Metric = Metric {
                name: $text,
                kind: Kind::$kind,
                unit: $unit,
                labels: &[$($label),*],
                about: $about,
            };
        )*

        /// All metrics.
        pub const METRICS: &[Metric] = &[$($name),*];
    };
}

metrics! {
    ACQUIRE_DURATION: Histogram, "lock.acquire.duration", Some(Unit::Seconds), ["outcome", "mode", "entered"],
        "How long calls for a lock took, by their outcome and by the way to the lock.";
    HOLD_DURATION: Histogram, "lock.hold.duration", Some(Unit::Seconds), ["outcome", "mode"],
        "How long guards and permits lived, by their end.";
    HOLD_TTL_RATIO: Histogram, "lock.hold.ttl_ratio", None, [],
        "How long guards and permits lived, as a share of the ttl.";
    RENEW_DURATION: Histogram, "lock.renew.duration", Some(Unit::Seconds), ["outcome"],
        "How long renewals took, by their outcome.";
    STORE_REQUEST_DURATION: Histogram, "lock.store.request.duration", Some(Unit::Seconds), ["verb", "outcome"],
        "How long requests to the store took, by what was asked for and by the answer or the error.";
    HELD: Gauge, "lock.held", None, ["mode"],
        "How many guards and permits exist; an estimate while a lock is sampled.";
    WAITING: Gauge, "lock.waiting", None, ["mode"],
        "How many calls for a lock are under way; an estimate while a lock is sampled.";
    RENEWALS_FAILING: Gauge, "lock.renewals.failing", None, [],
        "How many leases were not renewed at the last try.";
    NODES_OUT: Gauge, "lock.nodes.out", None, ["node"],
        "Whether a node of a quorum is kept out: one or zero.";
    LOST: Counter, "lock.lost", None, ["reason"],
        "Leases that were lost while holders had them.";
    HANDOFFS: Counter, "lock.handoffs", None, ["kind"],
        "Locks that went straight to the next holder: local within the process, remote from another process, given back while others may wait.";
    RECONNECTS: Counter, "lock.reconnects", None, [],
        "Connections that replaced one that had ended.";
    REDIRECTS: Counter, "lock.redirects", None, [],
        "Requests that a server sent on to another server.";
    NODES_KEPT_OUT: Counter, "lock.nodes.kept_out", None, ["node", "reason"],
        "How often a node of a quorum was kept out.";
    DRIVER_ALARMS: Counter, "lock.driver.alarms", None, ["kind"],
        "How often the driver was late, the clock jumped, or a renewal left late.";
}
