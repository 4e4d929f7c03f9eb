//! Conversions from one mode to another.

use std::num::NonZeroU32;

use super::super::leases::Lease;
use super::super::post::Post;
use super::super::room::when_alone;
use super::super::visit::Visit;
use super::Entry;
use crate::{AcquireOutcome, Convert, Error, ErrorKind, Result};

impl Entry {
    /// Converts a lease, gives its upgrade a place in the queue, or says when to ask again.
    pub(in super::super) fn convert(
        &mut self,
        request: &Convert,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<AcquireOutcome> {
        request.check()?;
        self.drop_ended(visit.now);
        self.declare_for(&request.request, visit.now)?;
        if let Some(grant) = self.repeat(&request.request, visit) {
            return Ok(AcquireOutcome::Granted(grant));
        }
        if request.is_upgrade() {
            self.upgrade(request, visit, limit, post)
        } else {
            self.weaken(request, visit, post)
        }
    }

    /// Converts a lease to a weaker mode. Then lets in the claims in the queue for which that makes room, and no
    /// claim earlier.
    fn weaken(
        &mut self,
        request: &Convert,
        visit: &Visit<'_>,
        post: &mut Post,
    ) -> Result<AcquireOutcome> {
        let grant = self.turn(request, visit)?.grant(visit);
        self.serve(None, visit.now, post);
        Ok(AcquireOutcome::Granted(grant.with_contention(self.contention(visit.client))))
    }

    /// Makes an upgradable lease exclusive once it is the only one on the key, before every claim in the queue.
    fn upgrade(
        &mut self,
        convert: &Convert,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<AcquireOutcome> {
        let Convert { request, from } = convert;
        let owner = request.claim.owner;
        self.leases.find(owner, *from).ok_or_else(not_held)?;
        let alone = when_alone(self.leases.as_slice(), owner, *from);
        if alone.is_some() {
            if !request.queue && self.queue.leave_conversion(&request.claim, *from) {
                self.serve(None, visit.now, post);
            }
            return self.refuse(alone, (request, Some(*from)), visit, limit, post);
        }
        self.queue.leave(&request.claim);
        let tokens = self.new_tokens(request.tokens, visit.floor);
        let lease = self.turn(convert, visit)?;
        lease.tokens = tokens;
        let grant = lease.grant(visit);
        Ok(AcquireOutcome::Granted(grant.with_contention(self.contention(visit.client))))
    }

    /// Turns the lease in the former mode into the requested lease, which lives no shorter.
    fn turn(&mut self, convert: &Convert, visit: &Visit<'_>) -> Result<&mut Lease> {
        let Convert { request, from } = convert;
        let lease = self.leases.find(request.claim.owner, *from).ok_or_else(not_held)?;
        lease.mode = request.claim.mode;
        lease.extend(request.ttl, visit.now);
        lease.belongs_to(visit.client);
        Ok(lease)
    }
}

fn not_held() -> Error {
    Error::new(ErrorKind::NotHeld, "the lease that was to be converted is over")
}
