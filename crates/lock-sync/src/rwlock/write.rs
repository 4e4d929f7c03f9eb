//! The ways to lock for writing, and the futures that wait for it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Convertible, Mode};

use super::access::Access;
use super::{OwnedRwLockWriteGuard, RwLock, RwLockWriteGuard};
use crate::bare::{Denial, Wait};
use crate::error::{LockError, TryLockError};
use crate::guard::Guarded;
use crate::waits::{Attempt, block, future};

impl<T: ?Sized, C> RwLock<T, C> {
    /// Locks this lock to write. Waits until no other reader or writer holds the lock, in this process or another.
    ///
    /// Later readers wait behind this writer. The [wait limit](crate::Builder::wait_limit) of its
    /// [`Locks`](crate::Locks) bounds the wait. The future does nothing until it is first polled, and any executor
    /// can poll it.
    ///
    /// A task that already holds a read lock [would wait for itself](Self#deadlocks); see
    /// [`upgradable_read`](Self::upgradable_read).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read). Readers that waited behind this writer enter unless another writer is in the way.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("greeting", String::from("hello"))?;
    /// let mut greeting = lock.write().await?;
    /// greeting.push_str(", world");
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&self) -> Write<'_, T, C> {
        Write::new(self.access(Mode::Exclusive, self.default_wait()), self)
    }

    /// Locks this lock to write, waiting for at most `limit` from the first poll on.
    ///
    /// A limit shorter than a round trip to the store can end the wait although the lock is free.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn write_timeout(&self, limit: Duration) -> Write<'_, T, C> {
        Write::new(self.access(Mode::Exclusive, Wait::AtMost(limit)), self)
    }

    /// Locks this lock to write, and returns a guard that keeps the lock alive and borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
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
    /// let lock = Arc::new(locks.rwlock("queue", vec![1])?);
    /// let mut guard = Arc::clone(&lock).write_owned().await?;
    /// tokio::spawn(async move { guard.push(2) }).await?;
    /// assert_eq!(*lock.read().await?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_owned(self: Arc<Self>) -> WriteOwned<T, C> {
        WriteOwned::new(self.access(Mode::Exclusive, self.default_wait()), self)
    }

    /// Locks this lock to write, waiting for at most `limit` from the first poll on, and returns a guard that
    /// keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn write_owned_timeout(self: Arc<Self>, limit: Duration) -> WriteOwned<T, C> {
        WriteOwned::new(self.access(Mode::Exclusive, Wait::AtMost(limit)), self)
    }

    /// Locks this lock to write, from synchronous code.
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
    /// # use lock_sync::Locks;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("config", 1)?;
    /// *lock.blocking_write()? = 2;
    /// assert_eq!(*lock.blocking_read()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_write(&self) -> Result<RwLockWriteGuard<'_, T, C>, LockError> {
        block(self.write())
    }

    /// Locks this lock to write, from synchronous code, and returns a guard that keeps the lock alive.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// As [`blocking_read`](Self::blocking_read).
    #[track_caller]
    pub fn blocking_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T, C>, LockError> {
        block(self.write_owned())
    }

    /// Locks this lock to write if the lock is free, without waiting for a holder.
    ///
    /// Unlike tokio's method it is `async`: if no task of this process holds or awaits the lock, it asks the
    /// store once. It waits for that answer. If a release by this process is under way, it also waits for
    /// that release, so that `drop(guard)` followed by `try_write` succeeds.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if a reader or writer holds the lock, in this process or another; if another
    ///   task of this process waits for the lock; or if a guard with a lost lease still exists in this process;
    /// - [`TryLockError::Backend`] if the store could not be asked;
    /// - [`TryLockError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, TryLockError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("index", 0)?;
    /// let reading = lock.read().await?;
    /// assert!(matches!(lock.try_write().await, Err(TryLockError::WouldBlock)));
    /// drop(reading);
    /// assert!(lock.try_write().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_write(&self) -> Result<RwLockWriteGuard<'_, T, C>, TryLockError> {
        Ok(Attempt(Write::new(self.access(Mode::Exclusive, Wait::Try), self)).await?)
    }

    /// Locks this lock to write if the lock is free, and returns a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// As [`try_write`](Self::try_write).
    pub async fn try_write_owned(
        self: Arc<Self>,
    ) -> Result<OwnedRwLockWriteGuard<T, C>, TryLockError> {
        Ok(Attempt(WriteOwned::new(self.access(Mode::Exclusive, Wait::Try), self)).await?)
    }
}

future! {
    /// The future that [`RwLock::write`] returns.
    #[must_use = "futures do nothing unless polled"]
    Write['a, T: ?Sized, C]['a, T, C] default Convertible, (access: Access, lock: &'a RwLock<T, C>)
        -> Result<RwLockWriteGuard<'a, T, C>, Denial => LockError>
    |context| {
        let accessed = access.poll(context, || lock.data.try_write().ok());
        accessed.map_ok(|(hold, data)| RwLockWriteGuard { core: Guarded { data, hold, lock: *lock } })
    }
}

future! {
    /// The future that [`RwLock::write_owned`] returns.
    #[must_use = "futures do nothing unless polled"]
    WriteOwned[T: ?Sized, C][T, C] default Convertible, (access: Access, lock: Arc<RwLock<T, C>>)
        -> Result<OwnedRwLockWriteGuard<T, C>, Denial => LockError>
    |context| {
        let accessed = access.poll(context, || Arc::clone(&lock.data).try_write_owned().ok());
        accessed.map_ok(|(hold, data)| OwnedRwLockWriteGuard {
            core: Guarded { data, hold, lock: Arc::clone(lock) },
        })
    }
}
