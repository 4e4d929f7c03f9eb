//! Reading the value of a stored mutex without the lock.

use std::sync::Arc;

use lock_sync::Snapshot;
use lock_tests::chaos::history::{Deed, Op, Refusal, Sight};

use super::Scribe;
use crate::worker::journal::{Calling, Journal};
use crate::worker::pages::Page;

/// A call for a snapshot, or a stream of versions. Dropping this gives it up.
#[derive(Debug)]
pub(crate) struct Reading {
    scribe: Scribe,
    op: Op,
    is_over: bool,
    _calling: Option<Calling>,
}

impl Reading {
    /// Asks for a snapshot.
    pub(crate) fn peek(journal: &Arc<Journal>, task: u32, key: &'static str) -> Self {
        let op = journal.number();
        let calling = Some(journal.calls(op, key));
        Self::begin(journal, calling, op, Deed::Peek { op, task, key: key.to_owned() })
    }

    /// Follows the versions.
    pub(crate) fn follow(journal: &Arc<Journal>, task: u32, key: &'static str) -> Self {
        let op = journal.number();
        Self::begin(journal, None, op, Deed::Follow { op, task, key: key.to_owned() })
    }

    fn begin(journal: &Arc<Journal>, calling: Option<Calling>, op: Op, deed: Deed) -> Self {
        let reading = Self { scribe: Scribe::new(journal), op, is_over: false, _calling: calling };
        reading.record(deed);
        reading
    }

    /// The snapshot is there.
    pub(crate) fn peeked(mut self, snapshot: &Snapshot<Page>) {
        self.is_over = true;
        self.record(Deed::Peeked { op: self.op, sight: sight(snapshot) });
    }

    /// The stream told of a version.
    pub(crate) fn heard(&self, snapshot: &Snapshot<Page>) {
        self.record(Deed::Heard { op: self.op, sight: sight(snapshot) });
    }

    /// The task follows the stream no longer.
    pub(crate) fn unfollow(mut self) {
        self.is_over = true;
        self.record(Deed::Unfollow { op: self.op });
    }

    pub(crate) fn not(mut self, why: Refusal) {
        self.is_over = true;
        self.record(Deed::Not { op: self.op, why });
    }

    fn record(&self, deed: Deed) {
        self.scribe.record(self.scribe.now(), [deed].into_iter());
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.is_over {
            self.record(Deed::Not { op: self.op, why: Refusal::GivenUp });
        }
    }
}

fn sight(snapshot: &Snapshot<Page>) -> Sight {
    Sight { version: snapshot.version, value: snapshot.value.number }
}
