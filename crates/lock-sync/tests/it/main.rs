//! The primitives over the in-memory backend, always through two clients of one store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod cache;
mod cancel;
mod contract;
mod driver_gone;
mod drops;
mod lease;
mod mutex;
mod outage;
mod rwlock;
mod shutdown;
mod support;
mod turns;
