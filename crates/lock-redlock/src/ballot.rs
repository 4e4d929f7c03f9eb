//! Owner tokens of single votes.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use lock_core::{Claim, Error, Instant, OwnerToken};

/// What a claim is known by at one node, for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    pub(crate) node: usize,
    pub(crate) owner: OwnerToken,
}

impl Ballot {
    /// An owner token that was never used before. Its tag is that of the claim, by which nodes name the holder.
    pub(crate) fn fresh(of: &OwnerToken) -> Result<OwnerToken, Error> {
        let mut random = bytes(&OwnerToken::generate()?);
        random[..4].copy_from_slice(&bytes(of)[..4]);
        Ok(OwnerToken::from_bytes(random))
    }

    /// The claim as the node knows it.
    pub(crate) fn claim(self, of: &Claim) -> Claim {
        let mut claim = of.clone();
        claim.owner = self.owner;
        claim
    }
}

fn bytes(owner: &OwnerToken) -> [u8; 16] {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    let digits = owner.expose();
    std::array::from_fn(|at| digit(digits[2 * at]) << 4 | digit(digits[2 * at + 1]))
}

/// The claims whose own token must not be used again, because a ballot with that token was given up.
///
/// The first ballot of a claim has the token of the claim, by which another process can find it. So such a claim is to
/// be remembered here. Every other ballot has a fresh token, of which nothing need be known.
#[derive(Debug)]
pub(crate) struct Spent {
    /// Two claims with one hash have fresh tokens more often than they need.
    young: HashSet<u64>,
    old: HashSet<u64>,
    hasher: RandomState,
    /// How long a claim is remembered; or up to twice as long.
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

    /// Whether a claim is remembered. One that is asked for stays so.
    pub(crate) fn has(&mut self, claim: &Claim) -> bool {
        let hash = self.hasher.hash_one(claim);
        self.young.contains(&hash) || self.old.contains(&hash) && self.young.insert(hash)
    }
}
