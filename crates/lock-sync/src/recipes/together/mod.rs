//! Several locks at once.

mod guard;
mod lock_all;

use std::time::Duration;

use lock_core::{Error, Key};

pub use guard::AllGuard;
use lock_all::Climbing;
pub use lock_all::{LockAll, TryLockAll};

use crate::bare::{BareLock, Wait};
use crate::error::LockError;
use crate::locks::Locks;
use crate::waits::block;

impl<B: ?Sized> Locks<B> {
    /// Locks several names, waiting until all of them are free here and everywhere: all or none.
    ///
    /// On success the guard holds every one of them, each like the guard of a [`Mutex`](crate::Mutex) of
    /// that name would. A name that occurs twice is locked once; no name at all is a guard over nothing.
    ///
    /// First it asks for all at once, which takes one step of the store's if the backend can do that:
    /// [`Backend::acquire_together`](lock_core::Backend::acquire_together). If somebody holds one of them,
    /// it waits for one after the other in the order of their bytes, and holds those that it has.
    ///
    /// # Deadlocks
    ///
    /// Any number of calls with any names cannot wait for one another in a circle, in whatever process
    /// and order of their arguments, because all of them wait in the same order. Nothing can be done
    /// against a task that takes the same locks one by one in another order, with
    /// [`Mutex::lock`](crate::Mutex::lock) for instance, or that calls this while it holds one of them
    /// or another lock: it can wait for this call and this call for it. A
    /// [wait limit](crate::Builder::wait_limit) ends such a wait with an error.
    ///
    /// # Order
    ///
    /// For each of the locks the order is that of [`Mutex`](crate::Mutex#order). While it waits for a
    /// later one it keeps others from those that it has: with many callers that overlap, each waits for
    /// the longest chain of them.
    ///
    /// # If the lease is lost
    ///
    /// The guard says so as soon as one of its leases is lost. If that happens to the first ones while it
    /// still waits for the others, it lets go of all and begins anew: a guard that it returns was whole.
    /// (Where leases are [not renewed](crate::Builder::renewal) or have a
    /// [maximum](crate::Builder::max_hold), that can happen again and again while a later lock is held;
    /// give it a limit there.)
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its places, and releases in the background what it has got by then or
    /// is about to get.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached, which is one for all;
    /// - [`LockError::Backend`] if the store refused or could not be reached for longer than a lease
    ///   lives, and there is no limit that says to wait longer; and before anything is sent, with
    ///   [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey), if a name, with the
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
    /// // Two transfers between the same accounts cannot block one another, whatever their direction.
    /// let guard = locks.lock_all(["account/7", "account/3"]).await?;
    /// for (key, token) in guard.fencing_tokens() {
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

    /// Locks several names if nobody holds any of them, without waiting for a holder: all or none.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`](crate::TryLockError::WouldBlock) if one of them is held, or awaited
    ///   by another task of this process, or if a guard whose lease was lost is still there. Over a backend
    ///   that cannot grant several at once, also if somebody else has taken some of them for a moment in
    ///   the same attempt;
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
    /// Needs no runtime of the caller's.
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
    /// assert!(guard.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_lock_all<K>(
        &self,
        names: impl IntoIterator<Item = K>,
    ) -> Result<AllGuard, LockError>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        block(self.lock_all(names))
    }

    /// The locks of these names, each once, in the order in which every caller waits for them.
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
