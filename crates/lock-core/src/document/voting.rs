//! Votes for a quorum, which are leases with tokens that the quorum numbers.

use super::entry::Document;
use super::visit::{Party, Visit};
use crate::{Acquire, AcquireOutcome, Ballot, Claim, Error, ErrorKind, FencingToken, Instant};
use crate::{OwnerTag, Result, Vote};

impl<P: Party> Document<P> {
    /// Grants the lease of a ballot, or names the holder that is in the way. A vote has no place in the queue: if the
    /// claim had a place, the vote gives it up.
    ///
    /// The store itself compares its record with the standing that the ballot [expects](Ballot::expects), and never
    /// calls this method if they differ.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for permits. Else those of [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::document::{Audience, Document, Party, Visit};
    /// # use lock_core::{Acquire, Ballot, Claim, FencingToken, Hint, Instant, Key, OwnerToken, Ttl, Vote};
    /// # #[derive(Clone, Debug)]
    /// # struct Client;
    /// # impl Party for Client {
    /// #     fn is(&self, _: &Self) -> bool {
    /// #         true
    /// #     }
    /// # }
    /// # struct Deaf;
    /// # impl Audience<Client> for Deaf {
    /// #     fn reach(&self, _: &Client) -> bool {
    /// #         false
    /// #     }
    /// #     fn tell(&mut self, _: &Client, _: Hint) {}
    /// #     fn tell_all(&mut self, _: &Client, _: Hint) -> u32 {
    /// #         0
    /// #     }
    /// # }
    /// # fn main() -> lock_core::Result<()> {
    /// let (now, mut audience) = (Instant::from_nanos(0), Deaf);
    /// let claim = Claim::exclusive(Key::new("a")?, OwnerToken::generate()?);
    /// let (wanted, next) = (FencingToken::new(70), FencingToken::new(71));
    ///
    /// let mut document = Document::default();
    /// let ballot = Ballot::new(Acquire::new(claim.clone(), Ttl::DEFAULT), wanted);
    /// let vote = document.vote(&ballot, &mut Visit::new(&Client, now, now, &mut audience))?;
    /// let Vote::Granted(grant) = vote else { panic!("the key is free") };
    /// assert_eq!(grant.tokens.last(), wanted);
    ///
    /// // The quorum has counted further than this node.
    /// assert!(document.confirm(&claim, next, now));
    /// assert!(!document.confirm(&claim, wanted, now));
    /// # Ok(())
    /// # }
    /// ```
    pub fn vote(&mut self, ballot: &Ballot, visit: &mut Visit<'_, P>) -> Result<Vote, Error> {
        if ballot.request.claim.mode.counts() {
            let message = "permits are not voted on: majorities that overlap can give out too many";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let request = &Acquire { queue: false, ..ballot.request.clone() };
        visit.floor = Some(ballot.floor);
        self.queue.leave(&request.claim);
        Ok(match self.acquire(request, visit)? {
            AcquireOutcome::Granted(grant) => Vote::Granted(grant),
            AcquireOutcome::Busy { retry_after } | AcquireOutcome::Queued { retry_after } => {
                Vote::Busy { holder: self.first_holder(), retry_after }
            }
        })
    }

    /// Raises the counter to a token, if the claim holds the key and no higher token was given out. Returns whether
    /// that was so.
    ///
    /// The [example](Self::vote) of a vote confirms a token.
    pub fn confirm(&mut self, claim: &Claim, token: FencingToken, now: Instant) -> bool {
        self.leases.drop_expired(now);
        self.leases.has(claim.owner, claim.mode) && self.fence.confirm(token)
    }

    /// The owner whose lease ends last, or the first waiter if there is no lease.
    fn first_holder(&self) -> Option<OwnerTag> {
        let leases = self.leases.as_slice().iter();
        // The tag decides between leases that end at one instant.
        let last = leases.map(|lease| (lease.ends, lease.owner.tag())).max();
        let first = || self.queue.first().map(|slot| slot.owner.tag());
        last.map(|(_, tag)| tag).or_else(first)
    }
}
