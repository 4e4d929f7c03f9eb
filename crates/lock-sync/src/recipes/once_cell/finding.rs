//! Looking for the value, and making sure that others see it too.
//!
//! A store that is several may show a value to one and not to the next: one that is not settled. Nobody returns such
//! a value. It is settled first, as a register over majorities does it (Attiya, Bar-Noy and Dolev, *Sharing memory
//! robustly in message-passing systems*, 1995): whoever has found it takes the lock, loads again, and if it is still
//! not settled stores it once more, under the own token. So does an initialization that finds one under the lock,
//! instead of making another.
//!
//! What decides under the lock is what its holder loads [under the claim](lock_core::CellBackend::load_under). What
//! a former holder has still under way is refused then, because each holder has a lease of its own: this lock is
//! never passed on inside the process.

use serde::de::DeserializeOwned;
use tokio::sync::MutexGuard;

use super::{OnceCell, OnceCellError, decode};
use crate::bare::{Hold, Limit, Wait};

impl<T: DeserializeOwned> OnceCell<T> {
    /// The value, if it has been initialized anywhere. Asks the store unless this cell has it.
    ///
    /// It waits for nobody, unless it finds a value [that others may not see](OnceCell#one-value-for-all): for that
    /// it takes the lock, and waits for it no longer than the [wait limit](crate::Builder::wait_limit).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing that could be seen: if it was about to make sure that all see the value,
    /// the next does that.
    ///
    /// # Errors
    ///
    /// - [`OnceCellError::Backend`] if the store could not be asked for as long as a lease lives;
    /// - [`OnceCellError::Value`] if what is stored is not of this type;
    /// - [`OnceCellError::Timeout`], [`OnceCellError::Lost`] and [`OnceCellError::Closed`] if it needed the lock,
    ///   and did not get it in time, lost it, or the [`Locks`](crate::Locks) shut down.
    pub async fn load(&self) -> Result<Option<&T>, OnceCellError> {
        match self.look(Limit::none()).await? {
            Seen::Value(value) => Ok(Some(value)),
            Seen::Nothing => Ok(None),
            Seen::Unsettled { .. } => self.find(self.limit()).await,
        }
    }

    /// Waits until somebody has initialized the value, and returns it.
    ///
    /// It does not initialize it, nor wait for the lock, unless it finds a value
    /// [that others may not see](OnceCell#one-value-for-all). Whoever stores the value says so to those who
    /// wait; in case that is lost they look again every third of a [lease](crate::Builder::ttl).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Calling it again goes on waiting.
    ///
    /// # Errors
    ///
    /// - [`OnceCellError::Timeout`] if the [wait limit](crate::Builder::wait_limit) of the
    ///   [`Locks`](crate::Locks) was reached;
    /// - [`OnceCellError::Backend`] if the store could not be reached for longer than a lease lives, and
    ///   there is no limit that says to wait longer;
    /// - [`OnceCellError::Value`] if what is stored is not of this type;
    /// - [`OnceCellError::Lost`] if it needed the lock, and lost it;
    /// - [`OnceCellError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, OnceCell};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = MemoryBackend::new();
    /// # let (locks, elsewhere) = (Locks::new(store.client()), Locks::new(store.client()));
    /// let address: OnceCell<String> = locks.once_cell("address")?;
    /// let set = async {
    ///     let address: OnceCell<String> = elsewhere.once_cell("address")?;
    ///     address.set("10.0.0.7".to_owned()).await?;
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// };
    /// let (address, set) = tokio::join!(address.wait(), set);
    /// assert_eq!(address?, "10.0.0.7");
    /// # set?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self) -> Result<&T, OnceCellError> {
        let limit = self.limit();
        let waiting = async {
            let mut watcher = None;
            loop {
                if let Some(value) = self.find(limit).await? {
                    return Ok(value);
                }
                let watch = || self.remote.watcher(self.remote.interval());
                watcher.get_or_insert_with(watch).changed().await;
            }
        };
        limit.bound(self.remote.bare(), waiting).await
    }
}

/// What is known of the value.
pub(super) enum Seen<'a, T> {
    Nothing,
    /// The value that all see.
    Value(&'a T),
    /// One that others may not see.
    Unsettled {
        /// Whether its writer still holds the lock, and may be about to settle it.
        held: bool,
    },
}

/// How a call that needs the value begins.
pub(super) enum Entered<'a, T> {
    /// It is there.
    Late(&'a T),
    /// It is to be initialized now, by nobody else.
    Leader(Hold, MutexGuard<'a, ()>),
}

impl<T: DeserializeOwned> OnceCell<T> {
    /// The value, if there is one here or in the store. What is not settled there is settled first.
    pub(super) async fn find<E>(&self, limit: Limit) -> Result<Option<&T>, OnceCellError<E>> {
        match self.look(limit).await? {
            Seen::Value(value) => Ok(Some(value)),
            Seen::Nothing => Ok(None),
            Seen::Unsettled { .. } => limit.bound(self.remote.bare(), self.settle(limit)).await,
        }
    }

    /// Looks for the value, and waits for nobody.
    pub(super) async fn look<E>(&self, limit: Limit) -> Result<Seen<'_, T>, OnceCellError<E>> {
        if let Some(value) = self.get() {
            return Ok(Seen::Value(value));
        }
        Ok(match self.remote.load_patiently(limit).await? {
            None => Seen::Nothing,
            Some(cell) if cell.settled => {
                let value = decode(&cell.value)?;
                // Another task may have read the same meanwhile.
                Seen::Value(self.value.get_or_init(|| value))
            }
            Some(cell) => Seen::Unsettled { held: cell.held },
        })
    }

    /// Makes sure that all see the value, or that nobody does.
    async fn settle<E>(&self, limit: Limit) -> Result<Option<&T>, OnceCellError<E>> {
        let mut watcher = self.remote.watcher(self.remote.interval());
        loop {
            match self.look(limit).await? {
                Seen::Value(value) => return Ok(Some(value)),
                Seen::Nothing => return Ok(None),
                // It comes to an end with that, or else with its lease.
                Seen::Unsettled { held: true } => watcher.changed().await,
                Seen::Unsettled { held: false } => break,
            }
        }
        drop(watcher);
        match self.enter(limit).await? {
            Entered::Late(value) => Ok(Some(value)),
            Entered::Leader(hold, _turn) => {
                // It was erased, or never there as far as the holder is concerned. Now it is so for all.
                self.remote.store(&hold, None).await?;
                Ok(None)
            }
        }
    }

    /// Waits for the value, or for the right to initialize it.
    pub(super) async fn enter<E>(&self, limit: Limit) -> Result<Entered<'_, T>, OnceCellError<E>> {
        let turn = self.turn.lock().await;
        let seen = self.look(limit).await?;
        if let Seen::Value(value) = seen {
            return Ok(Entered::Late(value));
        }
        let remote = &self.remote;
        let hold = match remote.lock(Wait::Try).await {
            Ok(hold) => hold,
            // If it is somebody else's turn, the value will be there before the lock is.
            Err(_) => tokio::select! {
                hold = remote.lock(limit.wait(remote.bare())) => hold?,
                value = self.appears(limit) => return value.map(Entered::Late),
            },
        };
        // Whoever had the lock before may be done.
        let found = self.find_under(&hold, limit).await?;
        Ok(match found {
            Some(value) => Entered::Late(value),
            None => Entered::Leader(hold, turn),
        })
    }

    /// The value, if there is one here or for the holder of the lock, who settles it.
    pub(super) async fn find_under<E>(
        &self,
        hold: &Hold,
        limit: Limit,
    ) -> Result<Option<&T>, OnceCellError<E>> {
        if let Some(value) = self.get() {
            return Ok(Some(value));
        }
        let Some(cell) = self.remote.load_under(hold, limit).await? else { return Ok(None) };
        let value = decode(&cell.value)?;
        if !cell.settled {
            self.remote.store(hold, Some(&cell.value)).await?;
        }
        Ok(Some(self.value.get_or_init(|| value)))
    }

    /// Waits until there is a value that all see.
    async fn appears<E>(&self, limit: Limit) -> Result<&T, OnceCellError<E>> {
        let mut watcher = self.remote.watcher(self.remote.interval());
        loop {
            watcher.changed().await;
            if let Seen::Value(value) = self.look(limit).await? {
                return Ok(value);
            }
        }
    }
}
