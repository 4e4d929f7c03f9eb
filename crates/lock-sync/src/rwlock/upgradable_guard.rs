//! The guard that reads and may come to write, and borrows its lock.

use std::time::Duration;

use lock_core::Mode;

use super::seats::Seated;
use super::{RwLock, RwLockReadGuard, RwLockWriteGuard, Upgrade, UpgradeError};
use crate::blocking::assert_may_block;
use crate::engine::Wait;
use crate::error::TryLockError;
use crate::lease_methods::{lease_methods, lease_scope, reader_traits};

/// The right to read the data of an [`RwLock`] and to be the next to write it, and a lease on its lock.
///
/// Dropping it, and losing its lease, are as with [`RwLockReadGuard`].
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockUpgradableReadGuard<'a, T: ?Sized> {
    // In this order: whoever gets the lock next finds the data free.
    data: tokio::sync::RwLockReadGuard<'a, T>,
    hold: Seated,
    lock: &'a RwLock<T>,
}

impl<'a, T: ?Sized> RwLockUpgradableReadGuard<'a, T> {
    pub(super) fn new(
        data: tokio::sync::RwLockReadGuard<'a, T>,
        hold: Seated,
        lock: &'a RwLock<T>,
    ) -> Self {
        Self { data, hold, lock }
    }

    /// Goes on to write, waiting until the other readers have left, here and elsewhere.
    ///
    /// It goes before everybody who waits for the lock, and until it writes it reads: nobody else can have
    /// written in between. Readers who come later wait behind it. The guard that it becomes has a
    /// fencing token of its own, above those of all readers.
    ///
    /// Waits for as long as the [wait limit](crate::Builder::wait_limit) of its
    /// [`Locks`](crate::Locks) says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future lets go of the lock altogether. To keep on reading when it takes too long, use
    /// [`upgrade_timeout`](Self::upgrade_timeout).
    ///
    /// # If the lease is lost
    ///
    /// The error is [`LockError::Lost`](crate::LockError::Lost), and the guard that it gives back
    /// [is no longer valid](Self::is_valid).
    ///
    /// # Errors
    ///
    /// As [`RwLock::read`], each with the guard, which reads as before.
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
    pub fn upgrade(self) -> Upgrade<'a, T> {
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
    /// assert!(reading.is_valid() && reading.try_upgrade().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade_timeout(self, limit: Duration) -> Upgrade<'a, T> {
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
    pub fn blocking_upgrade(self) -> Result<RwLockWriteGuard<'a, T>, UpgradeError<Self>> {
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
    ) -> Result<RwLockWriteGuard<'a, T>, UpgradeError<Self, TryLockError>> {
        self.upgrading(Wait::Try).attempt().await
    }

    /// Goes on to read without the prospect of writing, so that another reader can have it.
    ///
    /// No writer gets in between. The guard keeps its fencing token.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let Self { data, mut hold, .. } = self;
        hold.downgrade(Mode::Shared);
        RwLockReadGuard::new(data, hold)
    }

    fn upgrading(self, wait: Wait) -> Upgrade<'a, T> {
        let Self { data, hold, lock } = self;
        Upgrade::new(data, hold, lock, wait)
    }

    lease_methods!(shared);
    lease_scope!(shared, T, "upgradable_read");
}

reader_traits!(['a, T: ?Sized], RwLockUpgradableReadGuard<'a, T>, T);
