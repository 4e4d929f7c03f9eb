//! Reading with the prospect of writing.

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
    /// Locks this lock to read, as the one reader that may become the writer without letting go.
    ///
    /// Only over a backend that can convert a lease: over any other, as a quorum is, it does not compile.
    ///
    /// Beside it there may be any number of ordinary readers, but no other upgradable one, here or
    /// elsewhere: so two that want to write never wait for one another. Otherwise it waits as
    /// [`read`](Self::read) does, and its [`upgrade`](RwLockUpgradableReadGuard::upgrade) then waits for
    /// the ordinary readers.
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
    ///     // Nobody else can have written since the check.
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

    /// Locks this lock to read with the prospect of writing, waiting for at most `limit` from the first
    /// poll on.
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

    /// Locks this lock to read with the prospect of writing, for a guard that keeps the lock alive and
    /// borrows nothing.
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

    /// Locks this lock to read with the prospect of writing, waiting for at most `limit` from the first
    /// poll on, for a guard that keeps the lock alive.
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

    /// Locks this lock to read with the prospect of writing, from synchronous code.
    ///
    /// Needs no runtime of the caller's.
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

    /// Locks this lock to read with the prospect of writing, from synchronous code, for a guard that
    /// keeps the lock alive.
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

    /// Locks this lock to read with the prospect of writing, if that is possible now, without waiting for
    /// a holder.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read); [`TryLockError::WouldBlock`] also if there is another upgradable
    /// reader.
    pub async fn try_upgradable_read(
        &self,
    ) -> Result<RwLockUpgradableReadGuard<'_, T, C>, TryLockError>
    where
        C: Upgradable,
    {
        Ok(Attempt(UpgradableRead::new(self.access(Mode::Upgradable, Wait::Try), self)).await?)
    }

    /// Locks this lock to read with the prospect of writing, if that is possible now, for a guard that
    /// keeps the lock alive.
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
    /// Waits to read with the prospect of writing: what [`RwLock::upgradable_read`] returns.
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
    /// Waits to read with the prospect of writing: what [`RwLock::upgradable_read_owned`] returns.
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
