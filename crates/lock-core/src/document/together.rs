//! Leases that are granted together with those of other keys.

use std::time::Duration;

use super::entry::Document;
use super::room::{Room, last_end};
use super::visit::{Party, Visit};
use crate::{Acquire, Grant, Result};

/// The expected outcome of a request for one of several keys.
pub(crate) enum Prospect {
    Granted,
    Refused { retry_after: Option<Duration> },
}

impl<P: Party> Document<P> {
    /// Serves the queue, and returns the expected outcome of the request.
    pub(crate) fn prospect(
        &mut self,
        request: &Acquire,
        visit: &mut Visit<'_, P>,
    ) -> Result<Prospect> {
        let mode = request.claim.mode;
        self.drop_ended(visit.now);
        self.declare_for(request, visit.now)?;
        // `None`: the claim itself may wait here, but this request grants it only together with the other claims.
        self.serve(None, visit);
        if self.leases.has(request.claim.owner, mode) {
            return Ok(Prospect::Granted);
        }
        self.admit(mode)?;
        if self.leases.group().is_some_and(|(group, _)| group == mode) {
            return Ok(Prospect::Granted);
        }
        let free = match self.room(mode) {
            Room::Now if self.queue.is_empty() => return Ok(Prospect::Granted),
            Room::Now => last_end(self.leases.as_slice()),
            Room::Later(free) => free,
        };
        let retry_after = free.map(|at| at.saturating_duration_since(visit.now));
        Ok(Prospect::Refused { retry_after })
    }

    /// Grants a request whose [prospect](Self::prospect) is a grant.
    pub(crate) fn grant_now(&mut self, request: &Acquire, visit: &mut Visit<'_, P>) -> Grant {
        match self.repeat(request, visit) {
            Some(grant) => grant,
            None => self.grant(request, visit),
        }
    }
}
