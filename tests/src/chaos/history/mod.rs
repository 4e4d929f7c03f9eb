//! The history of a run, written by its clients.
//!
//! Each client appends to a file of its own, one write for each event, so its events survive a kill. All stamp
//! events with [`Clock::boot`](lock_core::Clock::boot), one clock for all processes of the machine, so the
//! files can be merged.

mod event;
mod file;
mod stored;
mod words;

pub use event::{Deed, Event, Op, Patience, Refusal, Sight, Way};
pub use file::{Recorder, read};
