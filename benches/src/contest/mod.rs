//! All contestants under one rule, in one process and in several.
//!
//! This is the common part of `rwlock` and `semaphore`. They count passes, because there is no hand-over from one
//! holder to the next when several hold at once.

mod processes;
mod tasks;

pub use processes::Processes;
pub use tasks::{Rate, Tasks, in_one_process, summary};

/// The number of rounds, whatever the effort says: there are many tables, and teams take longer than their windows.
const ROUNDS: usize = 5;
