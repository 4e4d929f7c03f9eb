//! The errors of a stored mutex.

use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;

use super::codec::{CodecError, Json};
use super::guard::StoredMutexGuard;
use crate::bare::Denial;
use crate::error::LeaseLost;

/// Why there is no guard, or no value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoredLockError {
    /// A client holds the lock, or another task of this process waits for it. Only
    /// [`try_lock`](crate::StoredMutex::try_lock) returns this error.
    WouldBlock,
    /// The wait limit was reached.
    ///
    /// If the store had failed or had not answered when the limit was reached, `source` says so. Otherwise another
    /// holder had the lock.
    Timeout {
        /// The last failure of the backend, unless it has answered since.
        source: Option<Error>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The lease was lost before the value was there.
    Lost(LeaseLost),
    /// The codec cannot read the stored value. The lock was released, and the stored value is as it was.
    Decode(CodecError),
    /// The backend failed in a way that waiting does not cure, or for longer than a lease lives.
    Backend(Error),
}

impl From<Denial> for StoredLockError {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::WouldBlock => Self::WouldBlock,
            Denial::Timeout(source) => Self::Timeout { source },
            Denial::Closed => Self::Closed,
            Denial::Lost(lost) => Self::Lost(lost),
            Denial::Failed(error) => Self::Backend(error),
        }
    }
}

impl fmt::Display for StoredLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "operation would block",
            Self::Timeout { .. } => "the lock was not free within the wait limit",
            Self::Closed => "the locks are shutting down",
            Self::Lost(_) => "the lease was lost before the value was loaded",
            Self::Decode(_) => "the codec cannot read the stored value",
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for StoredLockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::WouldBlock | Self::Closed => None,
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::Lost(source) => Some(source),
            Self::Decode(source) => Some(source),
            Self::Backend(source) => Some(source),
        }
    }
}

/// Why a [commit](StoredMutexGuard::commit) has not stored the value, or may not have.
///
/// Every variant returns the value: with the guard if the lock is still held, or without it.
#[non_exhaustive]
pub enum CommitError<T, C = Json> {
    /// The codec cannot encode the value. Nothing was sent.
    Encode {
        /// The guard, which still holds the lock.
        guard: Box<StoredMutexGuard<T, C>>,
        /// The reason.
        source: CodecError,
    },
    /// The value is too long, so nothing was sent; or the store has refused it. Nothing was stored.
    Refused {
        /// The guard, which still holds the lock.
        guard: Box<StoredMutexGuard<T, C>>,
        /// The reason.
        source: Error,
    },
    /// The lease was lost before. Nothing was stored.
    Lost {
        /// The value that was not stored.
        value: T,
        /// Why the lease was lost.
        source: LeaseLost,
    },
    /// The store has not said whether the value was stored, or it can no longer tell: later holders have stored values since,
    /// or a few of several servers may have the value. This guard holds the lock no longer.
    ///
    /// Lock again, and look at the value, to find out. (Give each change an id, if the value alone does not tell.)
    Unknown {
        /// The value that may have been stored.
        value: T,
        /// Why the first request has failed.
        source: Error,
    },
}

impl<T, C> CommitError<T, C> {
    /// The value. If the guard still holds the lock, this gives the lock up.
    pub fn into_value(self) -> T {
        match self {
            Self::Encode { guard, .. } | Self::Refused { guard, .. } => guard.into_value(),
            Self::Lost { value, .. } | Self::Unknown { value, .. } => value,
        }
    }
}

/// Does not show the value, which may be a secret.
impl<T, C> fmt::Debug for CommitError<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, source): (_, &dyn fmt::Debug) = match self {
            Self::Encode { source, .. } => ("Encode", source),
            Self::Refused { source, .. } => ("Refused", source),
            Self::Lost { source, .. } => ("Lost", source),
            Self::Unknown { source, .. } => ("Unknown", source),
        };
        f.debug_struct(name).field("source", source).finish_non_exhaustive()
    }
}

impl<T, C> fmt::Display for CommitError<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encode { .. } => ENCODE,
            Self::Refused { .. } => REFUSED,
            Self::Lost { .. } => LOST,
            Self::Unknown { .. } => UNKNOWN,
        })
    }
}

impl<T, C> StdError for CommitError<T, C> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Encode { source, .. } => Some(source),
            Self::Refused { source, .. } | Self::Unknown { source, .. } => Some(source),
            Self::Lost { source, .. } => Some(source),
        }
    }
}

/// Why a [save](StoredMutexGuard::save) has not stored the value, or may not have. The guard keeps the value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SaveError {
    /// The codec cannot encode the value. Nothing was sent.
    Encode(CodecError),
    /// The value is too long, so nothing was sent; or the store has refused it. Nothing was stored.
    Refused(Error),
    /// The lease was lost before. Nothing was stored.
    Lost(LeaseLost),
    /// The store has not said whether the value was stored. A later save or commit of this guard replaces the value
    /// in any case.
    Unknown(Error),
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encode(_) => ENCODE,
            Self::Refused(_) => REFUSED,
            Self::Lost(_) => LOST,
            Self::Unknown(_) => UNKNOWN,
        })
    }
}

impl StdError for SaveError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Encode(source) => Some(source),
            Self::Refused(source) | Self::Unknown(source) => Some(source),
            Self::Lost(source) => Some(source),
        }
    }
}

/// Why an [update](crate::StoredMutex::update) failed.
#[non_exhaustive]
pub enum StoredUpdateError<T, C = Json> {
    /// There was no guard. The closure has not run.
    Lock(StoredLockError),
    /// The closure has run, and the commit failed.
    Commit(CommitError<T, C>),
}

impl<T, C> From<StoredLockError> for StoredUpdateError<T, C> {
    fn from(error: StoredLockError) -> Self {
        Self::Lock(error)
    }
}

impl<T, C> From<CommitError<T, C>> for StoredUpdateError<T, C> {
    fn from(error: CommitError<T, C>) -> Self {
        Self::Commit(error)
    }
}

impl<T, C> fmt::Display for StoredUpdateError<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Commit(error) => error.fmt(f),
        }
    }
}

impl<T, C> fmt::Debug for StoredUpdateError<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => f.debug_tuple("Lock").field(error).finish(),
            Self::Commit(error) => f.debug_tuple("Commit").field(error).finish(),
        }
    }
}

impl<T, C> StdError for StoredUpdateError<T, C> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lock(error) => error.source(),
            Self::Commit(error) => error.source(),
        }
    }
}

const ENCODE: &str = "the codec cannot encode the value";
const REFUSED: &str = "the value was refused";
const LOST: &str = "the lease was lost before the value was stored";
const UNKNOWN: &str = "it is unknown whether the value was stored";
const BACKEND: &str = "the lock backend failed";
