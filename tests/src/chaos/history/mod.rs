//! What happened, written down by those to whom it happened.
//!
//! Each client appends to a file of its own, one write for each event, so that what it wrote before it was
//! killed is there. All stamp events with [`Clock::boot`](lock_core::Clock::boot), one clock for all processes
//! of the machine, so that the files can be merged.

mod event;
mod file;
mod words;

pub use event::{Deed, Event, Op, Patience, Refusal, Way};
pub use file::{Recorder, read};
