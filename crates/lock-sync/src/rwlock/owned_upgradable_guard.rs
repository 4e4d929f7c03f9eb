//! The guard that reads and may come to write, and keeps its lock alive.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Mode;

use super::seats::Seated;
use super::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, UpgradeError, UpgradeOwned};
use crate::blocking::assert_may_block;
use crate::engine::Wait;
use crate::error::TryLockError;
use crate::lease_methods::{lease_methods, lease_scope, reader_traits};

/// An [`RwLockUpgradableReadGuard`](super::RwLockUpgradableReadGuard) that borrows nothing: it keeps an
/// `Arc` of its lock.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockUpgradableReadGuard<T: ?Sized> {
    // In this order: see `OwnedRwLockWriteGuard`.
    data: tokio::sync::OwnedRwLockReadGuard<T>,
    hold: Seated,
    lock: Arc<RwLock<T>>,
}

impl<T: ?Sized> OwnedRwLockUpgradableReadGuard<T> {
    pub(super) fn new(
        data: tokio::sync::OwnedRwLockReadGuard<T>,
        hold: Seated,
        lock: Arc<RwLock<T>>,
    ) -> Self {
        Self { data, hold, lock }
    }

    /// The lock that this guard came from.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.lock
    }

    /// Goes on to write, waiting until the other readers have left: see
    /// [`RwLockUpgradableReadGuard::upgrade`](super::RwLockUpgradableReadGuard::upgrade).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future lets go of the lock altogether. To keep on reading when it takes too long, use
    /// [`upgrade_timeout`](Self::upgrade_timeout).
    ///
    /// # Errors
    ///
    /// As [`RwLock::read`], each with the guard, which reads as before.
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
    pub fn upgrade(self) -> UpgradeOwned<T> {
        let wait = self.lock.default_wait();
        self.upgrading(wait)
    }

    /// Goes on to write, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    pub fn upgrade_timeout(self, limit: Duration) -> UpgradeOwned<T> {
        self.upgrading(Wait::AtMost(limit))
    }

    /// Goes on to write, from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Panics
    ///
    /// As [`RwLock::blocking_read`].
    #[track_caller]
    pub fn blocking_upgrade(self) -> Result<OwnedRwLockWriteGuard<T>, UpgradeError<Self>> {
        assert_may_block();
        self.upgrade().block()
    }

    /// Goes on to write if there are no other readers, without waiting for one.
    ///
    /// # Cancel safety
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Errors
    ///
    /// As [`RwLock::try_write`], each with the guard, which reads as before.
    pub async fn try_upgrade(
        self,
    ) -> Result<OwnedRwLockWriteGuard<T>, UpgradeError<Self, TryLockError>> {
        self.upgrading(Wait::Try).attempt().await
    }

    /// Goes on to read without the prospect of writing, so that another reader can have it.
    ///
    /// No writer gets in between. The guard keeps its fencing token.
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T> {
        let Self { data, mut hold, lock } = self;
        hold.downgrade(Mode::Shared);
        OwnedRwLockReadGuard::new(data, hold, lock)
    }

    fn upgrading(self, wait: Wait) -> UpgradeOwned<T> {
        let Self { data, hold, lock } = self;
        UpgradeOwned::new(data, hold, lock, wait)
    }

    lease_methods!(shared);
    lease_scope!(shared, T, "upgradable_read");
}

reader_traits!([T: ?Sized], OwnedRwLockUpgradableReadGuard<T>, T);
