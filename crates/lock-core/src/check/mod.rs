//! What an examination of a store finds: one vocabulary for the checks of all stores.
//!
//! Each store has a check of its own, which returns a [`Report`]. `doctor` of lock-any examines the store behind a URL,
//! and adds [what the store promises](Report::promising).

mod clock;
mod promises;
mod rehearsal;
mod report;
mod trouble;

pub use clock::{ClockOffset, Look};
pub use promises::unseen;
pub use rehearsal::{Outcome, Rehearsal};
pub use report::{Examined, Fact, Finding, Findings, Report, Severity};
pub use trouble::Trouble;
