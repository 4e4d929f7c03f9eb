//! The owner tokens of ballots.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use lock_core::{Claim, Instant, OwnerToken};

use crate::swept::Swept;

/// The owner token by which one node knows a claim, for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ballot {
    pub(crate) node: usize,
    pub(crate) owner: OwnerToken,
}

impl Ballot {
    /// The claim as the node knows it.
    pub(crate) fn claim(self, of: &Claim) -> Claim {
        let mut claim = of.clone();
        claim.owner = self.owner;
        claim
    }
}

/// The claims whose own token is spent, because a ballot with that token was given up.
///
/// The first ballots of a claim have the token of the claim, so that another process can find them. Once they were
/// given up, this type remembers the claim. All other ballots have fresh tokens and need no memory.
#[derive(Debug)]
pub(crate) struct Spent {
    /// Hashes of the claims, and until when each claim is remembered. Two claims with one hash get fresh tokens more
    /// often than needed.
    claims: Swept<u64, Instant>,
    hasher: RandomState,
    /// How long a node may have a ballot. A release may be under way for a little longer.
    span: Duration,
}

impl Spent {
    pub(crate) fn new(span: Duration) -> Self {
        Self { claims: Swept::new(), hasher: RandomState::new(), span }
    }

    pub(crate) fn add(&mut self, claim: &Claim, now: Instant) {
        let (name, until) = (self.hasher.hash_one(claim), now + 2 * self.span);
        *self.claims.entry(name, |until| *until <= now, || until) = until;
    }

    pub(crate) fn has(&self, claim: &Claim) -> bool {
        self.claims.get(&self.hasher.hash_one(claim)).is_some()
    }
}
