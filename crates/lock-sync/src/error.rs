//! The errors of the primitives.

use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;

/// Why a lock could not be acquired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockError {
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
    /// The caller already has a guard whose lease this call would have shared or made stronger, and that lease is
    /// lost.
    Lost(LeaseLost),
    /// The backend failed in a way that waiting does not cure, or for longer than a lease lives.
    Backend(Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout { .. } => "the lock was not free within the wait limit",
            Self::Closed => CLOSED,
            Self::Lost(_) => LOST,
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for LockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::Closed => None,
            Self::Lost(source) => Some(source),
            Self::Backend(source) => Some(source),
        }
    }
}

/// Why a lock could not be acquired at once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TryLockError {
    /// A client holds the lock, in this process or another, or another task of this process waits for it.
    WouldBlock,
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The caller already has a guard whose lease this call would have shared or made stronger, and that lease is
    /// lost.
    Lost(LeaseLost),
    /// The backend failed.
    Backend(Error),
}

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "operation would block",
            Self::Closed => CLOSED,
            Self::Lost(_) => LOST,
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for TryLockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::WouldBlock | Self::Closed => None,
            Self::Lost(source) => Some(source),
            Self::Backend(source) => Some(source),
        }
    }
}

/// Why a release could not be confirmed.
///
/// The guard is gone in any case, and with it the access to the data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before: another holder may have had the lock meanwhile.
    Lost(LeaseLost),
    /// The backend did not confirm the release. If the error is [retryable](Error::is_retryable), the driver goes
    /// on trying until the lease has ended by itself.
    Backend(Error),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost(_) => "the lease was lost before it was released",
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for ReleaseError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lost(source) => Some(source),
            Self::Backend(source) => Some(source),
        }
    }
}

/// A guard or permit does not have its lease any more: the lease is lost, or the guard has given it up.
///
/// [`reason`](Self::reason) says which. Another holder may have the lock now. What this holder has written under its fencing token so far is valid.
/// The resource must refuse what this holder writes from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLost(LossReason);

impl LeaseLost {
    pub(crate) fn new(reason: LossReason) -> Self {
        Self(reason)
    }

    /// Why the guard has no lease.
    pub fn reason(&self) -> LossReason {
        self.0
    }
}

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            LossReason::Expired => "the lease ran out before it could be renewed",
            LossReason::Revoked => "the store no longer knows the lease",
            LossReason::HeldTooLong => "the lock was held for longer than permitted",
            LossReason::DriverStopped => "the driver of the locks has stopped",
            LossReason::Released => "the guard has given the lease up",
        })
    }
}

impl StdError for LeaseLost {}

/// Why a guard has no lease any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The deadline passed without a renewal: the store was out of reach, this process was stopped,
    /// or renewal is switched off.
    Expired,
    /// The store reported the loss: the key has expired there, was deleted, or has another owner.
    Revoked,
    /// The [maximum hold](crate::Builder::max_hold) was reached.
    HeldTooLong,
    /// The [runtime of the driver](crate::Builder::on_runtime) has shut down, so the lease is no longer renewed.
    DriverStopped,
    /// The guard or permit was dropped or released. Only a [`Lease`](crate::Lease) that outlives its guard gives this
    /// reason.
    Released,
}

const CLOSED: &str = "the locks are shutting down";
const LOST: &str = "the lease of what is held already is lost";
const BACKEND: &str = "the lock backend failed";
