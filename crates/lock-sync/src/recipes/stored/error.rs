//! The errors of a stored mutex.

use std::error::Error as StdError;
use std::fmt;

use lock_core::{Error, ErrorKind};

use super::codec::{CodecError, Json};
use super::guard::StoredMutexGuard;
use crate::bare::Denial;
use crate::error::{LeaseLost, LockError, TryLockError};

/// Why there is no guard, before it becomes the error of the call.
pub(super) enum NoGuard {
    Denied(Denial),
    /// The codec cannot read the stored value.
    Unreadable(CodecError),
}

impl NoGuard {
    fn unreadable(source: CodecError) -> Error {
        Error::with_source(ErrorKind::Protocol, "the codec cannot read the stored value", source)
    }
}

impl From<Denial> for NoGuard {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<NoGuard> for LockError {
    fn from(reason: NoGuard) -> Self {
        match reason {
            NoGuard::Denied(denial) => denial.into(),
            NoGuard::Unreadable(source) => Self::Value(NoGuard::unreadable(source)),
        }
    }
}

impl From<NoGuard> for TryLockError {
    fn from(reason: NoGuard) -> Self {
        match reason {
            NoGuard::Denied(denial) => denial.into(),
            NoGuard::Unreadable(source) => Self::Value(NoGuard::unreadable(source)),
        }
    }
}

/// Why a [commit](StoredMutexGuard::commit) failed, or may have failed.
///
/// Every variant returns the value: inside the guard if the guard still holds the lock, and else by
/// itself.
#[non_exhaustive]
pub enum CommitError<T, C = Json> {
    /// The codec cannot encode the value. Nothing was sent.
    Encode {
        /// The guard, which still holds the lock.
        guard: Box<StoredMutexGuard<T, C>>,
        /// The reason.
        source: CodecError,
    },
    /// The value is too long, so nothing was sent; or the store has refused the value. Nothing was stored.
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
    /// It is unknown whether the value was stored. Either the store has not answered; or later holders have stored
    /// other values meanwhile; or only some of several servers may have the value. The guard does not hold the lock any
    /// more.
    ///
    /// Lock again, and look at the stored value. (Give each change an id, if you cannot see from the value whether the
    /// change is in it.)
    Unknown {
        /// The value that may have been stored.
        value: T,
        /// Why the first request has failed.
        source: Error,
    },
}

impl<T, C> CommitError<T, C> {
    /// Returns the value. If the guard still holds the lock, the call gives the lock up.
    ///
    /// [`StoredMutex`](crate::StoredMutex#examples) has an example of a commit.
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

/// Why a [save](StoredMutexGuard::save), or an [update](crate::Leadership::update) by a leader, failed or may have
/// failed. The guard keeps the value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SaveError {
    /// The codec cannot encode the value. Nothing was sent.
    Encode(CodecError),
    /// The value is too long, so nothing was sent; or the store has refused the value. Nothing was stored.
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
    Lock(LockError),
    /// The closure has run, and the commit failed.
    Commit(CommitError<T, C>),
}

impl<T, C> From<LockError> for StoredUpdateError<T, C> {
    fn from(error: LockError) -> Self {
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

/// For code that does not need the value. An error whose outcome is [unknown](CommitError::Unknown) becomes
/// [`LockError::Backend`].
impl<T, C> From<CommitError<T, C>> for LockError {
    fn from(error: CommitError<T, C>) -> Self {
        match error {
            CommitError::Encode { source, .. } => unencodable(source),
            CommitError::Refused { source, .. } => Self::Value(source),
            CommitError::Lost { source, .. } => Self::Lost(source),
            CommitError::Unknown { source, .. } => Self::Backend(source),
        }
    }
}

/// An error whose outcome is [unknown](SaveError::Unknown) becomes [`LockError::Backend`].
impl From<SaveError> for LockError {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Encode(source) => unencodable(source),
            SaveError::Refused(source) => Self::Value(source),
            SaveError::Lost(source) => Self::Lost(source),
            SaveError::Unknown(source) => Self::Backend(source),
        }
    }
}

impl<T, C> From<StoredUpdateError<T, C>> for LockError {
    fn from(error: StoredUpdateError<T, C>) -> Self {
        match error {
            StoredUpdateError::Lock(error) => error,
            StoredUpdateError::Commit(error) => error.into(),
        }
    }
}

fn unencodable(source: CodecError) -> LockError {
    LockError::Value(Error::with_source(ErrorKind::InvalidConfig, ENCODE, source))
}

const ENCODE: &str = "the codec cannot encode the value";
const REFUSED: &str = "the value was refused";
const LOST: &str = "the lease was lost before the value was stored";
const UNKNOWN: &str = "it is unknown whether the value was stored";
