//! The backend against real etcd servers.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod cancels;
mod cluster;
mod conformance;
mod costs;
mod faults;
mod hints;
mod history;
mod leftovers;
mod limits;
mod logins;
mod processes;
mod space;
mod support;
mod tls;
mod versions;
mod voting;
