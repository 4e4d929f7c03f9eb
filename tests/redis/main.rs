//! The backend against real servers.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod check;
mod conformance;
mod faults;
mod fencing;
mod interop;
mod outages;
mod places;
mod pushes;
mod queue;
mod rights;
mod runtimes;
mod support;
mod tracking;
mod waking;
