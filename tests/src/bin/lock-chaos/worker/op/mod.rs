//! One operation from asking to letting go, written down whatever becomes of it.
//!
//! ```text
//!   Asking ──got──► Holding ──turn──► Turning ──► Holding ──let go──► Ending
//!      │ not            │                │                              │
//!      ▼                └── if dropped ──┴──────────────────────────────┤
//!   Not                                                                 ▼
//!                                                                      Left
//! ```
//!
//! Each of them ends the operation if it is dropped: a task may be ended anywhere. What a task of another
//! [era](super::journal::Era) does is not written down any more.

mod asking;
mod ending;
mod holding;
mod looking;
mod turning;

pub(crate) use asking::Asking;
pub(crate) use holding::{Holding, Permits};
pub(crate) use looking::Looking;
pub(crate) use turning::Turned;

use std::sync::Arc;

use lock_core::{FencingToken, Instant};
use lock_tests::chaos::history::{Deed, Op, Way};

use super::journal::{Calling, Era, Journal};

/// What an operation is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) key: &'static str,
    pub(crate) way: Way,
}

/// An operation that holds something.
#[derive(Clone, Copy, Debug)]
struct Part {
    op: Op,
    subject: Subject,
    token: FencingToken,
}

/// Who writes down what, and since when it has something to say.
#[derive(Clone, Debug)]
struct Scribe {
    journal: Arc<Journal>,
    era: Era,
}

impl Scribe {
    fn new(journal: &Arc<Journal>) -> Self {
        Self { era: journal.era(), journal: Arc::clone(journal) }
    }

    /// Writes down the same of several operations, as one that happened at one time.
    fn record(&self, at: Instant, deeds: impl Iterator<Item = Deed>) {
        deeds.for_each(|deed| self.journal.record_at(self.era, at, &deed));
    }

    fn now(&self) -> Instant {
        self.journal.now()
    }

    /// A call for these begins, and lasts until what it returns is dropped.
    fn calls(&self, parts: &[Part]) -> Option<Calling> {
        parts.first().map(|part| self.journal.calls(part.op, part.subject.key))
    }
}
