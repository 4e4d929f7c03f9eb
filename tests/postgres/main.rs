//! The backend against real PostgreSQL servers.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used)]

mod conformance;
mod fence;
mod init;
mod rights;
mod support;
