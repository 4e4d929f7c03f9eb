//! The record of each operation of a client, whatever its outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::{FencingToken, Instant};
use lock_tests::chaos::history::{Deed, Op, Patience, Recorder, Refusal, Sight, Way};

use super::lease::Lease;

pub(super) struct Journal {
    recorder: Recorder,
    next: AtomicU64,
}

/// An operation. If it is dropped, it is over: given up, or released without waiting.
pub(super) struct Entry<'a> {
    journal: &'a Journal,
    op: Op,
    stage: Stage,
}

enum Stage {
    Asked,
    Has(Arc<Lease>),
    Leaves,
    Over,
}

impl Journal {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, next: AtomicU64::new(0) }
    }

    pub(super) fn record(&self, deed: &Deed) {
        self.recorder.record(deed);
    }

    fn next(&self) -> Op {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Before the request for the lock.
    pub(super) fn ask(&self, task: u32, key: &str, way: Way, patience: Patience) -> Entry<'_> {
        let op = self.next();
        self.record(&Deed::Ask { op, task, key: key.to_owned(), way, patience });
        Entry { journal: self, op, stage: Stage::Asked }
    }

    /// Before the request for the value of a cell.
    pub(super) fn look(&self, task: u32, key: &str) -> Entry<'_> {
        let op = self.next();
        self.record(&Deed::Look { op, task, key: key.to_owned() });
        Entry { journal: self, op, stage: Stage::Asked }
    }

    /// Before the request for a snapshot.
    pub(super) fn peek(&self, task: u32, key: &str) -> Entry<'_> {
        let op = self.next();
        self.record(&Deed::Peek { op, task, key: key.to_owned() });
        Entry { journal: self, op, stage: Stage::Asked }
    }

    /// Before the first version of a stream.
    pub(super) fn follow(&self, task: u32, key: &str) -> Entry<'_> {
        let op = self.next();
        self.record(&Deed::Follow { op, task, key: key.to_owned() });
        Entry { journal: self, op, stage: Stage::Asked }
    }

    /// Before the arrival at a barrier.
    pub(super) fn arrive(&self, key: &str, of: u32) -> Entry<'_> {
        let op = self.next();
        self.record(&Deed::Arrive { op, key: key.to_owned(), of });
        Entry { journal: self, op, stage: Stage::Asked }
    }
}

impl Entry<'_> {
    pub(super) fn not(mut self, why: Refusal) {
        self.stage = Stage::Over;
        self.journal.record(&Deed::Not { op: self.op, why });
    }

    pub(super) fn pass(mut self, leads: bool) {
        self.stage = Stage::Over;
        self.record(Deed::Pass { op: self.op, leads });
    }

    pub(super) fn peeked(mut self, sight: Sight) {
        self.stage = Stage::Over;
        self.record(Deed::Peeked { op: self.op, sight });
    }

    pub(super) fn heard(&self, sight: Sight) {
        self.record(Deed::Heard { op: self.op, sight });
    }

    pub(super) fn unfollow(mut self) {
        self.stage = Stage::Over;
        self.record(Deed::Unfollow { op: self.op });
    }

    pub(super) fn found(&self, sight: Sight) {
        self.record(Deed::Found { op: self.op, sight });
    }

    /// Before a value is stored.
    pub(super) fn store(&self, value: u64, base: u64) {
        self.record(Deed::Store { op: self.op, value, base });
    }

    /// The store has answered whether the lock was still held; `None` if it has not.
    pub(super) fn stored(&self, version: FencingToken, answer: Option<bool>) {
        let op = self.op;
        self.record(match answer {
            Some(true) => Deed::Stored { op, version },
            Some(false) => Deed::Unstored { op, why: Refusal::Lost, certain: true },
            None => Deed::Unstored { op, why: super::traffic::failed(), certain: false },
        });
    }

    pub(super) fn make(&self) {
        self.record(Deed::Make { op: self.op });
    }

    pub(super) fn made(&self, value: u64) {
        self.record(Deed::Made { op: self.op, value: Some(value) });
    }

    pub(super) fn saw(mut self, value: u64) {
        self.stage = Stage::Over;
        self.record(Deed::Saw { op: self.op, value: Some(value) });
    }

    pub(super) fn got(&mut self, token: FencingToken, lease: &Arc<Lease>) {
        self.stage = Stage::Has(Arc::clone(lease));
        self.record(Deed::Got { op: self.op, token, valid_until: lease.valid_until() });
    }

    pub(super) fn still(&self) {
        let at = self.journal.recorder.now();
        let deed = Deed::Still { op: self.op, valid_until: self.valid_until() };
        self.journal.recorder.record_at(at, &deed);
    }

    pub(super) fn lost(&self) {
        self.record(Deed::Lost { op: self.op });
    }

    pub(super) fn wrote(&self, token: FencingToken, accepted: bool) {
        self.record(Deed::Wrote { op: self.op, token, accepted, valid_until: self.valid_until() });
    }

    pub(super) fn turn(&self, way: Way, patience: Patience) {
        let valid_until = self.valid_until();
        self.record(Deed::Turn { op: self.op, way, patience, valid_until });
    }

    /// The conversion succeeded or failed.
    pub(super) fn turned(&self, outcome: Result<FencingToken, Refusal>) {
        self.record(match outcome {
            Ok(token) => Deed::Turned { op: self.op, token, valid_until: self.valid_until() },
            Err(why) => Deed::Kept { op: self.op, why },
        });
    }

    /// Before the release.
    pub(super) fn leave(&mut self) {
        self.record(Deed::Leave { op: self.op, valid_until: self.valid_until() });
        self.stage = Stage::Leaves;
    }

    pub(super) fn left(mut self, confirmed: bool) {
        self.stage = Stage::Over;
        self.record(Deed::Left { op: self.op, confirmed, why: None });
    }

    pub(super) fn valid_until(&self) -> Instant {
        match &self.stage {
            Stage::Has(lease) => lease.valid_until(),
            _ => self.journal.recorder.now(),
        }
    }

    fn record(&self, deed: Deed) {
        self.journal.record(&deed);
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if let Stage::Has(_) = self.stage {
            self.leave();
        }
        match self.stage {
            Stage::Asked => self.record(Deed::Not { op: self.op, why: Refusal::GivenUp }),
            Stage::Leaves => {
                self.record(Deed::Left { op: self.op, confirmed: false, why: None });
            }
            Stage::Has(_) | Stage::Over => {}
        }
    }
}
