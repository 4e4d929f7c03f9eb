//! The value beside a lock.

use std::sync::Arc;

use super::super::connection::Connection;
use super::super::post::Post;
use super::Entry;
use crate::{
    Acquire, AcquireOutcome, Cell, Claim, Committed, FencingToken, Hint, Instant, LoadedValue,
};
use crate::{Mode, OwnerToken, Released, Stored};

/// A value, and the claim and token of its writer.
#[derive(Debug)]
pub(super) struct Kept {
    value: Vec<u8>,
    token: FencingToken,
    writer: OwnerToken,
}

impl Entry {
    /// The value, and whether its writer still holds the key.
    pub(in super::super) fn load(&mut self, now: Instant) -> Option<Cell> {
        self.leases.drop_expired(now);
        let kept = self.kept.as_ref()?;
        let held = self.leases.has(kept.writer, Mode::Exclusive);
        Some(Cell::new(kept.value.clone(), kept.token, held))
    }

    /// Writes or erases the value, if the claim holds the key and no higher token has written.
    pub(in super::super) fn store(
        &mut self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
        client: &Arc<Connection>,
        now: Instant,
        post: &mut Post,
    ) -> Stored {
        self.leases.drop_expired(now);
        let is_later = self.kept.as_ref().is_some_and(|kept| kept.token > token);
        if is_later || !self.leases.has(claim.owner, claim.mode) {
            return Stored::NotHeld;
        }
        let writer = claim.owner;
        self.kept = value.map(|value| Kept { value: value.into(), token, writer });
        self.watchers.tell_all(Hint::Changed, client, post);
        Stored::Written
    }

    /// Writes the value and ends the lease, if the claim holds the key and no higher token has written.
    pub(in super::super) fn commit(
        &mut self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
        client: &Arc<Connection>,
        now: Instant,
        post: &mut Post,
    ) -> Committed {
        match self.store(claim, token, Some(value), client, now, post) {
            Stored::Written => match self.release(claim, client, now, post) {
                Released::Freed { told } => Committed::Done { told },
                Released::NotHeld => Committed::Done { told: 0 },
            },
            Stored::NotHeld => Committed::late(self.load(now).as_ref(), token, value),
        }
    }

    /// What the exclusive holder of the key would load.
    pub(super) fn value(&mut self, now: Instant) -> LoadedValue {
        LoadedValue::new(self.load(now))
    }

    /// The answer to this request, with the value if the request asks for it.
    pub(super) fn with_value(
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
