//! The errors that all backends share.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The result of an operation on a backend.
///
/// The [example](Error#examples) of an error shows one.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a backend, or input that it refuses.
///
/// Contention is not an error: a held lock is an [`AcquireOutcome::Busy`](crate::AcquireOutcome::Busy).
///
/// The type is opaque and cheap to clone. Branch on [`kind`](Self::kind) or
/// [`is_retryable`](Self::is_retryable). The message is for people. No message contains a password or an
/// owner token.
///
/// # Examples
///
/// ```
/// use lock_core::{Error, ErrorKind};
///
/// let cause = std::io::Error::other("broken pipe");
/// let error = Error::with_source(ErrorKind::Unreachable, "no connection to the store", cause);
/// assert!(error.is_retryable());
/// assert_eq!(error.to_string(), "no connection to the store");
/// ```
#[derive(Clone)]
pub struct Error(Arc<Repr>);

struct Repr {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    retry_after: Option<Duration>,
}

impl Error {
    /// An error of this kind, with a message in lower case and without a trailing full stop.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Repr { kind, message: message.into(), source: None, retry_after: None }))
    }

    /// An error of the kind [`NotReady`](ErrorKind::NotReady), of a store that grants leases again after this time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_core::Error;
    ///
    /// let error = Error::not_before(Duration::from_secs(7), "the store sits out for another 7s");
    /// assert!(error.is_retryable());
    /// assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    /// ```
    pub fn not_before(after: Duration, message: impl Into<Cow<'static, str>>) -> Self {
        let (kind, message) = (ErrorKind::NotReady, message.into());
        Self(Arc::new(Repr { kind, message, source: None, retry_after: Some(after) }))
    }

    /// An error of this kind, with a message and the error that caused it.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let (message, source) = (message.into(), Some(source.into()));
        Self(Arc::new(Repr { kind, message, source, retry_after: None }))
    }

    /// The kind of failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Error, ErrorKind};
    ///
    /// let error = Error::new(ErrorKind::Denied, "the user may not write");
    /// assert_eq!(error.kind(), ErrorKind::Denied);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether a repetition of the request may succeed later without a person's help.
    ///
    /// This does not say whether the failed request took effect. After
    /// [`ErrorKind::Timeout`] or [`ErrorKind::Unreachable`] it may have. Repeat the request with the same
    /// owner token, or release the claim.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }

    /// When a repetition of the request may succeed, counted from the error on, if the store
    /// [says so](Self::not_before).
    ///
    /// The store may be ready earlier, for example because an operator intervenes.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind).field("message", &self.0.message);
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

/// Errors are equal if they have one [kind](Error::kind). The message and the source are for people.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind()
    }
}

impl Eq for Error {}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Lets a conversion that cannot fail, such as from a [`Key`](crate::Key) to itself, stand where a fallible
/// conversion is expected.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// The kinds of [`Error`].
///
/// The [example](Error#examples) of an error shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key is too long, or this backend cannot carry it. Nothing was sent.
    InvalidKey,
    /// The lease time is outside the permitted range. Nothing was sent.
    InvalidTtl,
    /// An option, a URL or a combination of options makes no sense. Nothing was sent.
    InvalidConfig,
    /// This backend does not support the request.
    Unsupported,
    /// There is no connection to the store, or it broke while the request was under way.
    Unreachable,
    /// The store did not answer within the deadline of the request.
    Timeout,
    /// The store is up but cannot serve the request now: loading, busy, read-only, failing over.
    NotReady,
    /// The store has no memory for another lock.
    OutOfMemory,
    /// The credentials are wrong, or the user of the store lacks a right.
    Denied,
    /// The key holds something that is not a lock.
    ForeignKey,
    /// The queue of the key is full.
    QueueFull,
    /// The lease that was to be converted is over.
    NotHeld,
    /// The semaphore was closed, for every client.
    Closed,
    /// An answer that this client does not understand.
    Protocol,
    /// This client is shutting down, or has shut down.
    ShuttingDown,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// See [`Error::is_retryable`].
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Unreachable | Self::Timeout | Self::NotReady | Self::OutOfMemory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_error<E: StdError + Send + Sync + Clone + 'static>() {}

    #[test]
    fn it_is_an_error_like_any_other() {
        is_error::<Error>();
        let inner = Error::new(ErrorKind::Timeout, "no answer within 2s");
        let outer = Error::with_source(ErrorKind::Other, "could not renew", inner);
        assert_eq!(outer.to_string(), "could not renew");
        assert_eq!(outer.source().unwrap().to_string(), "no answer within 2s");
        assert!(!outer.is_retryable());
        assert_eq!(outer, Error::new(ErrorKind::Other, "for another reason"));
        assert_ne!(outer, Error::new(ErrorKind::Timeout, "could not renew"));
    }
}
