//! The ways to lock a mutex, and the futures that wait for it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Mode;

use super::{Mutex, MutexGuard, OwnedMutexGuard};
use crate::bare::{Denial, Locking, Wait};
use crate::error::{LockError, TryLockError};
use crate::guard::Guarded;
use crate::waits::{Attempt, block, future};

impl<T: ?Sized> Mutex<T> {
    /// Locks this mutex. Waits until no other guard holds the lock, in this process or another.
    ///
    /// The [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) bounds the wait. The future does
    /// nothing until it is first polled, and any executor can poll it.
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
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.mutex("greeting", String::from("hello"))?;
    /// let mut greeting = mutex.lock().await?;
    /// greeting.push_str(", world");
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> Lock<'_, T> {
        Lock::new(self.locking(self.default_wait()), self)
    }

    /// Locks this mutex, waiting for at most `limit` from the first poll on.
    ///
    /// A limit shorter than a round trip to the store can end the wait although the lock is free.
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
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{LockError, Locks};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.mutex("report", ())?;
    /// let held = mutex.lock().await?;
    /// let second = mutex.lock_timeout(Duration::from_millis(10)).await;
    /// assert!(matches!(second, Err(LockError::Timeout { .. })));
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_timeout(&self, limit: Duration) -> Lock<'_, T> {
        Lock::new(self.locking(Wait::AtMost(limit)), self)
    }

    /// Locks this mutex from synchronous code.
    ///
    /// The caller needs no runtime.
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
    /// let mutex = locks.mutex("config", 1)?;
    /// assert_eq!(*mutex.blocking_lock()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_lock(&self) -> Result<MutexGuard<'_, T>, LockError> {
        block(self.lock())
    }

    /// Locks this mutex from synchronous code, and returns a guard that keeps the mutex alive.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Panics
    ///
    /// As [`blocking_lock`](Self::blocking_lock).
    #[track_caller]
    pub fn blocking_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, LockError> {
        block(self.lock_owned())
    }

    /// Locks this mutex, and returns a guard that keeps the mutex alive and borrows nothing.
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
    /// let mutex = Arc::new(locks.mutex("queue", vec![1])?);
    /// let mut guard = Arc::clone(&mutex).lock_owned().await?;
    /// tokio::spawn(async move { guard.push(2) }).await?;
    /// assert_eq!(*mutex.lock().await?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_owned(self: Arc<Self>) -> LockOwned<T> {
        LockOwned::new(self.locking(self.default_wait()), self)
    }

    /// Locks this mutex, waiting for at most `limit` from the first poll on, and returns a guard that keeps
    /// the mutex alive.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn lock_owned_timeout(self: Arc<Self>, limit: Duration) -> LockOwned<T> {
        LockOwned::new(self.locking(Wait::AtMost(limit)), self)
    }

    /// Locks this mutex if the lock is free, without waiting for a holder.
    ///
    /// Unlike tokio's method it is `async`: if no task of this process holds or awaits the lock, it asks the
    /// store once. It waits for that answer. If a release by this process is under way, it also waits for
    /// that release, so that `drop(guard)` followed by `try_lock` succeeds.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if the lock has a holder, if another task of this process waits
    ///   for the lock, or if a guard with a lost lease still exists in this process;
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
    /// let mutex = locks.mutex("leader", ())?;
    /// let guard = mutex.try_lock().await?;
    /// assert!(matches!(mutex.try_lock().await, Err(TryLockError::WouldBlock)));
    /// drop(guard);
    /// assert!(mutex.try_lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        Ok(Attempt(Lock::new(self.locking(Wait::Try), self)).await?)
    }

    /// Locks this mutex if the lock is free, and returns a guard that keeps the mutex alive.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock).
    pub async fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        Ok(Attempt(LockOwned::new(self.locking(Wait::Try), self)).await?)
    }

    fn locking(&self, wait: Wait) -> Locking {
        self.lock.locking(Mode::Exclusive, wait)
    }
}

future! {
    /// The future that [`Mutex::lock`] returns.
    #[must_use = "futures do nothing unless polled"]
    Lock['a, T: ?Sized]['a, T](locking: Locking, mutex: &'a Mutex<T>)
        -> Result<MutexGuard<'a, T>, Denial => LockError>
    |context| {
        let locked = locking.poll(context, || mutex.data.try_lock().ok());
        locked.map_ok(|(hold, data)| MutexGuard { core: Guarded { data, hold, lock: *mutex } })
    }
}

future! {
    /// The future that [`Mutex::lock_owned`] returns.
    #[must_use = "futures do nothing unless polled"]
    LockOwned[T: ?Sized][T](locking: Locking, mutex: Arc<Mutex<T>>)
        -> Result<OwnedMutexGuard<T>, Denial => LockError>
    |context| {
        let locked = locking.poll(context, || Arc::clone(&mutex.data).try_lock_owned().ok());
        locked.map_ok(|(hold, data)| OwnedMutexGuard {
            core: Guarded { data, hold, lock: Arc::clone(mutex) },
        })
    }
}
