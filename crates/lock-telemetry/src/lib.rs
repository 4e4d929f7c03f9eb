//! Metrics and traces of distributed locks. The crate has two observers. An app gives them to the builders of its locks
//! and of their store.
//!
//! | feature | brings |
//! | --- | --- |
//! | `metrics` | [`Metrics`]: counts and times, for any recorder of the `metrics` facade; [`names`] lists them |
//! | `tracing` | [`Traces`]: spans for acquisitions and holds, and log lines for losses and outages |
//!
//! Both features are on by default. A builder takes any number of observers, so an app can have both.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lock_core::observer::Observers;
//! use lock_telemetry::{Metrics, Traces};
//!
//! // `lock_sync::Builder::observer` adds an observer in this way, and so do the builders of the stores.
//! let mut observers = Observers::none();
//! observers.add(Arc::new(Metrics::new()));
//! observers.add(Arc::new(Traces::new()));
//! ```
//!
//! An observer of a store hears of requests, connections and nodes. An observer of locks hears of everything else. Give
//! one observer to both.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "metrics")]
mod meter;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod outage;
#[cfg(feature = "tracing")]
mod spans;

#[cfg(feature = "metrics")]
pub use meter::{Metrics, MetricsBuilder, names};
#[cfg(feature = "tracing")]
pub use spans::Traces;
