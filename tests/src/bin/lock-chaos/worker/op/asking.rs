//! An operation before it has a guard.

use std::sync::Arc;

use lock_core::{FencingToken, Instant};
use lock_tests::chaos::history::{Deed, Op, Patience, Refusal, Way};

use super::{Holding, Part, Scribe, Subject};
use crate::worker::grip::Grip;
use crate::worker::journal::{Calling, Journal};

/// An operation that has begun. Dropping this gives it up.
#[derive(Debug)]
pub(crate) struct Asking {
    scribe: Scribe,
    task: u32,
    /// Without their tokens.
    parts: Vec<Part>,
    calling: Option<Calling>,
}

impl Asking {
    /// Requests these locks: all at once, if there are several.
    pub(crate) fn begin(
        journal: &Arc<Journal>,
        task: u32,
        subjects: &[Subject],
        patience: Patience,
    ) -> Self {
        let asking = Self::number(journal, task, subjects);
        let ask = |part: &Part| {
            let Subject { key, way } = part.subject;
            Deed::Ask { op: part.op, task, key: key.to_owned(), way, patience }
        };
        asking.scribe.record(asking.scribe.now(), asking.parts.iter().map(ask));
        asking
    }

    /// Arrives at a barrier for this many owners.
    pub(crate) fn arrive(journal: &Arc<Journal>, task: u32, subject: Subject, of: u32) -> Self {
        let asking = Self::number(journal, task, &[subject]);
        let key = subject.key.to_owned();
        asking.scribe.record(
            asking.scribe.now(),
            asking.parts.iter().map(|part| Deed::Arrive { op: part.op, key: key.clone(), of }),
        );
        asking
    }

    fn number(journal: &Arc<Journal>, task: u32, subjects: &[Subject]) -> Self {
        let scribe = Scribe::new(journal);
        let part = |subject: &Subject| Part {
            op: journal.number(),
            subject: *subject,
            token: FencingToken::new(0),
        };
        let parts: Vec<Part> = subjects.iter().map(part).collect();
        let calling = scribe.calls(&parts);
        Self { scribe, task, parts, calling }
    }

    /// The request was granted.
    pub(crate) fn got<G: Grip>(mut self, guard: G) -> Holding<G> {
        // Before the guard says until when it is valid: so it was valid at this time if it says so.
        let at = self.scribe.now();
        let mut parts = std::mem::take(&mut self.parts);
        let valid_until = self.scribe.journal.dated(guard.lease().valid_until());
        for part in &mut parts {
            part.token = guard.token(part.subject.key);
        }
        let got = |part: &Part| Deed::Got { op: part.op, token: part.token, valid_until };
        self.scribe.record(at, parts.iter().map(got));
        if let Some(key) = guard.slot().filter(|_| at < valid_until) {
            parts.push(self.found(key, guard.token(key), at, valid_until));
        }
        drop(self.calling.take());
        Holding::new(self.scribe.clone(), parts, guard)
    }

    /// Only now is it known which of several locks was granted. There was no wait for that one, so it
    /// counts as a try.
    fn found(
        &self,
        key: &'static str,
        token: FencingToken,
        at: Instant,
        valid_until: Instant,
    ) -> Part {
        let (op, task, way, patience) =
            (self.scribe.journal.number(), self.task, Way::Write, Patience::None);
        let ask = Deed::Ask { op, task, key: key.to_owned(), way, patience };
        let got = Deed::Got { op, token, valid_until };
        self.scribe.record(at, [ask, got].into_iter());
        Part { op, subject: Subject { key, way }, token }
    }

    /// The barrier opened.
    pub(crate) fn passed(mut self, leads: bool) {
        let passed = |op: Op| Deed::Pass { op, leads };
        let parts = std::mem::take(&mut self.parts);
        self.scribe.record(self.scribe.now(), parts.iter().map(|part| passed(part.op)));
    }

    /// The request was not granted.
    pub(crate) fn not(mut self, why: &Refusal) {
        self.end(why);
    }

    fn end(&mut self, why: &Refusal) {
        let parts = std::mem::take(&mut self.parts);
        let not = |part: &Part| Deed::Not { op: part.op, why: why.clone() };
        self.scribe.record(self.scribe.now(), parts.iter().map(not));
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.end(&Refusal::GivenUp);
    }
}
