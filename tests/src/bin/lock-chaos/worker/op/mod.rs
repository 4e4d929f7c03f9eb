//! One operation from the request to the release, recorded whatever its outcome.
//!
//! ```text
//!   Asking ──got──► Holding ──turn──► Turning ──► Holding ──let go──► Ending
//!      │ not            │                │                              │
//!      ▼                └── if dropped ──┴──────────────────────────────┤
//!   Not                                                                 ▼
//!                                                                      Left
//! ```
//!
//! Dropping one of them ends the operation: a task may be ended anywhere. The acts of a task of another
//! [era](super::journal::Era) are not recorded any more.

mod asking;
mod ending;
mod holding;
mod looking;
mod reading;
mod storing;
mod turning;

pub(crate) use asking::Asking;
pub(crate) use holding::{Holding, Permits};
pub(crate) use looking::Looking;
pub(crate) use reading::Reading;
pub(crate) use turning::Turned;

use std::sync::Arc;

use lock_core::{FencingToken, Instant};
use lock_tests::chaos::history::{Deed, Op, Way};

use super::journal::{Calling, Era, Journal};

/// The subject of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) key: &'static str,
    pub(crate) way: Way,
}

/// An operation with a hold.
#[derive(Clone, Copy, Debug)]
struct Part {
    op: Op,
    subject: Subject,
    token: FencingToken,
}

/// The journal, the operation, and its era.
#[derive(Clone, Debug)]
struct Scribe {
    journal: Arc<Journal>,
    era: Era,
}

impl Scribe {
    fn new(journal: &Arc<Journal>) -> Self {
        Self { era: journal.era(), journal: Arc::clone(journal) }
    }

    /// Records the same for several operations, as one event at one time.
    fn record(&self, at: Instant, deeds: impl Iterator<Item = Deed>) {
        deeds.for_each(|deed| self.journal.record_at(self.era, at, &deed));
    }

    fn now(&self) -> Instant {
        self.journal.now()
    }

    /// A call for these begins, and lasts until the returned value is dropped.
    fn calls(&self, parts: &[Part]) -> Option<Calling> {
        parts.first().map(|part| self.journal.calls(part.op, part.subject.key))
    }
}
