//! Everybody under one rule: in one process, and in several.
//!
//! What `rwlock` and `semaphore` have in common. What counts is passes, since there is no hand-over from
//! one holder to the next where several hold at once.

mod processes;
mod tasks;

pub use processes::Processes;
pub use tasks::{Rate, Tasks, in_one_process, summary};

/// Rounds, however many there are to be: there are many tables, and teams take longer than their windows.
const ROUNDS: usize = 5;
