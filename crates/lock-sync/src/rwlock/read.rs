//! The ways to lock for reading, and the futures that wait for it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Convertible;

use super::reading::Reading;
use super::{OwnedRwLockReadGuard, RwLock, RwLockReadGuard};
use crate::bare::{Denial, Wait};
use crate::error::{LockError, TryLockError};
use crate::guard::Guarded;
use crate::waits::{Attempt, block, future};

impl<T: ?Sized, C> RwLock<T, C> {
    /// Locks this lock to read, beside any number of other readers. Waits until no writer holds the lock, and
    /// until every earlier writer has had its turn, in this process or another.
    ///
    /// The [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) bounds the wait. The future does
    /// nothing until it is first polled, and any executor can poll it.
    ///
    /// If readers of this process hold the lock and no client waits, the call sends no request.
    ///
    /// A task that already holds a read lock [may deadlock](Self#deadlocks) here.
    ///
    /// # Cancel safety
    ///
    /// Tasks get the lock in the order in which their futures were first polled. A dropped future gives up its
    /// position in that line. The driver undoes the request of the dropped future in the background: if the
    /// store has just granted the lock, the next waiter gets the lock, or the driver releases it within a round
    /// trip.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached;
    /// - [`LockError::Backend`] if the store refused, or, without a wait limit, if the store was out of reach for
    ///   longer than a lease lives;
    /// - [`LockError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
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
    /// let lock = Arc::new(locks.rwlock("greeting", "hello")?);
    /// let mine = lock.read().await?;
    ///
    /// let theirs = Arc::clone(&lock);
    /// tokio::spawn(async move {
    ///     // While the main task holds a read lock, this one gets one too.
    ///     theirs.read().await.map(|greeting| println!("{greeting}"))
    /// })
    /// .await??;
    /// # drop(mine);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self) -> Read<'_, T, C> {
        Read::new(Reading::new(self.default_wait()), self)
    }

    /// Locks this lock to read, waiting for at most `limit` from the first poll on.
    ///
    /// A limit shorter than a round trip to the store can end the wait although the lock is free.
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
    /// # use lock_sync::{LockError, Locks};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("report", ())?;
    /// let writing = lock.write().await?;
    /// let reading = lock.read_timeout(Duration::from_millis(10)).await;
    /// assert!(matches!(reading, Err(LockError::Timeout { .. })));
    /// # drop(writing);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_timeout(&self, limit: Duration) -> Read<'_, T, C> {
        Read::new(Reading::new(Wait::AtMost(limit)), self)
    }

    /// Locks this lock to read, and returns a guard that keeps the lock alive and borrows nothing.
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
    /// # use std::sync::Arc;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = Arc::new(locks.rwlock("routes", vec!["a", "b"])?);
    /// let routes = Arc::clone(&lock).read_owned().await?;
    /// let counted = tokio::spawn(async move { routes.len() });
    /// assert_eq!(counted.await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_owned(self: Arc<Self>) -> ReadOwned<T, C> {
        ReadOwned::new(Reading::new(self.default_wait()), self)
    }

    /// Locks this lock to read, waiting for at most `limit` from the first poll on, and returns a guard that
    /// keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_owned_timeout(self: Arc<Self>, limit: Duration) -> ReadOwned<T, C> {
        ReadOwned::new(Reading::new(Wait::AtMost(limit)), self)
    }

    /// Locks this lock to read, from synchronous code.
    ///
    /// The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
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
    /// let lock = locks.rwlock("config", 1)?;
    /// let (first, second) = (lock.blocking_read()?, lock.blocking_read()?);
    /// assert_eq!(*first, *second);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_read(&self) -> Result<RwLockReadGuard<'_, T>, LockError> {
        block(self.read())
    }

    /// Locks this lock to read, from synchronous code, and returns a guard that keeps the lock alive.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// As [`blocking_read`](Self::blocking_read).
    #[track_caller]
    pub fn blocking_read_owned(
        self: Arc<Self>,
    ) -> Result<OwnedRwLockReadGuard<T, T, C>, LockError> {
        block(self.read_owned())
    }

    /// Locks this lock to read if that is possible now, without waiting for a holder.
    ///
    /// Unlike tokio's method it is `async`: it asks the store once, unless readers of this process hold the lock, or
    /// a writer or waiter of this process is in the way. It waits for that answer. If a release by this process is
    /// under way, it also waits for that release.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if a writer holds the lock, or another waiter came before, in this process or
    ///   another;
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
    /// let lock = locks.rwlock("index", ())?;
    /// let writing = lock.write().await?;
    /// assert!(matches!(lock.try_read().await, Err(TryLockError::WouldBlock)));
    /// drop(writing);
    /// assert!(lock.try_read().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        Ok(Attempt(Read::new(Reading::new(Wait::Try), self)).await?)
    }

    /// Locks this lock to read if that is possible now, and returns a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    pub async fn try_read_owned(
        self: Arc<Self>,
    ) -> Result<OwnedRwLockReadGuard<T, T, C>, TryLockError> {
        Ok(Attempt(ReadOwned::new(Reading::new(Wait::Try), self)).await?)
    }
}

future! {
    /// The future that [`RwLock::read`] returns.
    #[must_use = "futures do nothing unless polled"]
    Read['a, T: ?Sized, C]['a, T, C] default Convertible, (reading: Reading, lock: &'a RwLock<T, C>)
        -> Result<RwLockReadGuard<'a, T>, Denial => LockError>
    |context| {
        let read = reading.poll(context, &lock.core, || lock.data.try_read().ok());
        read.map_ok(|(hold, data)| RwLockReadGuard { core: Guarded { data, hold, lock: () } })
    }
}

future! {
    /// The future that [`RwLock::read_owned`] returns.
    #[must_use = "futures do nothing unless polled"]
    ReadOwned[T: ?Sized, C][T, C] default Convertible, (reading: Reading, lock: Arc<RwLock<T, C>>)
        -> Result<OwnedRwLockReadGuard<T, T, C>, Denial => LockError>
    |context| {
        let read = reading.poll(context, &lock.core, || Arc::clone(&lock.data).try_read_owned().ok());
        read.map_ok(|(hold, data)| OwnedRwLockReadGuard {
            core: Guarded { data, hold, lock: Arc::clone(lock) },
        })
    }
}
