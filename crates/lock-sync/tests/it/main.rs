//! The primitives over the in-memory backend, always through two clients of one store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod barrier;
mod cache;
mod cancel;
mod company;
mod compile_fail;
mod contract;
mod deaf;
mod declaring;
mod driver_gone;
mod drops;
mod ears;
mod erased;
mod errors;
mod foreign;
mod from_tokio;
mod handle;
mod holding;
mod inspect;
mod labels;
mod leader;
mod lease;
mod mutex;
mod once_cell;
mod once_cell_store;
mod options;
mod outage;
mod own_operations;
mod reentrant;
mod reentrant_contract;
mod reentrant_scope;
mod rwlock;
mod semaphore;
mod semaphore_contract;
mod semaphore_lease;
mod semaphore_model;
mod semaphore_order;
mod shutdown;
mod slots;
mod stored;
mod stored_faults;
mod stored_model;
mod support;
mod together;
mod turns;
