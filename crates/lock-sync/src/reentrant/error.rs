//! The errors of a reentrant lock.

use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;

use crate::bare::denied;
use crate::error::LeaseLost;

/// Why a [`ReentrantMutex`](crate::ReentrantMutex) could not be locked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReentrantLockError {
    /// The code runs outside an owner scope, so there is no owner for the lock.
    ///
    /// Run the code in [`owner_scope`](crate::owner_scope), or lock with
    /// [`lock_as`](crate::ReentrantMutex::lock_as). A task that was spawned inside a scope is outside it.
    NoOwnerScope,
    /// The owner already held the lock, and has lost the lease. The lock no longer protects the work that the owner
    /// began. The owner can lock again once its guards are gone.
    Lost(LeaseLost),
    /// The wait limit was reached.
    ///
    /// If the store had failed or had not answered when the limit was reached, `source` says so. Otherwise another
    /// owner held the lock.
    Timeout {
        /// The last failure of the backend, unless it has answered since.
        source: Option<Error>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The backend failed in a way that waiting does not cure, or for longer than a lease lives.
    Backend(Error),
}

denied!(ReentrantLockError);

impl fmt::Display for ReentrantLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOwnerScope => NO_OWNER_SCOPE,
            Self::Lost(_) => LOST,
            Self::Timeout { .. } => "another owner did not give the lock up within the wait limit",
            Self::Closed => CLOSED,
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for ReentrantLockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lost(source) => Some(source),
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::NoOwnerScope | Self::Closed => None,
            Self::Backend(source) => Some(source),
        }
    }
}

/// Why a [`ReentrantMutex`](crate::ReentrantMutex) could not be locked at once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TryReentrantLockError {
    /// The code runs outside an owner scope: see [`ReentrantLockError::NoOwnerScope`].
    NoOwnerScope,
    /// The owner already held the lock, and has lost the lease: see [`ReentrantLockError::Lost`].
    Lost(LeaseLost),
    /// Another owner holds the lock, in this process or another, or waits for it in this process.
    WouldBlock,
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The backend failed.
    Backend(Error),
}

impl From<ReentrantLockError> for TryReentrantLockError {
    /// A `Timeout` becomes `WouldBlock`.
    fn from(error: ReentrantLockError) -> Self {
        match error {
            ReentrantLockError::NoOwnerScope => Self::NoOwnerScope,
            ReentrantLockError::Lost(lost) => Self::Lost(lost),
            ReentrantLockError::Timeout { .. } => Self::WouldBlock,
            ReentrantLockError::Closed => Self::Closed,
            ReentrantLockError::Backend(error) => Self::Backend(error),
        }
    }
}

impl fmt::Display for TryReentrantLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOwnerScope => NO_OWNER_SCOPE,
            Self::Lost(_) => LOST,
            Self::WouldBlock => "operation would block",
            Self::Closed => CLOSED,
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for TryReentrantLockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lost(source) => Some(source),
            Self::NoOwnerScope | Self::WouldBlock | Self::Closed => None,
            Self::Backend(source) => Some(source),
        }
    }
}

const NO_OWNER_SCOPE: &str = "this task has no owner for the lock: run it in `owner_scope(..)`, or use \
     `lock_as` with an `Owner` (a spawned task does not inherit a scope)";
const LOST: &str = "the owner held the lock already, and has lost it";
const CLOSED: &str = "the locks are shutting down";
const BACKEND: &str = "the lock backend failed";
