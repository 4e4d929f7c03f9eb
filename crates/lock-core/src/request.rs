//! What is asked of a backend.

use std::num::NonZeroU32;

use crate::{Key, OwnerToken, Ttl};

/// How many may hold a key at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder, alone.
    Exclusive,
    /// Any number of holders, and no exclusive one.
    Shared,
    /// `take` of the `of` permits that the key has in all.
    Permits {
        /// How many permits this lease takes.
        take: u32,
        /// How many permits exist: the same number in every request for a key.
        of: u32,
    },
}

/// One lease: which key, whose, and how held.
///
/// It names the lease in every verb. The same claim twice is the same lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub key: Key,
    /// The proof of ownership.
    pub owner: OwnerToken,
    /// How it is held.
    pub mode: Mode,
}

impl Claim {
    /// A claim to hold `key` alone.
    pub fn exclusive(key: Key, owner: OwnerToken) -> Self {
        Self { key, owner, mode: Mode::Exclusive }
    }

    /// The same claim in another mode.
    #[must_use]
    pub fn in_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// A request for a lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acquire {
    /// What is to be held, and by whom.
    pub claim: Claim,
    /// How long the lease lives without renewal.
    pub ttl: Ttl,
    /// How many fencing tokens the grant should reserve: see [`TokenRange`](crate::TokenRange).
    /// A grant may bring fewer.
    pub tokens: NonZeroU32,
    /// Whether to join the queue of the store, if it has one, when the request is refused.
    pub queue: bool,
}

impl Acquire {
    /// A request for one fencing token, not to be queued.
    pub fn new(claim: Claim, ttl: Ttl) -> Self {
        Self { claim, ttl, tokens: NonZeroU32::MIN, queue: false }
    }

    /// Asks for a range of `tokens`.
    #[must_use]
    pub fn reserving(mut self, tokens: NonZeroU32) -> Self {
        self.tokens = tokens;
        self
    }

    /// Asks to be queued when refused.
    #[must_use]
    pub fn queued(mut self) -> Self {
        self.queue = true;
        self
    }
}
