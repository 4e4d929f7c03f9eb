//! The value beside a lock.

use super::entry::Document;
use super::visit::{Party, Visit};
use crate::{
    Acquire, AcquireOutcome, Cell, Claim, Committed, FencingToken, Hint, Instant, LoadedValue,
};
use crate::{Mode, OwnerToken, Released, Stored};

/// A value, and the claim and token of its writer.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) value: Vec<u8>,
    pub(crate) token: FencingToken,
    pub(crate) writer: OwnerToken,
}

impl<P: Party> Document<P> {
    /// The value, and whether its writer still holds the key.
    ///
    /// The errors are those of [`CellBackend::load`](crate::CellBackend::load). The [example](Document#examples) of a
    /// document shows a verb.
    pub fn load(&mut self, now: Instant) -> Option<Cell> {
        self.leases.drop_expired(now);
        let kept = self.kept.as_ref()?;
        let held = self.leases.has(kept.writer, Mode::Exclusive);
        Some(Cell::new(kept.value.clone(), kept.token, held))
    }

    /// Writes or erases the value, if the claim holds the key and no higher token has written.
    ///
    /// The errors are those of [`CellBackend::store`](crate::CellBackend::store). The [example](Document#examples) of a
    /// document shows a verb.
    pub fn store(
        &mut self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
        visit: &mut Visit<'_, P>,
    ) -> Stored {
        self.leases.drop_expired(visit.now);
        let is_later = self.kept.as_ref().is_some_and(|kept| kept.token > token);
        if is_later || !self.leases.has(claim.owner, claim.mode) {
            return Stored::NotHeld;
        }
        let writer = claim.owner;
        self.kept = value.map(|value| Kept { value: value.into(), token, writer });
        visit.audience.tell_all(visit.client, Hint::Changed);
        Stored::Written
    }

    /// Writes the value and ends the lease, if the claim holds the key and no higher token has written.
    ///
    /// The errors are those of [`CellBackend::commit`](crate::CellBackend::commit). The [example](Document#examples) of
    /// a document shows a verb.
    pub fn commit(
        &mut self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
        visit: &mut Visit<'_, P>,
    ) -> Committed {
        match self.store(claim, token, Some(value), visit) {
            Stored::Written => match self.release(claim, visit) {
                Released::Freed { told } => Committed::Done { told },
                Released::NotHeld => Committed::Done { told: 0 },
            },
            Stored::NotHeld => Committed::late(self.load(visit.now).as_ref(), token, value),
        }
    }

    /// What the exclusive holder of the key would load.
    pub(crate) fn value(&mut self, now: Instant) -> LoadedValue {
        LoadedValue::new(self.load(now))
    }

    /// The answer to this request, with the value if the request asks for it.
    pub(crate) fn with_value(
        &mut self,
        request: &Acquire,
        attempt: AcquireOutcome,
        now: Instant,
    ) -> AcquireOutcome {
        match attempt {
            AcquireOutcome::Granted(grant) if request.value => {
                AcquireOutcome::Granted(grant.bringing(self.value(now)))
            }
            other => other,
        }
    }
}
