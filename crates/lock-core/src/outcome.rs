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
    /// Somebody else holds the key.
    Busy {
        /// When the present lease ends unless it is renewed; `None` if it has no end.
        retry_after: Option<Duration>,
    },
    /// Somebody else holds the key, and this claim has a place in the store's queue.
    ///
    /// Only ever the answer to a request with [`queue`](crate::Acquire::queue) set. The place is
    /// given up by releasing the claim; a [`Hint::Granted`](crate::Hint::Granted) says that
    /// repeating the request will find it granted.
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
}

impl Grant {
    /// A grant.
    pub fn new(tokens: TokenRange, valid_until: Instant) -> Self {
        Self { tokens, valid_until }
    }
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
    },
    /// The store says that the lease is over: it expired, was deleted, or somebody else has the key.
    Lost,
    /// No answer that can be relied on. The old deadline still stands, and so does the lease.
    Unknown(Error),
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease was held and is no more.
    Freed {
        /// Whether somebody was told about it who may be waiting for the key. A hint.
        contended: bool,
    },
    /// There was nothing to release: the lease had ended, or never began.
    NotHeld,
}
