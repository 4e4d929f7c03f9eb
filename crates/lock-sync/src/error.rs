//! The errors of the primitives.

use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;
pub use lock_core::observer::LossReason;

/// The error of every call that waits for a lock: why there is no guard, no value, or no way past a barrier.
///
/// Every other error of this crate converts into a `LockError`, except errors with a guard that must not get lost. So
/// a function that uses several primitives can return a `LockError`, with `?` in each line.
///
/// Two errors are equal if they have equal variants, and if the backend errors in them have equal [kinds](Error::kind).
///
/// # Examples
///
/// ```
/// # use lock_core::memory::MemoryBackend;
/// use lock_sync::{LockError, Mutex, MutexGuard, Semaphore, StoredMutex};
/// # use lock_sync::Locks;
///
/// async fn sell(
///     tills: &Semaphore,
///     ledger: &Mutex<Vec<u32>>,
///     stock: &StoredMutex<u32>,
/// ) -> Result<u32, LockError> {
///     let _till = tills.acquire().await?;
///     let mut ledger = ledger.try_lock().await?;
///     let left = stock.update(|apples| { *apples -= 1; *apples }).await?;
///     ledger.push(left);
///     MutexGuard::lease(&ledger).check()?;
///     MutexGuard::release(ledger).await?;
///     Ok(left)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// # let locks = Locks::new(MemoryBackend::new());
/// # let (tills, ledger) = (locks.semaphore("tills", 4)?, locks.mutex("ledger", Vec::new())?);
/// # let stock = locks.stored_mutex("stock", 3)?;
/// assert_eq!(sell(&tills, &ledger, &stock).await?, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// The wait limit was reached.
    ///
    /// If `source` is `Some`, the store had failed or had not answered by then. Otherwise another holder had the
    /// lock, or too few participants had arrived at the barrier.
    Timeout {
        /// The last failure of the backend, unless the backend has answered since.
        source: Option<Error>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The lease is lost. Either the call would have shared or upgraded the lease of a present guard. Or the
    /// lease was lost before the call had loaded or stored the value beside the lock.
    Lost(LeaseLost),
    /// The code runs outside an owner scope, so there is no owner for a [`ReentrantMutex`](crate::ReentrantMutex).
    ///
    /// Run the code in [`owner_scope`](crate::owner_scope), or lock with
    /// [`lock_as`](crate::ReentrantMutex::lock_as). A task that was spawned inside a scope is outside the
    /// scope.
    NoOwnerScope,
    /// The value beside the lock cannot be read or stored. The stored value has not changed, and the lock was released.
    Value(Error),
    /// The backend failed with an error that is not retryable, or for longer than a lease lives.
    Backend(Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout { .. } => "the wait limit was reached",
            Self::Closed => CLOSED,
            Self::Lost(_) => LOST,
            Self::NoOwnerScope => NO_OWNER_SCOPE,
            Self::Value(_) => VALUE,
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for LockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::Closed | Self::NoOwnerScope => None,
            Self::Lost(source) => Some(source),
            Self::Value(source) | Self::Backend(source) => Some(source),
        }
    }
}

/// Why a lock could not be acquired at once.
///
/// It is equal to another error under the rule of [`LockError`], and converts into a [`LockError`]:
/// [`WouldBlock`](Self::WouldBlock) becomes a [`Timeout`](LockError::Timeout) without a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryLockError {
    /// The lock has a holder, in this process or another, or another task of this process waits for the lock.
    WouldBlock,
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The lease is lost: see [`LockError::Lost`].
    Lost(LeaseLost),
    /// The code runs outside an owner scope: see [`LockError::NoOwnerScope`].
    NoOwnerScope,
    /// The value beside the lock cannot be read: see [`LockError::Value`].
    Value(Error),
    /// The backend failed.
    Backend(Error),
}

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "operation would block",
            Self::Closed => CLOSED,
            Self::Lost(_) => LOST,
            Self::NoOwnerScope => NO_OWNER_SCOPE,
            Self::Value(_) => VALUE,
            Self::Backend(_) => BACKEND,
        })
    }
}

impl StdError for TryLockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::WouldBlock | Self::Closed | Self::NoOwnerScope => None,
            Self::Lost(source) => Some(source),
            Self::Value(source) | Self::Backend(source) => Some(source),
        }
    }
}

impl From<TryLockError> for LockError {
    fn from(error: TryLockError) -> Self {
        match error {
            TryLockError::WouldBlock => Self::Timeout { source: None },
            TryLockError::Closed => Self::Closed,
            TryLockError::Lost(lost) => Self::Lost(lost),
            TryLockError::NoOwnerScope => Self::NoOwnerScope,
            TryLockError::Value(error) => Self::Value(error),
            TryLockError::Backend(error) => Self::Backend(error),
        }
    }
}

impl From<ReleaseError> for LockError {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Lost(lost) => Self::Lost(lost),
            ReleaseError::Backend(error) => Self::Backend(error),
        }
    }
}

/// The losses and failures that every error has.
macro_rules! from_parts {
    ($($error:ident),*) => {$(
        impl From<LeaseLost> for $error {
            fn from(lost: LeaseLost) -> Self {
                Self::Lost(lost)
            }
        }

        impl From<Error> for $error {
            fn from(error: Error) -> Self {
                Self::Backend(error)
            }
        }
    )*};
}

from_parts!(LockError, TryLockError, ReleaseError);

/// Why a release could not be confirmed.
///
/// The guard is gone in any case, and with it the access to the data.
///
/// # Examples
///
/// ```
/// # use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, MutexGuard, ReleaseError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let mutex = locks.mutex("report", ())?;
/// match MutexGuard::release(mutex.lock().await?).await {
///     Ok(()) => {}
///     Err(ReleaseError::Lost(lost)) => eprintln!("another holder may have had the lock: {lost}"),
///     Err(error) => eprintln!("the lock is free when its lease has ended: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before the release: another holder may have had the lock meanwhile.
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
/// [`reason`](Self::reason) tells the two apart. Another holder may have the lock now. All earlier writes of this
/// holder under its fencing token are valid. The resource has to refuse its later writes.
///
/// The [example](crate::Lease#examples) of a lease shows one.
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
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for LeaseLost {}

const CLOSED: &str = "the locks are shutting down";
const LOST: &str = "the lease is lost";
const NO_OWNER_SCOPE: &str = "this task has no owner for the lock: run it in `owner_scope(..)`, or use \
     `lock_as` with an `Owner` (a spawned task does not inherit a scope)";
const VALUE: &str = "the value beside the lock cannot be read or stored";
const BACKEND: &str = "the lock backend failed";
