//! Votes for a quorum, which are leases with tokens that the quorum numbers.

use std::num::NonZeroU32;

use super::super::leases::Lease;
use super::super::post::Post;
use super::super::visit::Visit;
use super::Entry;
use crate::{Acquire, Attempt, Claim, FencingToken, Instant, OwnerTag, Result, Vote};

impl Entry {
    /// Grants the request, or says who is in the way. Nobody is queued, and who had a place in the queue
    /// has given it up.
    pub(in super::super) fn vote(
        &mut self,
        request: &Acquire,
        visit: &Visit<'_>,
        limit: NonZeroU32,
        post: &mut Post,
    ) -> Result<Vote> {
        let request = &Acquire { queue: false, ..request.clone() };
        if request.from.is_none() {
            self.queue.leave(&request.claim);
        }
        Ok(match self.acquire(request, visit, limit, post)? {
            Attempt::Granted(grant) => Vote::Granted(grant),
            Attempt::Busy { retry_after } | Attempt::Queued { retry_after } => {
                Vote::Busy { holder: self.in_the_way_of(request), retry_after }
            }
        })
    }

    /// Goes on above a token, if the claim holds the key and nobody was given a higher one.
    pub(in super::super) fn confirm(
        &mut self,
        claim: &Claim,
        token: FencingToken,
        now: Instant,
    ) -> bool {
        self.leases.drop_expired(now);
        self.leases.has(claim.owner, claim.mode) && self.fence.confirm(token)
    }

    /// Of those who hold the key the one whose lease ends last, but not the lease that is to be
    /// converted; if nobody does, the first in line.
    fn in_the_way_of(&self, request: &Acquire) -> Option<OwnerTag> {
        let is_other = |lease: &&Lease| {
            request.from.is_none_or(|from| (lease.owner, lease.mode) != (request.claim.owner, from))
        };
        let others = self.leases.as_slice().iter().filter(is_other);
        // The tag decides between leases that end at once.
        let last = others.map(|lease| (lease.ends, lease.owner.tag())).max();
        let first = || self.queue.first().map(|slot| slot.owner.tag());
        last.map(|(_, tag)| tag).or_else(first)
    }
}
