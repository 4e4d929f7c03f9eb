//! Everybody under one rule: in one process, and in several.
//!
//! What `rwlock` and `semaphore` have in common. What counts is passes, since there is no hand-over from
//! one holder to the next where several hold at once.

mod processes;
mod tasks;

pub use processes::Processes;
pub use tasks::{Rate, Tasks, in_one_process, summary};

/// Rounds, however many there are to be: figures that are small numbers of passes take long.
const ROUNDS: usize = 3;
