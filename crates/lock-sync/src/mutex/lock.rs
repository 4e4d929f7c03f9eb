//! The ways to lock a mutex, and the futures that wait for it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::Mode;
use pin_project::pin_project;

use super::{Mutex, MutexGuard, OwnedMutexGuard};
use crate::blocking::{assert_may_block, block_on};
use crate::engine::Wait;
use crate::error::{LockError, TryLockError};
use crate::locking::{Locking, lock_error, try_lock_error};

impl<T: ?Sized> Mutex<T> {
    /// Locks this mutex, waiting until it is free here and everywhere.
    ///
    /// Waits for as long as the [wait limit](crate::Builder::wait_limit) of its
    /// [`Locks`](crate::Locks) says. The future does nothing until it is first polled, and it can be
    /// polled by any executor.
    ///
    /// # Cancel safety
    ///
    /// Tasks are served in the order in which they first polled. Dropping the future gives up the
    /// place in that queue. Whatever it has asked of the store by then is undone in the background:
    /// if the lock was just granted, the next waiter gets it, or it is released within a round trip.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached;
    /// - [`LockError::Backend`] if the store refused or could not be reached for longer than a lease
    ///   lives, and there is no limit that says to wait longer;
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
        Lock::new(self, self.default_wait())
    }

    /// Locks this mutex, waiting for at most `limit` from the first poll on.
    ///
    /// A limit shorter than a round trip to the store is a limit on the store.
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
        Lock::new(self, Wait::AtMost(limit))
    }

    /// Locks this mutex from synchronous code.
    ///
    /// Needs no runtime of the caller's.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as tokio's. `spawn_blocking` and
    /// `block_in_place` are none.
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
        assert_may_block();
        self.lock().block()
    }

    /// Locks this mutex from synchronous code, for a guard that keeps the mutex alive.
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
        assert_may_block();
        self.lock_owned().block()
    }

    /// Locks this mutex, for a guard that keeps the mutex alive and borrows nothing.
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
        let wait = self.default_wait();
        LockOwned::new(self, wait)
    }

    /// Locks this mutex, waiting for at most `limit` from the first poll on, for a guard that keeps
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
        LockOwned::new(self, Wait::AtMost(limit))
    }

    /// Locks this mutex if nobody holds it, without waiting for a holder.
    ///
    /// Unlike tokio's it is `async`: if no task of this process holds or awaits the lock, it asks the
    /// store once. It waits for that answer, and for a release by this process that is under way, so
    /// that `drop(guard)` followed by `try_lock` succeeds.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if the lock is held, or awaited by another task of this process,
    ///   or if a guard whose lease was lost is still there;
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
        let mut locking = pin!(Locking::new(&self.entry, Mode::Exclusive, Wait::Try, self.manner));
        let take_data = || self.data.try_lock().ok();
        let locked = poll_fn(|context| locking.as_mut().poll(context, take_data)).await;
        let (hold, data) = locked.map_err(try_lock_error)?;
        Ok(MutexGuard::new(self, data, hold))
    }

    /// Locks this mutex if nobody holds it, for a guard that keeps the mutex alive.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock).
    pub async fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        let mut locking = pin!(Locking::new(&self.entry, Mode::Exclusive, Wait::Try, self.manner));
        let take_data = || Arc::clone(&self.data).try_lock_owned().ok();
        let locked = poll_fn(|context| locking.as_mut().poll(context, take_data)).await;
        let (hold, data) = locked.map_err(try_lock_error)?;
        Ok(OwnedMutexGuard::new(Arc::clone(&self), data, hold))
    }
}

/// Waits for a [`Mutex`]: what [`Mutex::lock`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    #[pin]
    locking: Locking,
}

impl<'a, T: ?Sized> Lock<'a, T> {
    pub(super) fn new(mutex: &'a Mutex<T>, wait: Wait) -> Self {
        Self { mutex, locking: Locking::new(&mutex.entry, Mode::Exclusive, wait, mutex.manner) }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<MutexGuard<'a, T>, LockError> {
        self.locking.on_driver();
        block_on(self)
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = Result<MutexGuard<'a, T>, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex: &'a Mutex<T> = this.mutex;
        this.locking
            .poll(context, || mutex.data.try_lock().ok())
            .map_ok(|(hold, data)| MutexGuard::new(mutex, data, hold))
            .map_err(lock_error)
    }
}

impl<T: ?Sized> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}

/// Waits for a [`Mutex`]: what [`Mutex::lock_owned`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct LockOwned<T: ?Sized> {
    #[pin]
    locking: Locking,
    mutex: Arc<Mutex<T>>,
}

impl<T: ?Sized> LockOwned<T> {
    pub(super) fn new(mutex: Arc<Mutex<T>>, wait: Wait) -> Self {
        Self { locking: Locking::new(&mutex.entry, Mode::Exclusive, wait, mutex.manner), mutex }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<OwnedMutexGuard<T>, LockError> {
        self.locking.on_driver();
        block_on(self)
    }
}

impl<T: ?Sized> Future for LockOwned<T> {
    type Output = Result<OwnedMutexGuard<T>, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex: &Arc<Mutex<T>> = this.mutex;
        this.locking
            .poll(context, || Arc::clone(&mutex.data).try_lock_owned().ok())
            .map_ok(|(hold, data)| OwnedMutexGuard::new(Arc::clone(mutex), data, hold))
            .map_err(lock_error)
    }
}

impl<T: ?Sized> fmt::Debug for LockOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockOwned").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}
