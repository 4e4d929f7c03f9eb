//! The backend against real PostgreSQL servers.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod cancels;
mod conformance;
mod faults;
mod fence;
mod init;
mod pooler;
mod processes;
mod rights;
mod support;
