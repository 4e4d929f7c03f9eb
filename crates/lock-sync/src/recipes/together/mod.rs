//! Several locks at once.

mod guard;
mod lock_all;

use std::time::Duration;

use lock_core::{Error, Key};

pub use guard::MultiGuard;
use lock_all::Climbing;
pub use lock_all::{LockAll, TryLockAll};

use crate::bare::{BareLock, Wait};
use crate::error::LockError;
use crate::locks::Locks;
use crate::waits::block;

impl<B: ?Sized> Locks<B> {
    /// Locks several names, all or none. Waits until all of them are free.
    ///
    /// On success the guard holds all of these locks, each like the guard of a [`Mutex`](crate::Mutex) with
    /// that name. A name that occurs twice is locked once. Without any name, the guard holds no lock.
    ///
    /// The call first asks for all locks at once. This takes one step of the store if the backend implements
    /// [`Backend::try_acquire_all`](lock_core::Backend::try_acquire_all). If one of the locks has a holder, the call
    /// waits for one lock after the other, in the order of the bytes of their names, and keeps the locks that it has.
    ///
    /// # Deadlocks
    ///
    /// Calls of this method cannot deadlock with one another, in any process and with any order of their
    /// arguments, because all of them wait in one order. But a task can deadlock with this call if it takes these locks
    /// one by one in another order, for example with [`Mutex::lock`](crate::Mutex::lock), or if it makes this call
    /// while it holds a lock. A [wait limit](crate::Builder::wait_limit) ends such a wait with an error.
    ///
    /// # Order
    ///
    /// Each lock has the order of a [`Mutex`](crate::Mutex#order). While the call waits for a later lock, it keeps
    /// other callers out of the locks that it has. With many overlapping callers, a caller waits for the longest
    /// chain of them.
    ///
    /// # If the lease is lost
    ///
    /// The guard reports the loss as soon as one of its leases is lost. If the call loses a lease while it still waits
    /// for other locks, it gives all locks up and begins again. So all leases of a new guard are valid. (Without
    /// [renewal](crate::Builder::renewal), or with a [maximum hold](crate::Builder::max_hold), the call can lose
    /// leases again and again while it waits for a later lock. Use a wait limit there.)
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its positions in all lines. The driver releases the locks that the future has by
    /// then, or is about to get, in the background.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached. One limit counts for all locks
    ///   together;
    /// - [`LockError::Backend`] if the store refused, or, without a wait limit, if the store was out of reach for
    ///   longer than a lease lives. Before any request is sent, it has
    ///   [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if a name, with the
    ///   [prefix](crate::Builder::prefix), is too long;
    /// - [`LockError::Closed`] after [`Locks::shutdown`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// // Two transfers between these accounts cannot deadlock, in any direction.
    /// let guard = locks.lock_all(["account/7", "account/3"]).await?;
    /// for (key, token) in guard.lease().fencing_tokens() {
    ///     println!("{key} may be written with {token}");
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<K>(&self, names: impl IntoIterator<Item = K>) -> LockAll
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        LockAll::new(Climbing::new(self.bare_locks(names), self.shared.default_wait()))
    }

    /// Locks several names, waiting for at most `limit` from the first poll on for all of them together.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all).
    ///
    /// # Errors
    ///
    /// As [`lock_all`](Self::lock_all).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let both = locks.lock_all(["a", "b"]).await?;
    /// let late = locks.lock_all_timeout(["b", "c"], Duration::from_millis(10)).await;
    /// assert!(matches!(late, Err(LockError::Timeout { .. })));
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all_timeout<K>(
        &self,
        names: impl IntoIterator<Item = K>,
        limit: Duration,
    ) -> LockAll
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        LockAll::new(Climbing::new(self.bare_locks(names), Wait::AtMost(limit)))
    }

    /// Locks several names, all or none, if all of them are free, without waiting for a holder.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`](crate::TryLockError::WouldBlock) if one of the locks has a holder, if another
    ///   task of this process waits for it, or if a guard with a lost lease still exists in this process. Over a
    ///   backend that cannot grant several locks in one step, also if another such attempt has taken one of the
    ///   locks for a moment;
    /// - [`TryLockError::Backend`](crate::TryLockError::Backend) if the store could not be asked, or for a
    ///   name that is too long;
    /// - [`TryLockError::Closed`](crate::TryLockError::Closed) after [`Locks::shutdown`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, TryLockError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let both = locks.try_lock_all(["a", "b"]).await?;
    /// assert!(matches!(locks.try_lock_all(["b", "c"]).await, Err(TryLockError::WouldBlock)));
    /// assert!(locks.try_lock_all(["c", "d"]).await.is_ok());
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_all<K>(&self, names: impl IntoIterator<Item = K>) -> TryLockAll
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        TryLockAll::new(Climbing::new(self.bare_locks(names), Wait::Try))
    }

    /// Locks several names from synchronous code.
    ///
    /// The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`lock_all`](Self::lock_all).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as
    /// [`Mutex::blocking_lock`](crate::Mutex::blocking_lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let guard = locks.blocking_lock_all(["a", "b"])?;
    /// assert!(guard.lease().is_valid());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_lock_all<K>(
        &self,
        names: impl IntoIterator<Item = K>,
    ) -> Result<MultiGuard, LockError>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        block(self.lock_all(names))
    }

    /// The locks with these names, without repetitions, in the order in which every caller waits
    /// for them.
    fn bare_locks<K>(&self, names: impl IntoIterator<Item = K>) -> Result<Vec<BareLock>, Error>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let locks: Result<Vec<_>, _> = names.into_iter().map(|name| self.bare_lock(name)).collect();
        let mut locks = locks?;
        locks.sort_by(|one, other| one.key().cmp(other.key()));
        locks.dedup_by(|one, other| one.key() == other.key());
        Ok(locks)
    }
}
