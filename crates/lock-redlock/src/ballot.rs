//! Owner tokens of single votes.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use lock_core::{Claim, Instant, OwnerToken};

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

/// The claims whose own token must not be used again, because a ballot with that token was given up.
///
/// The first ballot of a claim has the token of the claim, by which another process can find it. So a claim is
/// remembered here after its first ballot was given up. Every other ballot has a fresh token and needs no memory.
#[derive(Debug)]
pub(crate) struct Spent {
    /// Hashes of the claims. Two claims with one hash get fresh tokens more often than needed.
    young: HashSet<u64>,
    old: HashSet<u64>,
    hasher: RandomState,
    /// A claim is remembered for at least this time, and at most twice as long.
    span: Duration,
    /// When the young grow old.
    turns_at: Instant,
}

impl Spent {
    pub(crate) fn new(span: Duration) -> Self {
        let (young, old, hasher) = Default::default();
        Self { young, old, hasher, span, turns_at: Instant::from_nanos(0) }
    }

    pub(crate) fn add(&mut self, claim: &Claim, now: Instant) {
        if self.turns_at <= now {
            self.old = std::mem::take(&mut self.young);
            self.turns_at = now + self.span;
        }
        self.young.insert(self.hasher.hash_one(claim));
    }

    /// Whether a claim is remembered. A claim that is asked for stays remembered.
    pub(crate) fn has(&mut self, claim: &Claim) -> bool {
        let hash = self.hasher.hash_one(claim);
        self.young.contains(&hash) || self.old.contains(&hash) && self.young.insert(hash)
    }
}
