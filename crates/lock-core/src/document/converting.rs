//! Conversions from one mode to another.

use super::entry::Document;
use super::leases::Lease;
use super::room::when_alone;
use super::visit::{Party, Visit};
use crate::{AcquireOutcome, Convert, Error, ErrorKind, Result};

impl<P: Party> Document<P> {
    /// Converts a lease, gives its upgrade a place in the queue, or says when to ask again.
    ///
    /// The errors are those of [`ConvertBackend::convert`](crate::ConvertBackend::convert). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn convert(
        &mut self,
        request: &Convert,
        visit: &mut Visit<'_, P>,
    ) -> Result<AcquireOutcome> {
        request.check()?;
        self.drop_ended(visit.now);
        // A number that was forgotten meanwhile ends no lease.
        self.use_until(request.request.claim.mode, visit.now + request.request.ttl.duration());
        if let Some(grant) = self.repeat(&request.request, visit) {
            return Ok(AcquireOutcome::Granted(grant));
        }
        if request.is_upgrade() {
            self.upgrade(request, visit)
        } else {
            self.weaken(request, visit)
        }
    }

    /// Converts a lease to a weaker mode. Then grants the key to the claims at the head of the queue for which
    /// there is room now.
    fn weaken(&mut self, request: &Convert, visit: &mut Visit<'_, P>) -> Result<AcquireOutcome> {
        let grant = self.turn(request, visit)?.grant(visit);
        self.serve(None, visit);
        Ok(AcquireOutcome::Granted(grant.with_contention(self.contention(visit))))
    }

    /// Makes an upgradable lease exclusive once it is the only lease on the key. The upgrade comes before every claim
    /// in the queue.
    fn upgrade(&mut self, convert: &Convert, visit: &mut Visit<'_, P>) -> Result<AcquireOutcome> {
        let Convert { request, from } = convert;
        let owner = request.claim.owner;
        self.leases.find(owner, *from).ok_or_else(not_held)?;
        let alone = when_alone(self.leases.as_slice(), owner, *from);
        if alone.is_some() {
            if !request.queue && self.queue.leave_conversion(&request.claim, *from) {
                self.serve(None, visit);
            }
            return self.refuse(alone, (request, Some(*from)), visit);
        }
        self.queue.leave(&request.claim);
        let tokens = self.new_tokens(request.tokens, visit.floor, visit.ticks);
        let lease = self.turn(convert, visit)?;
        lease.tokens = tokens;
        let grant = lease.grant(visit);
        Ok(AcquireOutcome::Granted(grant.with_contention(self.contention(visit))))
    }

    /// Turns the lease in the former mode into the requested lease, which ends no earlier.
    fn turn(&mut self, convert: &Convert, visit: &mut Visit<'_, P>) -> Result<&mut Lease<P>> {
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
