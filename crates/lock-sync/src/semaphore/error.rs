//! The errors of a semaphore.

use std::error::Error as StdError;
use std::fmt;

use lock_core::{Error, ErrorKind};

use crate::bare::Denial;
use crate::error::{LockError, TryLockError};

/// Why permits could not be acquired.
///
/// Two errors are equal if they have one variant, and if the backend errors in them have one [kind](Error::kind).
///
/// See [`Semaphore::close`](crate::Semaphore::close) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The semaphore gives out no more permits. [`Semaphore::close`](crate::Semaphore::close) was called on this
    /// handle, [`Semaphore::close_for_all`](crate::Semaphore::close_for_all) on any handle in any process, or
    /// [`Locks::shutdown`](crate::Locks::shutdown) on its locks.
    Closed,
    /// The wait limit was reached.
    ///
    /// If `source` is `Some`, the store had failed or had not answered by then. Otherwise too few permits were
    /// free.
    Timeout {
        /// The last failure of the backend, unless the backend has answered since.
        source: Option<Error>,
    },
    /// The backend failed with an error that is not retryable, or for longer than a lease lives; or it
    /// refused the request, because another number of permits was declared for this name.
    Backend(Error),
}

impl From<Denial> for AcquireError {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Timeout(source) => Self::Timeout { source },
            // Only a try gets `WouldBlock`. No caller gets `Lost`, because no caller enters with present permits, or
            // upgrades them.
            Denial::WouldBlock | Denial::Lost(_) => Self::Timeout { source: None },
            Denial::Closed => Self::Closed,
            Denial::Failed(error) if error.kind() == ErrorKind::Closed => Self::Closed,
            Denial::Failed(error) => Self::Backend(error),
        }
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => CLOSED,
            Self::Timeout { .. } => "too few permits were free within the wait limit",
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for AcquireError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::Closed => None,
            Self::Backend(source) => Some(source),
        }
    }
}

/// Why permits could not be acquired at once.
///
/// Two errors are equal if they have one variant, and if the backend errors in them have one [kind](Error::kind).
///
/// The [example](crate::Semaphore#examples) of a semaphore shows one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// The semaphore gives out no more permits: see [`AcquireError::Closed`].
    Closed,
    /// Too few permits are free, or another request waits for permits.
    NoPermits,
    /// The backend failed, or refused the request: see [`AcquireError::Backend`].
    Backend(Error),
}

impl From<Denial> for TryAcquireError {
    fn from(denial: Denial) -> Self {
        match AcquireError::from(denial) {
            AcquireError::Closed => Self::Closed,
            AcquireError::Timeout { .. } => Self::NoPermits,
            AcquireError::Backend(error) => Self::Backend(error),
        }
    }
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => CLOSED,
            Self::NoPermits => "no permits available",
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for TryAcquireError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Closed | Self::NoPermits => None,
            Self::Backend(source) => Some(source),
        }
    }
}

impl From<AcquireError> for LockError {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Closed => Self::Closed,
            AcquireError::Timeout { source } => Self::Timeout { source },
            AcquireError::Backend(error) => Self::Backend(error),
        }
    }
}

impl From<TryAcquireError> for TryLockError {
    fn from(error: TryAcquireError) -> Self {
        match error {
            TryAcquireError::Closed => Self::Closed,
            TryAcquireError::NoPermits => Self::WouldBlock,
            TryAcquireError::Backend(error) => Self::Backend(error),
        }
    }
}

impl From<TryAcquireError> for LockError {
    fn from(error: TryAcquireError) -> Self {
        TryLockError::from(error).into()
    }
}

impl From<Error> for AcquireError {
    fn from(error: Error) -> Self {
        Self::Backend(error)
    }
}

impl From<Error> for TryAcquireError {
    fn from(error: Error) -> Self {
        Self::Backend(error)
    }
}

const CLOSED: &str = "semaphore closed";
const BACKEND: &str = "the lock backend failed";

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> Denial {
        Denial::Failed(Error::new(kind, "for some reason"))
    }

    #[test]
    fn what_the_engine_says_becomes_what_tokio_says() {
        let error = AcquireError::from;
        assert_eq!(error(Denial::Closed), AcquireError::Closed);
        assert_eq!(error(failed(ErrorKind::Closed)), AcquireError::Closed);
        assert_eq!(error(Denial::Timeout(None)), AcquireError::Timeout { source: None });
        assert!(matches!(error(failed(ErrorKind::Timeout)), AcquireError::Backend(_)));
        let error = TryAcquireError::from;
        assert_eq!(error(Denial::WouldBlock), TryAcquireError::NoPermits);
        assert_eq!(error(failed(ErrorKind::Closed)), TryAcquireError::Closed);
        assert!(matches!(error(failed(ErrorKind::Timeout)), TryAcquireError::Backend(_)));
    }

    #[test]
    fn errors_of_one_kind_are_equal() {
        let error = |kind| TryAcquireError::from(failed(kind));
        assert_eq!(error(ErrorKind::Timeout), error(ErrorKind::Timeout));
        assert_ne!(error(ErrorKind::Timeout), error(ErrorKind::Unreachable));
        assert_ne!(error(ErrorKind::Timeout), TryAcquireError::NoPermits);
        let error = |kind| AcquireError::from(failed(kind));
        assert_eq!(error(ErrorKind::Denied), error(ErrorKind::Denied));
        assert_ne!(error(ErrorKind::Denied), error(ErrorKind::Other));
        let late = |source| AcquireError::Timeout { source };
        assert_eq!(late(None), late(None));
        assert_ne!(late(None), late(Some(Error::new(ErrorKind::Timeout, "no answer"))));
        assert_ne!(late(None), AcquireError::Closed);
    }
}
