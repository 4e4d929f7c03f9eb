//! Locks by name, without data.

use std::fmt;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_core::{Error, Key, Mode};

use crate::bare::{BareLock, Denial, Hold, Locking, Wait};
use crate::error::{LockError, TryLockError};
use crate::guard::leased;
use crate::lease::Lease;
use crate::locks::Locks;
use crate::waits::{Attempt, block, future};

/// A guard of a lock without data, and its lease. [`Locks::lock`] returns it.
///
/// # Dropping
///
/// As for a [`MutexGuard`](crate::MutexGuard#dropping).
///
/// # If the lease is lost
///
/// Another process may get the lock. The [`Lease`] says so.
#[clippy::has_significant_drop]
#[must_use = "if unused the lock is released at once"]
pub struct LockGuard(Hold);

impl LockGuard {
    leased!(
        "Releases the lock, and waits until the store has confirmed the release or another task of \
         this process has the lock.",
        (&self) => Lease::of(&self.0),
        (self) => self.0.release().await
    );
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", self.0.key())
            .field("fencing_token", &self.0.fencing_token())
            .finish_non_exhaustive()
    }
}

impl<B: ?Sized> Locks<B> {
    /// Locks a name, waiting until no other guard holds the lock, in this process or another.
    ///
    /// Use it for names that you use once or seldom, such as one name for each order: there is no
    /// [`Mutex`](crate::Mutex) to keep. A `Mutex` with this name is this lock. It works over every backend.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock). Before any request is sent, the error is [`LockError::Backend`] with
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if the name, with the
    /// [prefix](crate::Builder::prefix), is too long.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let guard = locks.lock("orders/42").await?;
    /// println!("this process may write order 42 with {}", guard.lease().fencing_token());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock<K>(&self, name: K) -> LockName
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        LockName::new(Naming::of(self.bare_lock(name), self.shared.default_wait()))
    }

    /// Locks a name, waiting for at most `limit` from the first poll on: see [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn lock_timeout<K>(&self, name: K, limit: Duration) -> LockName
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        LockName::new(Naming::of(self.bare_lock(name), Wait::AtMost(limit)))
    }

    /// Locks a name if the lock is free, without waiting for a holder: see [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock), and [`TryLockError::Backend`] for a name that is too long.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, TryLockError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let _guard = locks.try_lock("nightly").await?;
    /// assert!(matches!(locks.try_lock("nightly").await, Err(TryLockError::WouldBlock)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock<K>(&self, name: K) -> Result<LockGuard, TryLockError>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let naming = Naming::of(self.bare_lock(name), Wait::Try);
        Ok(Attempt(LockName::new(naming)).await?)
    }

    /// Locks a name from synchronous code: see [`lock`](Self::lock). The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as
    /// [`Mutex::blocking_lock`](crate::Mutex::blocking_lock).
    #[track_caller]
    pub fn blocking_lock<K>(&self, name: K) -> Result<LockGuard, LockError>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        block(self.lock(name))
    }
}

/// The wait for a lock whose name may be invalid.
#[allow(clippy::large_enum_variant, reason = "a box would be one more allocation for each lock")]
pub(crate) enum Naming {
    Valid(Locking),
    /// `None` once the future has returned the error.
    Invalid(Option<Error>),
}

impl Naming {
    fn of(lock: Result<BareLock, Error>, wait: Wait) -> Self {
        match lock {
            Ok(lock) => Self::Valid(lock.locking(Mode::Exclusive, wait)),
            Err(error) => Self::Invalid(Some(error)),
        }
    }

    fn on_driver(&mut self) {
        if let Self::Valid(locking) = self {
            locking.on_driver();
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<LockGuard, Denial>> {
        match self {
            Self::Valid(locking) => {
                let (hold, ()) = ready!(locking.poll(context, || Some(())))?;
                Poll::Ready(Ok(LockGuard(hold)))
            }
            Self::Invalid(error) => {
                let error = error.take().expect("a lock future was polled after it had completed");
                Poll::Ready(Err(Denial::Failed(error)))
            }
        }
    }
}

future! {
    /// The future that [`Locks::lock`] returns.
    #[must_use = "futures do nothing unless polled"]
    LockName[][](naming: Naming) -> Result<LockGuard, Denial => LockError>
    |context| naming.poll(context)
}
