//! The ways to acquire permits.

use std::sync::Arc;
use std::time::Duration;

use super::Semaphore;
use super::acquire::{Acquire, AcquireOwned};
use super::error::{AcquireError, TryAcquireError};
use super::permit::{OwnedSemaphorePermit, SemaphorePermit};
use crate::bare::Wait;
use crate::waits::{Attempt, block};

impl Semaphore {
    /// Acquires a permit, waiting until one is free.
    ///
    /// The [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) bounds the wait. The future does
    /// nothing until it is first polled, and any executor can poll it.
    ///
    /// # Cancel safety
    ///
    /// Tasks get permits in the order in which their futures were first polled. A dropped future gives up its
    /// position in that line. The driver undoes the request of the dropped future in the background: a permit that
    /// was just granted goes to the next waiter.
    ///
    /// # Errors
    ///
    /// - [`AcquireError::Closed`] once the semaphore is closed, for this handle or for all, and after
    ///   [`Locks::shutdown`](crate::Locks::shutdown);
    /// - [`AcquireError::Timeout`] if the wait limit was reached;
    /// - [`AcquireError::Backend`] if the store refused, for example because another number of permits was
    ///   declared for this name; or, without a wait limit, if the store was out of reach for longer than a lease
    ///   lives.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let downloads = locks.semaphore("downloads", 4)?;
    /// let permit = downloads.acquire().await?;
    /// assert_eq!(downloads.available_permits().await?, 3);
    /// permit.release().await?;
    /// assert_eq!(downloads.available_permits().await?, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<'_> {
        self.acquire_many(1)
    }

    /// Acquires several permits at once, waiting until that many are free.
    ///
    /// The call acquires all of them or none. The first request in the line collects the permits that holders
    /// give back meanwhile, and no later request gets them, in any process.
    ///
    /// A request for zero permits succeeds at once, unless the handle knows that the semaphore [is
    /// closed](Self::is_closed), or the locks have shut down. A request for more permits than the semaphore has waits
    /// until permits are [added](Self::add_permits), and all later requests wait behind it.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire). The collected permits go to the next waiters.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let megabytes = locks.semaphore("cache/megabytes", 512)?;
    /// let permit = megabytes.acquire_many(64).await?;
    /// assert_eq!(permit.num_permits(), 64);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_many(&self, n: u32) -> Acquire<'_> {
        Acquire::new(self.waiting(n, self.default_wait()), self)
    }

    /// Acquires a permit, waiting for at most `limit` from the first poll on.
    ///
    /// A limit shorter than a round trip to the store can end the wait although a permit is free.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{AcquireError, Locks};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let printers = locks.semaphore("printers", 1)?;
    /// let _permit = printers.acquire().await?;
    /// let second = printers.acquire_timeout(Duration::from_millis(10)).await;
    /// assert_eq!(second.err(), Some(AcquireError::Timeout { source: None }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_timeout(&self, limit: Duration) -> Acquire<'_> {
        self.acquire_many_timeout(1, limit)
    }

    /// Acquires several permits at once, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub fn acquire_many_timeout(&self, n: u32, limit: Duration) -> Acquire<'_> {
        Acquire::new(self.waiting(n, Wait::AtMost(limit)), self)
    }

    /// Acquires a permit that keeps the semaphore alive and borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
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
    /// let jobs = Arc::new(locks.semaphore("jobs", 8)?);
    /// let permit = Arc::clone(&jobs).acquire_owned().await?;
    /// tokio::spawn(async move {
    ///     // ... the work ...
    ///     drop(permit);
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_owned(self: Arc<Self>) -> AcquireOwned {
        self.acquire_many_owned(1)
    }

    /// Acquires several permits at once that keep the semaphore alive and borrow nothing.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub fn acquire_many_owned(self: Arc<Self>, n: u32) -> AcquireOwned {
        AcquireOwned::new(self.waiting(n, self.default_wait()), self)
    }

    /// Acquires a permit that keeps the semaphore alive, waiting for at most `limit` from the first poll
    /// on.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_owned_timeout(self: Arc<Self>, limit: Duration) -> AcquireOwned {
        self.acquire_many_owned_timeout(1, limit)
    }

    /// Acquires several permits at once that keep the semaphore alive, waiting for at most `limit` from
    /// the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub fn acquire_many_owned_timeout(self: Arc<Self>, n: u32, limit: Duration) -> AcquireOwned {
        AcquireOwned::new(self.waiting(n, Wait::AtMost(limit)), self)
    }

    /// Acquires a permit if one is free, without waiting for one.
    ///
    /// Unlike tokio's method it is `async`: if no task of this process waits for permits, it asks the store once.
    /// It waits for that answer. If a release by this process is under way, it also waits for that release, so
    /// that `drop(permit)` followed by `try_acquire` succeeds.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// - [`TryAcquireError::NoPermits`] if too few permits are free, or another request waits for permits;
    /// - [`TryAcquireError::Closed`] as [`acquire`](Self::acquire);
    /// - [`TryAcquireError::Backend`] if the store refused or could not be asked.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, TryAcquireError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let gate = locks.semaphore("gate", 1)?;
    /// let permit = gate.try_acquire().await?;
    /// assert_eq!(gate.try_acquire().await.err(), Some(TryAcquireError::NoPermits));
    /// drop(permit);
    /// assert!(gate.try_acquire().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1).await
    }

    /// Acquires several permits at once if that many are free, without waiting for them.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        Ok(Attempt(Acquire::new(self.waiting(n, Wait::Try), self)).await?)
    }

    /// Acquires a permit that keeps the semaphore alive, if one is free.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_owned(
        self: Arc<Self>,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1).await
    }

    /// Acquires several permits at once that keep the semaphore alive, if that many are free.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        Ok(Attempt(AcquireOwned::new(self.waiting(n, Wait::Try), self)).await?)
    }

    /// Acquires a permit from synchronous code.
    ///
    /// The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
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
    /// let slots = locks.semaphore("slots", 3)?;
    /// let permit = slots.blocking_acquire_many(2)?;
    /// assert_eq!(permit.num_permits(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.blocking_acquire_many(1)
    }

    /// Acquires several permits at once from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Panics
    ///
    /// As [`blocking_acquire`](Self::blocking_acquire).
    #[track_caller]
    pub fn blocking_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        block(self.acquire_many(n))
    }

    /// Acquires a permit that keeps the semaphore alive, from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// As [`blocking_acquire`](Self::blocking_acquire).
    #[track_caller]
    pub fn blocking_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.blocking_acquire_many_owned(1)
    }

    /// Acquires several permits at once that keep the semaphore alive, from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Panics
    ///
    /// As [`blocking_acquire`](Self::blocking_acquire).
    #[track_caller]
    pub fn blocking_acquire_many_owned(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        block(self.acquire_many_owned(n))
    }
}
