//! The behaviour of locks over a real server when something fails.
//!
//! Each file is one theme, each test one sentence. Exclusion is always checked by a second client
//! or another process, never by the holder itself.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod cached;
mod cancel;
mod cancel_shared;
mod client_rights;
mod crash;
mod crash_permits;
mod crash_reentrant;
mod crash_rwlock;
mod destroying;
mod drop_then_try;
mod drops;
mod executor;
mod fairness;
mod foreign_values;
mod idle;
mod interop;
mod labels;
mod load;
mod lost_at_once;
mod names;
mod processes;
mod reentrant;
mod rwlock;
mod rwlock_modes;
mod semaphore;
mod server_faults;
mod stub;
mod support;
mod unreachable;
mod volatile;
mod wake_sources;
