//! What a backend answers.

use std::time::Duration;

use crate::{Error, Instant, TokenRange};

/// The answer to a request for a lease. Contention is an answer, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a grant that nobody looks at holds the lock until its lease ends"]
pub enum Attempt {
    /// The lease is held.
    Granted(Grant),
    /// Somebody else holds the key, or comes first.
    Busy {
        /// When the present lease ends unless it is renewed; `None` if it has no end.
        retry_after: Option<Duration>,
    },
    /// Somebody else holds the key, and this claim has a place in the store's queue.
    ///
    /// Only ever the answer to a request with [`queue`](crate::Acquire::queue) set, of a client that
    /// watches the key. The place is kept by repeating the request in time and given up by releasing
    /// the claim. When it is granted, the watch says so with
    /// [`Hint::Granted`](crate::Hint::Granted); if that is lost, repeating the request finds out.
    Queued {
        /// When to ask again if no hint has come until then.
        retry_after: Option<Duration>,
    },
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The fencing tokens of the lease.
    pub tokens: TokenRange,
    /// The last instant, on the backend's clock, at which the holder may rely on the lease. Dated
    /// from before the request was sent.
    pub valid_until: Instant,
    /// Whether others wait for the key.
    pub demand: Demand,
}

impl Grant {
    /// A grant. Nothing is said about the demand.
    pub fn new(tokens: TokenRange, valid_until: Instant) -> Self {
        Self { tokens, valid_until, demand: Demand::Unknown }
    }

    /// The same, and what is known about the demand.
    #[must_use]
    pub fn in_demand(mut self, demand: Demand) -> Self {
        self.demand = demand;
        self
    }
}

/// Whether others wait for a lease that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Demand {
    /// The store does not know, or could not tell the holder if it changed.
    #[default]
    Unknown,
    /// Nobody does. When that changes, the holder's watch says [`Hint::Wanted`](crate::Hint::Wanted).
    Quiet,
    /// Somebody has a place in the queue.
    Wanted,
}

/// The answer to a request to renew a lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use = "only `Renewed` moves the deadline"]
pub enum Renewal {
    /// Still held, but the deadline has not moved.
    Held,
    /// Held, with a new deadline, dated from before the request was sent.
    Renewed {
        /// The new deadline.
        valid_until: Instant,
        /// Further tokens for the holder, above all that it has, if it asked for some.
        tokens: Option<TokenRange>,
        /// Whether others wait for the key.
        demand: Demand,
    },
    /// The store says that the lease is over: it expired, was deleted, or somebody else has the key.
    Lost,
    /// No answer that can be relied on. The old deadline still stands, and so does the lease.
    Unknown(Error),
}

impl Renewal {
    /// A renewal that moved the deadline, and nothing else.
    pub fn until(valid_until: Instant) -> Self {
        Self::Renewed { valid_until, tokens: None, demand: Demand::Unknown }
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease was held and is no more.
    Freed {
        /// Whether somebody was told about it who may be waiting for the key outside the queue, and
        /// whom the next request may overtake. A hint.
        contended: bool,
    },
    /// There was nothing to release: the lease had ended, or never began.
    NotHeld,
}
