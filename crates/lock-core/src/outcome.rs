//! The answers of a backend.

use std::time::Duration;

use crate::{Error, Instant, LoadedValue, TokenRange};

/// The answer to a request for a lease. Contention is an answer, not an error.
///
/// The [example](crate::Claim#examples) of a claim shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "an ignored grant holds the lock until its lease ends"]
pub enum AcquireOutcome {
    /// The lease is held.
    Granted(Grant),
    /// Another owner holds the key, or another claim comes first.
    Busy {
        /// When the present lease ends unless it is renewed; `None` if it has no end.
        retry_after: Option<Duration>,
    },
    /// The key was not granted, and this claim has a place in the store's queue.
    ///
    /// Only a request with [`queue`](crate::Acquire::queue) set, from a client that watches the key, gets this
    /// answer. The client keeps the place by repeating the request in time, and gives it up by releasing
    /// the claim. When the claim is granted, the watch says so with
    /// [`Hint::Granted`](crate::Hint::Granted). If that hint is lost, the repeated request returns the grant.
    Queued {
        /// When to ask again if no hint has come until then.
        retry_after: Option<Duration>,
    },
}

/// A lease that was granted.
///
/// The [example](crate::Claim#examples) of a claim shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The fencing tokens of the lease.
    pub tokens: TokenRange,
    /// The last instant, on the backend's clock, at which the holder may rely on the lease. Dated
    /// from before the request was sent.
    pub valid_until: Instant,
    /// Whether other claims wait for the key.
    pub contention: Contention,
    /// The value beside the lock, as the holder would [load it](crate::CellBackend::load_under), if the request
    /// [asked for it](crate::Acquire::value) and the store has brought it. `None` says nothing about the value.
    pub value: Option<LoadedValue>,
}

impl Grant {
    /// A grant whose contention is unknown, and which brings no value.
    pub fn new(tokens: TokenRange, valid_until: Instant) -> Self {
        Self { tokens, valid_until, contention: Contention::Unknown, value: None }
    }

    /// This grant with a known contention.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Clock, Contention, FencingToken, Grant, LoadedValue, TokenRange, Ttl};
    ///
    /// let tokens = TokenRange::single(FencingToken::new(7));
    /// let grant = Grant::new(tokens, Ttl::DEFAULT.valid_until(Clock::boot().now()))
    ///     .with_contention(Contention::Quiet)
    ///     .bringing(LoadedValue::new(None));
    /// assert_eq!(grant.contention, Contention::Quiet);
    /// ```
    #[must_use]
    pub fn with_contention(mut self, contention: Contention) -> Self {
        self.contention = contention;
        self
    }

    /// This grant with what its holder would load.
    #[must_use]
    pub fn bringing(mut self, value: LoadedValue) -> Self {
        self.value = Some(value);
        self
    }
}

/// Whether other claims wait for a key that is held.
///
/// It is a field of a [`Grant`]. The [example](crate::Claim#examples) of a claim shows one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Contention {
    /// The store does not know, or could not tell the holder of a change.
    #[default]
    Unknown,
    /// No claim waits. When that changes, the holder's watch says [`Hint::Contended`](crate::Hint::Contended).
    Quiet,
    /// Another claim has a place in the queue.
    Contended,
}

/// The answer to a request to renew a lease.
///
/// The [example](crate::Claim#examples) of a claim shows it.
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
        /// Further tokens for the holder, above all its former tokens, if it asked for some.
        tokens: Option<TokenRange>,
        /// Whether other claims wait for the key.
        contention: Contention,
    },
    /// The store says that the lease is over: it expired, it was deleted, or another owner has the key.
    Lost,
    /// There is no answer to rely on. The old deadline still stands, and so does the lease.
    Unknown(Error),
}

impl Renewal {
    /// A renewal that moved the deadline, and nothing else.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Clock, Renewal, Ttl};
    ///
    /// let renewal = Renewal::until(Ttl::DEFAULT.valid_until(Clock::boot().now()));
    /// assert!(matches!(renewal, Renewal::Renewed { tokens: None, .. }));
    /// ```
    pub fn until(valid_until: Instant) -> Self {
        Self::Renewed { valid_until, tokens: None, contention: Contention::Unknown }
    }
}

/// The answer to a release.
///
/// The [example](crate::Claim#examples) of a claim shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease was held, and has now ended.
    Freed {
        /// How many other clients heard of the release. They may wait for the key outside the queue, where the next
        /// request may overtake them. A hint: zero if the store cannot know.
        told: u32,
    },
    /// There was nothing to release: the lease had ended, or never began.
    NotHeld,
}
