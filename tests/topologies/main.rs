//! The backend over deployments of several servers: a cluster, and a service that sentinels watch.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod check;
mod clocks;
mod cluster;
mod confirmed;
mod conformance;
mod doctor;
mod eras;
mod failover;
mod inboxes;
mod laws_confirmed;
mod logins;
mod lost_data;
mod lost_slots;
mod midway;
mod moves;
mod recovery;
mod refusals;
mod replaced;
mod rights;
mod sentinels;
mod support;
mod terms;
mod tls;
