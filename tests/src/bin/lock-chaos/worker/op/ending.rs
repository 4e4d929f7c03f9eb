//! When it is let go of.

use lock_core::Instant;
use lock_sync::{LossReason, ReleaseError};
use lock_tests::chaos::history::{Deed, Refusal};

use super::{Part, Scribe};
use crate::worker::refusal::Denial;

/// Who let go, and waits for the store or does not. It has left when this is dropped.
#[derive(Debug)]
pub(super) struct Ending {
    scribe: Scribe,
    parts: Vec<Part>,
    confirmed: bool,
    /// What the store said instead.
    why: Option<Refusal>,
}

impl Ending {
    /// Says that it lets go at that time, when it was valid until then.
    pub(super) fn begin(
        scribe: Scribe,
        parts: Vec<Part>,
        at: Instant,
        valid_until: Instant,
    ) -> Self {
        scribe.record(at, parts.iter().map(|part| Deed::Leave { op: part.op, valid_until }));
        Self { scribe, parts, confirmed: false, why: None }
    }

    pub(super) fn scribe(&self) -> &Scribe {
        &self.scribe
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The store has answered, unless nobody waited for that.
    pub(super) fn released(mut self, answer: Option<Result<(), ReleaseError>>) {
        self.confirmed = match &answer {
            Some(Ok(())) => true,
            // By the clock of the holder a lease ends a little before the store's.
            Some(Err(ReleaseError::Lost(lost))) => lost.reason() == LossReason::Revoked,
            _ => false,
        };
        self.why = answer.and_then(Result::err).map(|error| error.refusal());
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let confirmed = self.confirmed;
        let left = |part: &Part| Deed::Left { op: part.op, confirmed, why: self.why.clone() };
        self.scribe.record(self.scribe.now(), self.parts.iter().map(left));
    }
}
