//! Initializing the value.

use std::future::Future;

use lock_core::{Cell, Error, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::finding::{Role, Seen};
use super::{OnceCell, OnceCellError, SetError, decode};
use crate::bare::{Denial, Hold, Limit, Wait};
use crate::lease::Lease;

impl<T: Serialize + DeserializeOwned> OnceCell<T> {
    /// Returns the value. If neither this cell nor the store has one, initializes it with the result of `f`.
    ///
    /// The call waits while another task, of this process or another, initializes the value. It runs `f` only
    /// under the lock, and only if there is still no value. If an earlier attempt has left a value in [a part
    /// of the store](OnceCell#one-value-for-all), the call stores that value once more, and does not run `f`.
    ///
    /// As with tokio, the call waits for itself for ever if `f` initializes this cell. Nor must `f`
    /// [load](Self::load) a cell with this name.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the future of `f` and gives the lock up. Another call makes another attempt. If the
    /// future is dropped while it stores the value, the store may still get the value. Then all callers see it.
    ///
    /// # Errors
    ///
    /// As [`get_or_try_init`](Self::get_or_try_init), apart from [`OnceCellError::Init`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, OnceCell};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let primes: OnceCell<Vec<u32>> = locks.once_cell("primes")?;
    /// let primes = primes.get_or_init(async || vec![2, 3, 5]).await?;
    /// assert_eq!(primes.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_or_init<F, Fut>(&self, f: F) -> Result<&T, OnceCellError>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        self.get_or_try_init(|| async { Ok(f().await) }).await
    }

    /// Returns the value. If neither this cell nor the store has one, initializes it with the result of `f`, unless
    /// that is an error.
    ///
    /// The rest is as with [`get_or_init`](Self::get_or_init).
    ///
    /// # If the lease is lost
    ///
    /// If the lease is lost while `f` runs, the call drops the future of `f`. If another attempt has stored
    /// a value by then, the call returns that value. Otherwise the call fails, and the next call makes
    /// another attempt. If a write had no answer and the attempt then failed, the call looks for a value, too.
    ///
    /// # Cancel safety
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// - [`OnceCellError::Init`] with the error of `f`: the next call makes another attempt;
    /// - [`OnceCellError::Lost`] if the lease was lost during the attempt;
    /// - [`OnceCellError::Unknown`] if a write had no answer and the attempt then failed. The store may have the
    ///   value. The next call looks for it;
    /// - [`OnceCellError::Timeout`] if the [wait limit](crate::Builder::wait_limit) of the
    ///   [`Locks`](crate::Locks) was reached before there was a value or the lock. The time of `f` does not count;
    /// - [`OnceCellError::Value`] if the stored value is not of this type, or if the result of `f` cannot be
    ///   stored, for example because it is too long;
    /// - [`OnceCellError::Backend`] if the store refused, or, without a wait limit, if the store was out of reach for
    ///   longer than a lease lives;
    /// - [`OnceCellError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, OnceCell, OnceCellError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let port: OnceCell<u16> = locks.once_cell("port")?;
    /// let failed = port.get_or_try_init(async || "70000".parse()).await;
    /// assert!(matches!(failed, Err(OnceCellError::Init(_))));
    /// assert_eq!(*port.get_or_try_init(async || "7000".parse()).await?, 7000);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_or_try_init<E, F, Fut>(&self, f: F) -> Result<&T, OnceCellError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let limit = self.limit();
        let done = match limit.bound(self.remote.bare(), self.enter(limit)).await {
            Ok(Role::Late(value)) => return Ok(value),
            Ok(Role::Leader(hold, _turn)) => {
                match Lease::of(&hold).while_held(async { f().await }).await {
                    Ok(Ok(value)) => self.store(&hold, value).await,
                    Ok(Err(error)) => Err(OnceCellError::Init(error)),
                    Err(lost) => Err(OnceCellError::Lost(lost)),
                }
            }
            Err(error) => Err(error),
        };
        match done {
            // A later holder of the lock may have stored a value already, or the store may have carried out a write.
            Err(error @ (OnceCellError::Lost(_) | OnceCellError::Unknown(_))) => {
                match self.remote.load().await {
                    Ok(Some(cell)) if cell.settled => {
                        let value = decode(&cell.value)?;
                        Ok(self.value.get_or_init(|| value))
                    }
                    _ => Err(error),
                }
            }
            done => done,
        }
    }

    /// Initializes the value with `value`, if there is no value and no other attempt is under way.
    ///
    /// The call asks the store, but waits for no other attempt.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it stores the value, the store may still get the value.
    ///
    /// # Errors
    ///
    /// Each error gives the value back:
    ///
    /// - [`SetError::AlreadyInitializedError`] if there is a value;
    /// - [`SetError::InitializingError`] if there is no settled value, and another attempt is under way;
    /// - [`SetError::Failed`] if the store could not be asked, or the value could not be stored. If it contains
    ///   [`OnceCellError::Unknown`], the value may or may not have been stored: a request had no answer, and the call
    ///   then failed. [`load`](Self::load) asks for the value.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, OnceCell};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let winner: OnceCell<String> = locks.once_cell("winner")?;
    /// winner.set("me".to_owned()).await?;
    /// assert!(winner.set("you".to_owned()).await.unwrap_err().is_already_init_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(&self, value: T) -> Result<(), SetError<T>> {
        if self.initialized() {
            return Err(SetError::AlreadyInitializedError(value));
        }
        let locked = match self.try_turn() {
            // The lock comes first, so that no other attempt gets between the load and the store.
            Some(turn) => self.remote.lock(Wait::Try).await.map(|hold| (turn, hold)),
            // Another task of this cell makes the value, or is about to load one.
            None => Err(Denial::WouldBlock),
        };
        let failed = match locked {
            Ok((_turn, hold)) => match self.find_under(&hold, Limit::none()).await {
                Ok(Some(_)) => return Err(SetError::AlreadyInitializedError(value)),
                Ok(None) => match self.send(&hold, &value).await {
                    Ok(()) => {
                        self.value.get_or_init(|| value);
                        return Ok(());
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            },
            Err(denial) => match (self.look(Limit::none()).await, denial) {
                (Ok(Seen::Value(_)), _) => return Err(SetError::AlreadyInitializedError(value)),
                (Ok(_), Denial::WouldBlock) => return Err(SetError::InitializingError(value)),
                (Ok(_), denial) => denial.into(),
                (Err(error), _) => error,
            },
        };
        Err(SetError::Failed(value, failed))
    }

    async fn store<E>(&self, hold: &Hold, value: T) -> Result<&T, OnceCellError<E>> {
        self.send(hold, &value).await?;
        Ok(self.value.get_or_init(|| value))
    }

    async fn send<E>(&self, hold: &Hold, value: &T) -> Result<(), OnceCellError<E>> {
        let json = serde_json::to_vec(value).map_err(|error| {
            let message = "the value cannot be written as JSON";
            OnceCellError::Value(Error::with_source(ErrorKind::InvalidConfig, message, error))
        })?;
        Cell::check_len(&json).map_err(OnceCellError::Value)?;
        Ok(self.remote.store(hold, Some(&json)).await?)
    }
}
