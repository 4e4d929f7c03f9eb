//! The release of an operation.

use lock_core::Instant;
use lock_sync::{LossReason, ReleaseError};
use lock_tests::chaos::history::{Deed, Refusal};

use super::{Part, Scribe};
use crate::worker::refusal::Denial;

/// A holder that releases, and may wait for the store. It has left when this is dropped.
#[derive(Debug)]
pub(super) struct Ending {
    scribe: Scribe,
    parts: Vec<Part>,
    confirmed: bool,
    /// The other answer of the store.
    why: Option<Refusal>,
}

impl Ending {
    /// Records the release at this time, if the guard was valid until then.
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

    /// The store has released together with another request.
    pub(super) fn confirmed(mut self) {
        self.confirmed = true;
    }

    /// The store has answered, unless the holder did not wait.
    pub(super) fn released(mut self, answer: Option<Result<(), ReleaseError>>) {
        self.confirmed = match &answer {
            Some(Ok(())) => true,
            // On the holder's clock a lease ends a little before the store's.
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
