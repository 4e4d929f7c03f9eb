//! Storing the value.

use lock_core::FencingToken;

use super::codec::Codec;
use super::core::Unsendable;
use super::error::{CommitError, SaveError};
use super::guard::StoredMutexGuard;
use crate::blocking::{assert_may_block, block_on};
use crate::recipes::cell::Unwritten;

impl<T, C: Codec<T>> StoredMutexGuard<T, C> {
    /// Stores the value and releases the lock, in one step that only the holder can perform. Returns the version of the
    /// value.
    ///
    /// If another task of this process waits, the process keeps the lease, and that task gets the lock with the value
    /// once the store has answered.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock up. The outcome of the write is then unknown: the value is stored before the
    /// lock is free, or never.
    ///
    /// # If the lease is lost
    ///
    /// Nothing is stored, and the error returns the value.
    ///
    /// # Errors
    ///
    /// - [`CommitError::Encode`] and [`CommitError::Refused`], with the guard, if the value cannot be stored;
    /// - [`CommitError::Lost`] if the lease was lost before;
    /// - [`CommitError::Unknown`] if the store has not said whether the value was stored: see
    ///   [what is promised](crate::StoredMutex#what-is-promised).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let balance = locks.stored_mutex("balance/7", 100)?;
    /// let mut guard = balance.lock().await?;
    /// *guard -= 10;
    /// let version = guard.commit().await?;
    /// assert_eq!(balance.snapshot().await?.version, Some(version));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn commit(self) -> Result<FencingToken, CommitError<T, C>> {
        let bytes = match self.core.encode(&self.value) {
            Ok(bytes) => bytes,
            Err(Unsendable::Encode(source)) => {
                return Err(CommitError::Encode { guard: Box::new(self), source });
            }
            Err(Unsendable::TooLong(source)) => {
                return Err(CommitError::Refused { guard: Box::new(self), source });
            }
        };
        let Self { value, mut changes, hold, core, version } = self;
        changes.doubt();
        match core.remote.commit(hold, &bytes).await {
            Ok(version) => {
                changes.clear();
                Ok(version)
            }
            Err((Some(hold), Unwritten::Refused(source))) => {
                changes.keep();
                let guard = Box::new(Self { value, changes, hold, core, version });
                Err(CommitError::Refused { guard, source })
            }
            Err((_, unwritten)) => {
                changes.clear();
                Err(match unwritten {
                    Unwritten::Lost(source) => CommitError::Lost { value, source },
                    Unwritten::Refused(source) | Unwritten::Unknown(source) => {
                        CommitError::Unknown { value, source }
                    }
                })
            }
        }
    }

    /// [Commits](Self::commit) from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as
    /// [`StoredMutex::blocking_lock`](crate::StoredMutex::blocking_lock) does.
    #[track_caller]
    pub fn blocking_commit(mut self) -> Result<FencingToken, CommitError<T, C>> {
        assert_may_block();
        self.core = self.core.on_driver();
        block_on(self.commit())
    }

    /// Stores the value and keeps the lock. Returns the version of the value.
    ///
    /// Other processes see the value from now on. A later save or commit of this guard has a higher version, unless the
    /// lease has no further token. After a save without an answer, the next save waits for a token.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future, the outcome of the write is unknown. The guard still holds the lock. If the guard
    /// stores nothing more, this process gives the lease back before another guard begins, so that the next guard finds
    /// what the store has.
    ///
    /// # If the lease is lost
    ///
    /// Nothing is stored.
    ///
    /// # Errors
    ///
    /// - [`SaveError::Encode`] and [`SaveError::Refused`] if the value cannot be stored;
    /// - [`SaveError::Lost`] if the lease was lost before;
    /// - [`SaveError::Unknown`] if the store has not said whether the value was stored.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let progress = locks.stored_mutex("import/progress", 0)?;
    /// let mut guard = progress.lock().await?;
    /// for row in 1..=3 {
    ///     *guard = row;
    ///     guard.save().await?;
    ///     assert_eq!(progress.snapshot().await?.value, row);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save(&mut self) -> Result<FencingToken, SaveError> {
        let bytes = self.core.encode(&self.value).map_err(|unsendable| match unsendable {
            Unsendable::Encode(source) => SaveError::Encode(source),
            Unsendable::TooLong(source) => SaveError::Refused(source),
        })?;
        self.changes.doubt();
        match self.core.remote.save(&mut self.hold, &bytes).await {
            Ok(_) => {
                let version = self.hold.fencing_token();
                self.version = Some(version);
                self.changes.clear();
                Ok(version)
            }
            Err(Unwritten::Unknown(error)) => Err(SaveError::Unknown(error)),
            Err(Unwritten::Refused(error)) => {
                self.changes.keep();
                Err(SaveError::Refused(error))
            }
            Err(Unwritten::Lost(lost)) => {
                self.changes.keep();
                Err(SaveError::Lost(lost))
            }
        }
    }

    /// [Saves](Self::save) from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as
    /// [`StoredMutex::blocking_lock`](crate::StoredMutex::blocking_lock) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let progress = locks.stored_mutex("import/progress", 0)?;
    /// let mut guard = progress.blocking_lock()?;
    /// for row in 1..=3 {
    ///     *guard = row;
    ///     guard.blocking_save()?;
    /// }
    /// # drop(guard);
    /// # assert_eq!(*progress.blocking_lock()?, 3);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_save(&mut self) -> Result<FencingToken, SaveError> {
        assert_may_block();
        self.core = self.core.on_driver();
        block_on(self.save())
    }
}
