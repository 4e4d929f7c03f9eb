//! The removal of everything that a lock keeps in the store.

use std::error::Error as StdError;
use std::fmt;

use futures::future::BoxFuture;
use lock_core::{Capability, CellBackend, Error, InspectBackend, Inspection, Key, Mode, Stored};

use crate::bare::{BareLock, Denial, Hold, Limit, Retries, Wait};
use crate::error::{LeaseLost, LockError};
use crate::locks::Locks;

/// Why a lock was not destroyed. [`Locks::destroy`] returns it, with an [example](Locks::destroy).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestroyError {
    /// The lock has a holder or a waiter. Nothing was removed.
    ///
    /// The inspection shows the holders with their [labels](crate::Builder::label), as the store saw them a moment
    /// later. It is `None` if the store could not tell. `Display` names the first holders.
    InUse(Option<Inspection>),
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called. Nothing was removed.
    Closed,
    /// The lease of this call is lost. A part may have been removed.
    Lost(LeaseLost),
    /// The backend failed. If the error is [retryable](Error::is_retryable), a part may have been removed: call again.
    Backend(Error),
}

impl fmt::Display for DestroyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(Some(seen)) if seen.holding + seen.waiting > 0 => {
                write!(f, "the lock is in use: {seen}")
            }
            Self::InUse(_) => f.write_str("the lock is in use"),
            Self::Closed => f.write_str("the locks are shut down"),
            Self::Lost(_) => f.write_str("the lease was lost while the lock was destroyed"),
            Self::Backend(_) => f.write_str("the backend failed"),
        }
    }
}

impl StdError for DestroyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::InUse(_) | Self::Closed => None,
            Self::Lost(source) => Some(source),
            Self::Backend(source) => Some(source),
        }
    }
}

impl From<Error> for DestroyError {
    fn from(error: Error) -> Self {
        Self::Backend(error)
    }
}

impl From<Denial> for DestroyError {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::WouldBlock | Denial::Timeout(None) => Self::InUse(None),
            Denial::Closed => Self::Closed,
            Denial::Lost(lost) => Self::Lost(lost),
            Denial::Timeout(Some(error)) | Denial::Failed(error) => Self::Backend(error),
        }
    }
}

/// [`InUse`](DestroyError::InUse) becomes a [`Timeout`](LockError::Timeout) without a source.
impl From<DestroyError> for LockError {
    fn from(error: DestroyError) -> Self {
        match error {
            DestroyError::InUse(_) => Self::Timeout { source: None },
            DestroyError::Closed => Self::Closed,
            DestroyError::Lost(lost) => Self::Lost(lost),
            DestroyError::Backend(error) => Self::Backend(error),
        }
    }
}

impl<B: ?Sized> Locks<B> {
    /// Removes what the lock with this name keeps in the store beyond its leases, if the lock is free.
    ///
    /// Use it for names that are no longer in use, and to start again with a stored value or a number of permits. It
    /// removes:
    ///
    /// - the value of a [`StoredMutex`](crate::StoredMutex), a [`OnceCell`](crate::OnceCell) or an
    ///   [`Election`](crate::Election);
    /// - the number of permits of a [`Semaphore`](crate::Semaphore), and its closed state. The next process that uses
    ///   the semaphore declares its number, as the first process did. Handles that knew of the closed state give out
    ///   permits again.
    ///
    /// The call removes the number of permits only if the backend [names](lock_core::Backend::capabilities) that
    /// capability. A quorum has no semaphores. For a value, it keeps a mark of 16 bytes in place of the value until
    /// every node has the mark, so that the value does not come back from a node that was out of reach.
    ///
    /// The call removes the data of this name alone. A primitive that uses several names, such as a
    /// [`Barrier`](crate::Barrier) or a [`SlotSemaphore`](crate::SlotSemaphore), keeps the data of its other names. A
    /// process that has read the value of a `OnceCell` goes on with this value.
    ///
    /// # Fencing tokens
    ///
    /// The counter of the tokens stays, and the next holder gets a higher token than every earlier holder. A store may
    /// forget the counter of an unused lock, whether the lock was destroyed or not: `lock-redis` does so after its
    /// [retention](https://docs.rs/lock-redis/latest/lock_redis/struct.Builder.html#method.retention), and then goes on
    /// from the clock of the server. It does not forget the counter of a destroyed lock sooner.
    ///
    /// # A lock with a holder
    ///
    /// The call takes the lock as [`Mutex::try_lock`](crate::Mutex::try_lock) does, removes everything under its own
    /// lease, and releases the lock. So it excludes every holder, and removes nothing while a guard or a permit exists
    /// in any process, or while a caller waits. [`force_release`](Self::force_release) ends the leases of holders that
    /// are stuck.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a part may have been removed, and the driver releases the lock in the background. Call
    /// again.
    ///
    /// # Errors
    ///
    /// [`DestroyError::InUse`] if the lock has a holder or a waiter: the message names the holder. Before any request
    /// is sent, [`DestroyError::Backend`] with [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) for a name
    /// that is too long.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// use lock_sync::{DestroyError, StoredMutexGuard};
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let stock = locks.stored_mutex("stock/apples", 3)?;
    /// let guard = stock.lock().await?;
    /// // For example `the lock is in use: held by billing@web-3:71 (exclusive, token 7, 8.2s left)`.
    /// let error = locks.destroy("stock/apples").await.unwrap_err();
    /// assert!(matches!(error, DestroyError::InUse(_)), "{error}");
    ///
    /// let token = StoredMutexGuard::lease(&guard).fencing_token();
    /// StoredMutexGuard::commit(guard).await?;
    /// locks.destroy("stock/apples").await?;
    ///
    /// // The next holder finds the initial value, and has a higher token.
    /// let guard = stock.lock().await?;
    /// assert_eq!(*guard, 3);
    /// assert!(StoredMutexGuard::lease(&guard).fencing_token() > token);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn destroy<K>(&self, name: K) -> Result<(), DestroyError>
    where
        B: CellBackend + InspectBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let lock = self.bare_lock(name)?;
        let mut hold = match lock.acquire(Mode::Exclusive, Wait::Try).await.map_err(Into::into) {
            Ok(hold) => hold,
            Err(DestroyError::InUse(_)) => {
                let seen = lock.ask(self.backend.inspect(lock.key())).await;
                return Err(DestroyError::InUse(seen.ok()));
            }
            Err(error) => return Err(error),
        };
        self.remove(&lock, &mut hold).await?;
        if let Err(error) = hold.release().await {
            // Everything is removed. The driver goes on with the release, or the lease has ended.
            tracing::debug!(key = %lock.key(), %error, "the release after destroying was not confirmed");
        }
        Ok(())
    }

    /// Removes everything under this hold. Until then no later holder can have the lease.
    async fn remove(&self, lock: &BareLock, hold: &mut Hold) -> Result<(), DestroyError>
    where
        B: CellBackend,
    {
        let write = hold.begin_write(false).ok_or_else(|| DestroyError::Lost(hold.loss()))?;
        if self.backend.require(Capability::Keep).is_ok() {
            let erase = || self.backend.store(&write.claim, write.token, None);
            if repeat(lock, hold, erase).await? != Stored::Written {
                return Err(DestroyError::Lost(hold.disown()));
            }
        }
        if let Some(counter) = self.shared.backend.capabilities().counter()
            && !repeat(lock, hold, || counter.undeclare(&write.claim)).await?
        {
            return Err(DestroyError::Lost(hold.disown()));
        }
        lock.closed_for_all().reopen();
        hold.wrote(None);
        Ok(())
    }
}

/// Repeats a request until there is an answer, the lease is over, or no retries are left.
async fn repeat<'a, T>(
    lock: &BareLock,
    hold: &Hold,
    request: impl Fn() -> BoxFuture<'a, Result<T, Error>>,
) -> Result<T, DestroyError> {
    let mut retries = Retries::new(lock, Limit::none());
    loop {
        hold.check().map_err(DestroyError::Lost)?;
        match lock.ask(request()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => retries.after(error).await?,
        }
    }
}
