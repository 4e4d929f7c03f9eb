//! Leases that are granted together with those of other keys.

use std::time::Duration;

use super::super::post::Post;
use super::super::room::{Room, last_end};
use super::super::visit::Visit;
use super::Entry;
use crate::{Acquire, Grant, Result};

/// What a request for one of several keys would come to.
pub(in super::super) enum Prospect {
    Granted,
    Refused { retry_after: Option<Duration> },
}

impl Entry {
    /// What the request would come to now, and those who wait having been served.
    pub(in super::super) fn prospect(
        &mut self,
        request: &Acquire,
        visit: &Visit<'_>,
        post: &mut Post,
    ) -> Result<Prospect> {
        let mode = request.claim.mode;
        self.drop_ended(visit.now);
        self.declare_for(request, visit.now)?;
        // Not for the claim itself, even if it waits: it is granted with the others, or not by this.
        self.serve(None, visit.now, post);
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

    /// Grants what has been found to be possible.
    pub(in super::super) fn grant_now(&mut self, request: &Acquire, visit: &Visit<'_>) -> Grant {
        match self.repeat(request, visit) {
            Some(grant) => grant,
            None => self.grant(request, visit),
        }
    }
}
