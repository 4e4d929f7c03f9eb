//! The ways to upgrade from reading to writing.

use std::time::Duration;

use super::upgrade::Climb;
use super::{
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, Upgrade, UpgradeError, UpgradeOwned,
};
use crate::bare::Wait;
use crate::error::TryLockError;
use crate::guard::Guarded;
use crate::waits::{Attempt, block};

impl<'a, T: ?Sized, C> RwLockUpgradableReadGuard<'a, T, C> {
    /// Upgrades to a write lock, waiting until the other readers have left, in this process and others.
    ///
    /// The upgrade goes before all other waiters of the lock. The caller keeps the read lock until it has the write
    /// lock, so no other writer can write in between. Later readers wait behind the upgrade. The write guard has a
    /// fencing token of its own, above the tokens of all readers.
    ///
    /// The [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) bounds the wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock up altogether. To go on reading after a long wait, use
    /// [`upgrade_timeout`](Self::upgrade_timeout).
    ///
    /// # If the lease is lost
    ///
    /// The error is [`LockError::Lost`](crate::LockError::Lost), and the guard that it gives back
    /// is no longer [valid](crate::Lease::is_valid).
    ///
    /// # Errors
    ///
    /// As [`RwLock::read`](crate::RwLock::read). Each error gives the guard back, which reads as before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("orders", vec![1])?;
    /// let orders = lock.upgradable_read().await?;
    /// if orders.is_empty() {
    ///     return Ok(());
    /// }
    /// match orders.upgrade().await {
    ///     Ok(mut orders) => orders.clear(),
    ///     Err(error) => {
    ///         eprintln!("{}", error.error());
    ///         let orders = error.into_guard();
    ///         println!("still reading {} orders", orders.len());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade(self) -> Upgrade<'a, T, C> {
        let wait = self.core.lock.default_wait();
        self.upgrading(wait)
    }

    /// Upgrades to a write lock, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{LockError, Locks};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("orders", 0)?;
    /// let another = lock.read().await?;
    /// let reading = lock.upgradable_read().await?;
    /// let error = reading.upgrade_timeout(Duration::from_millis(10)).await.unwrap_err();
    /// assert!(matches!(error.error(), LockError::Timeout { .. }));
    ///
    /// drop(another);
    /// let reading = error.into_guard();
    /// assert!(reading.upgrade().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade_timeout(self, limit: Duration) -> Upgrade<'a, T, C> {
        self.upgrading(Wait::AtMost(limit))
    }

    /// Upgrades to a write lock, from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Panics
    ///
    /// As [`RwLock::blocking_read`](crate::RwLock::blocking_read).
    #[track_caller]
    pub fn blocking_upgrade(self) -> Result<RwLockWriteGuard<'a, T, C>, UpgradeError<Self>> {
        block(self.upgrade())
    }

    /// Upgrades to a write lock if there are no other readers, without waiting for them.
    ///
    /// # Cancel safety
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Errors
    ///
    /// As [`RwLock::try_write`](crate::RwLock::try_write). Each error gives the guard back, which reads as before.
    pub async fn try_upgrade(
        self,
    ) -> Result<RwLockWriteGuard<'a, T, C>, UpgradeError<Self, TryLockError>> {
        Ok(Attempt(self.upgrading(Wait::Try)).await?)
    }

    fn upgrading(self, wait: Wait) -> Upgrade<'a, T, C> {
        let Guarded { data, hold, lock } = self.core;
        Upgrade::new(Climb::new(data, hold, wait), lock)
    }
}

impl<T: ?Sized, C> OwnedRwLockUpgradableReadGuard<T, C> {
    /// Upgrades to a write lock, waiting until the other readers have left: see
    /// [`RwLockUpgradableReadGuard::upgrade`](super::RwLockUpgradableReadGuard::upgrade).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock up altogether. To go on reading after a long wait, use
    /// [`upgrade_timeout`](Self::upgrade_timeout).
    ///
    /// # Errors
    ///
    /// As [`RwLock::read`](crate::RwLock::read). Each error gives the guard back, which reads as before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = Arc::new(locks.rwlock("orders", 1)?);
    /// let orders = Arc::clone(&lock).upgradable_read_owned().await?;
    /// tokio::spawn(async move {
    ///     *orders.upgrade().await? += 1;
    ///     Ok::<_, lock_sync::LockError>(())
    /// })
    /// .await??;
    /// assert_eq!(*lock.read().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade(self) -> UpgradeOwned<T, C> {
        let wait = self.core.lock.default_wait();
        self.upgrading(wait)
    }

    /// Upgrades to a write lock, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    pub fn upgrade_timeout(self, limit: Duration) -> UpgradeOwned<T, C> {
        self.upgrading(Wait::AtMost(limit))
    }

    /// Upgrades to a write lock, from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Panics
    ///
    /// As [`RwLock::blocking_read`](crate::RwLock::blocking_read).
    #[track_caller]
    pub fn blocking_upgrade(self) -> Result<OwnedRwLockWriteGuard<T, C>, UpgradeError<Self>> {
        block(self.upgrade())
    }

    /// Upgrades to a write lock if there are no other readers, without waiting for them.
    ///
    /// # Cancel safety
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Errors
    ///
    /// As [`RwLock::try_write`](crate::RwLock::try_write). Each error gives the guard back, which reads as before.
    pub async fn try_upgrade(
        self,
    ) -> Result<OwnedRwLockWriteGuard<T, C>, UpgradeError<Self, TryLockError>> {
        Ok(Attempt(self.upgrading(Wait::Try)).await?)
    }

    fn upgrading(self, wait: Wait) -> UpgradeOwned<T, C> {
        let Guarded { data, hold, lock } = self.core;
        UpgradeOwned::new(Climb::new(data, hold, wait), lock)
    }
}
