//! Metrics and traces of locks over real servers, with two clients of one key. And the dashboard, beside the metrics.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod clients;
mod counts;
mod dashboard;
#[path = "../../crates/lock-telemetry/tests/journal/mod.rs"]
mod journal;
mod label_values;
mod spans;
