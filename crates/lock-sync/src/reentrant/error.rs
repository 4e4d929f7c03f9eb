//! What a reentrant lock returns instead of a guard.

use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;

use crate::bare::Denial;
use crate::error::LeaseLost;

/// Why a [`ReentrantMutex`](crate::ReentrantMutex) could not be locked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReentrantLockError {
    /// There is nobody in whose name to lock.
    ///
    /// Run the code in [`owner_scope`](crate::owner_scope), or lock with
    /// [`lock_as`](crate::ReentrantMutex::lock_as). A task that was spawned inside a scope is outside it.
    NoOwnerScope,
    /// The owner held the lock already, and has lost it. What it has begun under the lock is no longer
    /// protected; it can lock anew once the guards that it has are gone.
    Lost(LeaseLost),
    /// The wait limit was reached.
    ///
    /// If the store had failed or not answered at the end of it, `source` says so; otherwise it was
    /// another owner who held the lock.
    Timeout {
        /// The last failure of the backend, unless it has answered since.
        source: Option<Error>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The backend failed in a way that waiting does not cure, or for longer than a lease lives.
    Backend(Error),
}

impl From<Denial> for ReentrantLockError {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Timeout(source) => Self::Timeout { source },
            // Only a caller that does not wait is turned away so.
            Denial::WouldBlock => Self::Timeout { source: None },
            Denial::Closed => Self::Closed,
            Denial::Lost(lost) => Self::Lost(lost),
            Denial::Failed(error) => Self::Backend(error),
        }
    }
}

impl fmt::Display for ReentrantLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOwnerScope => NO_OWNER_SCOPE,
            Self::Lost(_) => LOST,
            Self::Timeout { .. } => "no other owner let go of the lock within the wait limit",
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
    /// There is nobody in whose name to lock: see [`ReentrantLockError::NoOwnerScope`].
    NoOwnerScope,
    /// The owner held the lock already, and has lost it: see [`ReentrantLockError::Lost`].
    Lost(LeaseLost),
    /// Another owner holds the lock, here or elsewhere, or waits for it here.
    WouldBlock,
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The backend failed.
    Backend(Error),
}

impl From<ReentrantLockError> for TryReentrantLockError {
    /// A wait that is over is one that would go on.
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

const NO_OWNER_SCOPE: &str = "nobody owns what this task locks: run it in `owner_scope(..)`, or use \
     `lock_as` with an `Owner` (a spawned task does not inherit a scope)";
const LOST: &str = "the owner held the lock already, and has lost it";
const CLOSED: &str = "the locks are shutting down";
const BACKEND: &str = "the lock backend failed";
