//! The ways to lock, and updates.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LoadedValue;

use super::StoredMutex;
use super::codec::Codec;
use super::core::Core;
use super::error::{NoGuard, StoredUpdateError};
use super::guard::StoredMutexGuard;
use crate::bare::{Denial, Hold, Limit, Wait};
use crate::blocking::{assert_may_block, block_on};
use crate::error::{LockError, TryLockError};

impl<T, C: Codec<T>> StoredMutex<T, C> {
    /// Locks this mutex. Waits until no other guard holds the lock, in this process or another. The guard has the last
    /// stored value.
    ///
    /// The [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) bounds the wait. The guard borrows
    /// nothing. If the store can send the value with the grant, it does. Otherwise the call loads the value.
    ///
    /// # Cancel safety
    ///
    /// Tasks get the lock in the order in which their futures were first polled. A dropped future gives up its
    /// position in that line, and the driver undoes its request, as with [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached;
    /// - [`LockError::Value`] if the codec cannot read the stored value: the lock is released, and the value stays
    ///   as it is;
    /// - [`LockError::Backend`] if the store refused, or, without a wait limit, if the store was out of reach for
    ///   longer than a lease lives;
    /// - [`LockError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let names = locks.stored_mutex("names", vec!["Ada".to_owned()])?;
    /// let mut guard = names.lock().await?;
    /// guard.push("Grace".to_owned());
    /// guard.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock(&self) -> Result<StoredMutexGuard<T, C>, LockError> {
        Ok(self.lock_within(&self.core, self.core.remote.bare().default_wait()).await?)
    }

    /// Locks this mutex, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn lock_timeout(&self, limit: Duration) -> Result<StoredMutexGuard<T, C>, LockError> {
        Ok(self.lock_within(&self.core, Wait::AtMost(limit)).await?)
    }

    /// Locks this mutex if the lock is free, without waiting for a holder.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if the lock has a holder, or another task of this process waits for it;
    /// - [`TryLockError::Backend`] if a request has failed: the call repeats none;
    /// - else as [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, TryLockError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let counter = locks.stored_mutex("counter", 0)?;
    /// let guard = counter.try_lock().await?;
    /// assert!(matches!(counter.try_lock().await, Err(TryLockError::WouldBlock)));
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock(&self) -> Result<StoredMutexGuard<T, C>, TryLockError> {
        Ok(self.lock_within(&self.core, Wait::Try).await?)
    }

    /// Locks this mutex, as [`lock`](Self::lock) does. The future borrows nothing, either.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
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
    /// let counter = Arc::new(locks.stored_mutex("counter", 0)?);
    /// let locking = tokio::spawn(Arc::clone(&counter).lock_owned());
    /// let mut guard = locking.await??;
    /// *guard += 1;
    /// guard.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock_owned(self: Arc<Self>) -> Result<StoredMutexGuard<T, C>, LockError> {
        self.lock().await
    }

    /// Locks this mutex from synchronous code. The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as with tokio. The code in `spawn_blocking` or
    /// `block_in_place` is not in such a context.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let counter = locks.stored_mutex("counter", 0)?;
    /// let mut guard = counter.blocking_lock()?;
    /// *guard += 1;
    /// guard.blocking_commit()?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_lock(&self) -> Result<StoredMutexGuard<T, C>, LockError> {
        assert_may_block();
        let core = self.core.on_driver();
        Ok(block_on(self.lock_within(&core, core.remote.bare().default_wait()))?)
    }

    /// Locks this mutex, changes the value, and commits it. Returns what the closure returns.
    ///
    /// The closure runs once, and only under the lock. If it panics, nothing is stored.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock) before the closure has run, and as [`StoredMutexGuard::commit`] afterwards.
    ///
    /// # Errors
    ///
    /// - [`StoredUpdateError::Lock`] if there was no guard: the closure has not run;
    /// - [`StoredUpdateError::Commit`] if the commit failed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let numbers = locks.stored_mutex("invoice-number", 0)?;
    /// let number = numbers
    ///     .update(|last| {
    ///         *last += 1;
    ///         *last
    ///     })
    ///     .await?;
    /// assert_eq!(number, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update<R>(
        &self,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, StoredUpdateError<T, C>> {
        let mut guard = self.lock().await?;
        let result = change(&mut guard);
        guard.commit().await?;
        Ok(result)
    }

    /// Waits for the lock and for the value.
    pub(super) async fn lock_within(
        &self,
        core: &Core<C>,
        wait: Wait,
    ) -> Result<StoredMutexGuard<T, C>, NoGuard> {
        let limit = Limit::of(wait, core.remote.bare());
        loop {
            match self.hold_within(core, limit).await {
                Ok((hold, loaded)) => return self.guard(core, hold, &loaded),
                // The lease was lost before the value was there: begin anew.
                Err(Denial::Lost(_)) => {}
                Err(denial) => return Err(denial.into()),
            }
        }
    }

    async fn hold_within(
        &self,
        core: &Core<C>,
        limit: Limit,
    ) -> Result<(Hold, LoadedValue), Denial> {
        let bare = core.remote.bare();
        let mut hold = core.remote.lock(limit.wait(bare)).await?;
        let loaded = match hold.value() {
            Some(value) if value.cell().is_none_or(|cell| cell.settled) => value,
            _ => limit.bound(bare, core.remote.value_under(&mut hold, limit)).await?,
        };
        Ok((hold, loaded))
    }

    fn guard(
        &self,
        core: &Core<C>,
        hold: Hold,
        loaded: &LoadedValue,
    ) -> Result<StoredMutexGuard<T, C>, NoGuard> {
        let cell = loaded.cell();
        let bytes = cell.map_or(&*self.initial, |cell| &cell.value);
        let value = core.codec.decode(bytes).map_err(NoGuard::Unreadable)?;
        Ok(StoredMutexGuard::new(value, cell.map(|cell| cell.token), hold, core.clone()))
    }
}
