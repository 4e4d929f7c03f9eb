//! The ways to take an upgradable read lock, and the futures that wait for it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Convertible, Mode, Upgradable};

use super::access::Access;
use super::{OwnedRwLockUpgradableReadGuard, RwLock, RwLockUpgradableReadGuard};
use crate::bare::{Denial, Wait};
use crate::error::{LockError, TryLockError};
use crate::guard::Guarded;
use crate::waits::{Attempt, block, future};

impl<T: ?Sized, C> RwLock<T, C> {
    /// Takes an upgradable read lock: this reader may become the writer without giving the lock up.
    ///
    /// The call needs a backend that can convert a lease. Over any other backend, such as a quorum, it does not
    /// compile.
    ///
    /// There may be any number of ordinary readers beside this reader, but no other upgradable reader, in this
    /// process or another. So two readers that want to write never wait for each other. The call waits as
    /// [`read`](Self::read) does, and also for another upgradable reader. The
    /// [`upgrade`](RwLockUpgradableReadGuard::upgrade) waits for the ordinary readers.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{LockError, Locks, RwLock};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let stock = locks.rwlock("stock", 1)?;
    ///
    /// async fn take_one(stock: &RwLock<u32>) -> Result<bool, LockError> {
    ///     let apples = stock.upgradable_read().await?;
    ///     if *apples == 0 {
    ///         return Ok(false);
    ///     }
    ///     // No other writer can have written since the check.
    ///     *apples.upgrade().await? -= 1;
    ///     Ok(true)
    /// }
    ///
    /// assert!(take_one(&stock).await?);
    /// assert!(!take_one(&stock).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgradable_read(&self) -> UpgradableRead<'_, T, C>
    where
        C: Upgradable,
    {
        UpgradableRead::new(self.access(Mode::Upgradable, self.default_wait()), self)
    }

    /// Takes an upgradable read lock, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn upgradable_read_timeout(&self, limit: Duration) -> UpgradableRead<'_, T, C>
    where
        C: Upgradable,
    {
        UpgradableRead::new(self.access(Mode::Upgradable, Wait::AtMost(limit)), self)
    }

    /// Takes an upgradable read lock, and returns a guard that keeps the lock alive and borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn upgradable_read_owned(self: Arc<Self>) -> UpgradableReadOwned<T, C>
    where
        C: Upgradable,
    {
        UpgradableReadOwned::new(self.access(Mode::Upgradable, self.default_wait()), self)
    }

    /// Takes an upgradable read lock, waiting for at most `limit` from the first poll on, and returns a guard that
    /// keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn upgradable_read_owned_timeout(
        self: Arc<Self>,
        limit: Duration,
    ) -> UpgradableReadOwned<T, C>
    where
        C: Upgradable,
    {
        UpgradableReadOwned::new(self.access(Mode::Upgradable, Wait::AtMost(limit)), self)
    }

    /// Takes an upgradable read lock from synchronous code.
    ///
    /// The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// As [`blocking_read`](Self::blocking_read).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, UpgradeError};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("config", 1)?;
    /// let reading = lock.blocking_upgradable_read()?;
    /// *reading.blocking_upgrade().map_err(UpgradeError::into_error)? = 2;
    /// assert_eq!(*lock.blocking_read()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_upgradable_read(&self) -> Result<RwLockUpgradableReadGuard<'_, T, C>, LockError>
    where
        C: Upgradable,
    {
        block(self.upgradable_read())
    }

    /// Takes an upgradable read lock from synchronous code, and returns a guard that keeps the lock alive.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// As [`blocking_read`](Self::blocking_read).
    #[track_caller]
    pub fn blocking_upgradable_read_owned(
        self: Arc<Self>,
    ) -> Result<OwnedRwLockUpgradableReadGuard<T, C>, LockError>
    where
        C: Upgradable,
    {
        block(self.upgradable_read_owned())
    }

    /// Takes an upgradable read lock if that is possible now, without waiting for a holder.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read). The error is [`TryLockError::WouldBlock`] also if there is another
    /// upgradable reader.
    pub async fn try_upgradable_read(
        &self,
    ) -> Result<RwLockUpgradableReadGuard<'_, T, C>, TryLockError>
    where
        C: Upgradable,
    {
        Ok(Attempt(UpgradableRead::new(self.access(Mode::Upgradable, Wait::Try), self)).await?)
    }

    /// Takes an upgradable read lock if that is possible now, and returns a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`try_upgradable_read`](Self::try_upgradable_read).
    pub async fn try_upgradable_read_owned(
        self: Arc<Self>,
    ) -> Result<OwnedRwLockUpgradableReadGuard<T, C>, TryLockError>
    where
        C: Upgradable,
    {
        Ok(Attempt(UpgradableReadOwned::new(self.access(Mode::Upgradable, Wait::Try), self))
            .await?)
    }
}

future! {
    /// The future that [`RwLock::upgradable_read`] returns.
    #[must_use = "futures do nothing unless polled"]
    UpgradableRead['a, T: ?Sized, C]['a, T, C] default Convertible, (access: Access, lock: &'a RwLock<T, C>)
        -> Result<RwLockUpgradableReadGuard<'a, T, C>, Denial => LockError>
    |context| {
        let accessed = access.poll(context, || lock.data.try_read().ok());
        accessed.map_ok(|(hold, data)| RwLockUpgradableReadGuard {
            core: Guarded { data, hold, lock: *lock },
        })
    }
}

future! {
    /// The future that [`RwLock::upgradable_read_owned`] returns.
    #[must_use = "futures do nothing unless polled"]
    UpgradableReadOwned[T: ?Sized, C][T, C] default Convertible, (access: Access, lock: Arc<RwLock<T, C>>)
        -> Result<OwnedRwLockUpgradableReadGuard<T, C>, Denial => LockError>
    |context| {
        let accessed = access.poll(context, || Arc::clone(&lock.data).try_read_owned().ok());
        accessed.map_ok(|(hold, data)| OwnedRwLockUpgradableReadGuard {
            core: Guarded { data, hold, lock: Arc::clone(lock) },
        })
    }
}
