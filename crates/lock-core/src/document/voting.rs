//! Votes for a quorum, which are leases with tokens that the quorum numbers.

use super::entry::Document;
use super::visit::{Party, Visit};
use crate::{Acquire, AcquireOutcome, Claim, FencingToken, Instant, OwnerTag, Result, Vote};

impl<P: Party> Document<P> {
    /// Grants the request, or names the holder that is in the way. Queues no request. If the claim had a place
    /// in the queue, it gives that place up.
    pub(crate) fn vote(&mut self, request: &Acquire, visit: &mut Visit<'_, P>) -> Result<Vote> {
        let request = &Acquire { queue: false, ..request.clone() };
        self.queue.leave(&request.claim);
        Ok(match self.acquire(request, visit)? {
            AcquireOutcome::Granted(grant) => Vote::Granted(grant),
            AcquireOutcome::Busy { retry_after } | AcquireOutcome::Queued { retry_after } => {
                Vote::Busy { holder: self.first_holder(), retry_after }
            }
        })
    }

    /// Raises the counter to a token, if the claim holds the key and no higher token was given out.
    pub(crate) fn confirm(&mut self, claim: &Claim, token: FencingToken, now: Instant) -> bool {
        self.leases.drop_expired(now);
        self.leases.has(claim.owner, claim.mode) && self.fence.confirm(token)
    }

    /// The owner whose lease ends last, or the first waiter if there is no lease.
    fn first_holder(&self) -> Option<OwnerTag> {
        let leases = self.leases.as_slice().iter();
        // The tag decides between leases that end at the same instant.
        let last = leases.map(|lease| (lease.ends, lease.owner.tag())).max();
        let first = || self.queue.first().map(|slot| slot.owner.tag());
        last.map(|(_, tag)| tag).or_else(first)
    }
}
