//! The backend against real servers.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod agreement;
mod batches;
mod cells;
mod check;
mod conformance;
mod faults;
mod fencing;
mod format;
mod gap;
mod half_done;
mod inspections;
mod interop;
mod joint;
mod listing;
mod loading;
mod logins;
mod lost_data;
mod memory;
mod migration;
mod outages;
mod permits;
mod places;
mod pushes;
mod quarantine;
mod queue;
mod renewals;
mod reserved;
mod review;
mod rights;
mod runtimes;
mod sharers;
mod stored;
mod support;
mod together;
mod tracking;
mod votes;
mod waking;
