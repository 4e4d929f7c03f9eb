//! The backend against real PostgreSQL servers.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod cancels;
mod conformance;
mod costs;
mod durability;
mod failover;
mod faults;
mod fence;
mod hostile;
mod init;
mod isolation;
mod keepalive;
mod outages;
mod pooler;
mod processes;
mod readers;
mod rights;
mod space;
mod support;
mod sweeping;
mod tls;
mod transactions;
mod voting;
