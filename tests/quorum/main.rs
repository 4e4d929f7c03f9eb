//! A quorum of real servers.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cells;
mod clocks;
mod conformance;
mod ending;
mod faults;
mod forgetting;
mod histories;
mod members;
mod mixed;
mod replacing;
mod support;
