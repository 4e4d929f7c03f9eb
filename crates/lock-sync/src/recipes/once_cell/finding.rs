//! Loading the value, and settling it so that all others see it too.
//!
//! A store of several servers may show a value to one caller and not to the next: the value is not settled. No cell
//! returns such a value. A cell settles it first, as a register over majorities does (Attiya, Bar-Noy and Dolev,
//! *Sharing memory robustly in message-passing systems*, 1995): a cell that finds such a value takes the lock and loads
//! again. If the value is still not settled, the cell stores it once more, under its own token. An initialization that
//! finds such a value under the lock does so too, and does not make another value.
//!
//! Under the lock, the holder decides by the value that it loads [under its claim](lock_core::CellBackend::load_under).
//! From then on the store refuses every late request of a former holder, because each holder has a lease of its own:
//! this lock is never passed on inside the process.

use serde::de::DeserializeOwned;
use tokio::sync::MutexGuard;

use super::{OnceCell, OnceCellError, decode};
use crate::bare::{Hold, Limit, Wait};

impl<T: DeserializeOwned> OnceCell<T> {
    /// The value, if any process has initialized it. Asks the store unless this cell has it.
    ///
    /// It does not wait for other callers, unless it finds a value
    /// [that others may not see](OnceCell#one-value-for-all). For such a value it takes the lock, and waits for the
    /// lock no longer than the [wait limit](crate::Builder::wait_limit).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no visible effect. If it was settling the value, the next caller settles it.
    ///
    /// # Errors
    ///
    /// - [`OnceCellError::Backend`] if the store was out of reach for as long as a lease lives;
    /// - [`OnceCellError::Value`] if the stored value is not of this type;
    /// - [`OnceCellError::Timeout`], [`OnceCellError::Lost`] and [`OnceCellError::Closed`] if it needed the lock,
    ///   and did not get it in time, lost it, or the [`Locks`](crate::Locks) shut down.
    pub async fn load(&self) -> Result<Option<&T>, OnceCellError> {
        match self.look(Limit::none()).await? {
            Seen::Value(value) => Ok(Some(value)),
            Seen::Nothing => Ok(None),
            Seen::Unsettled { .. } => self.find(self.limit()).await,
        }
    }

    /// Waits until another caller has initialized the value, and returns it.
    ///
    /// It does not initialize the value. It waits for the lock only if it finds a value
    /// [that others may not see](OnceCell#one-value-for-all). The store sends a hint to the waiters when the value is
    /// stored. In case a hint is lost, they ask again every third of a [lease](crate::Builder::ttl).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Calling it again goes on waiting.
    ///
    /// # Errors
    ///
    /// - [`OnceCellError::Timeout`] if the [wait limit](crate::Builder::wait_limit) of the
    ///   [`Locks`](crate::Locks) was reached;
    /// - [`OnceCellError::Backend`] if, without a wait limit, the store was out of reach for longer than a lease lives;
    /// - [`OnceCellError::Value`] if the stored value is not of this type;
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

/// What a load found out about the value.
pub(super) enum Seen<'a, T> {
    Nothing,
    /// A settled value.
    Value(&'a T),
    /// A value that others may not see.
    Unsettled {
        /// Whether its writer still holds the lock, and may be about to settle it.
        held: bool,
    },
}

/// How a call that needs the value begins.
pub(super) enum Entered<'a, T> {
    /// There is a value.
    Late(&'a T),
    /// This call has the lock, and must initialize the value.
    Leader(Hold, MutexGuard<'a, ()>),
}

impl<T: DeserializeOwned> OnceCell<T> {
    /// The value, if this cell or the store has one. A value that is not settled is settled first.
    pub(super) async fn find<E>(&self, limit: Limit) -> Result<Option<&T>, OnceCellError<E>> {
        match self.look(limit).await? {
            Seen::Value(value) => Ok(Some(value)),
            Seen::Nothing => Ok(None),
            Seen::Unsettled { .. } => limit.bound(self.remote.bare(), self.settle(limit)).await,
        }
    }

    /// Loads the value, without waiting for other callers.
    pub(super) async fn look<E>(&self, limit: Limit) -> Result<Seen<'_, T>, OnceCellError<E>> {
        if let Some(value) = self.get() {
            return Ok(Seen::Value(value));
        }
        Ok(match self.remote.load_patiently(limit).await? {
            None => Seen::Nothing,
            Some(cell) if cell.settled => {
                let value = decode(&cell.value)?;
                // Another task may have loaded the value meanwhile.
                Seen::Value(self.value.get_or_init(|| value))
            }
            Some(cell) => Seen::Unsettled { held: cell.held },
        })
    }

    /// Makes sure that all callers see the value, or that none does.
    async fn settle<E>(&self, limit: Limit) -> Result<Option<&T>, OnceCellError<E>> {
        let mut watcher = self.remote.watcher(self.remote.interval());
        loop {
            match self.look(limit).await? {
                Seen::Value(value) => return Ok(Some(value)),
                Seen::Nothing => return Ok(None),
                // The writer finishes, or its lease ends.
                Seen::Unsettled { held: true } => watcher.changed().await,
                Seen::Unsettled { held: false } => break,
            }
        }
        drop(watcher);
        match self.enter(limit).await? {
            Entered::Late(value) => Ok(Some(value)),
            Entered::Leader(hold, _turn) => {
                // The holder finds no value: it was erased, or too few servers ever had it. Erase it for all.
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
            // While another attempt has the lock, the value may arrive before the lock is free.
            Err(_) => tokio::select! {
                hold = remote.lock(limit.wait(remote.bare())) => hold?,
                value = self.appears(limit) => return value.map(Entered::Late),
            },
        };
        // The previous holder of the lock may have stored a value.
        let found = self.find_under(&hold, limit).await?;
        Ok(match found {
            Some(value) => Entered::Late(value),
            None => Entered::Leader(hold, turn),
        })
    }

    /// The value, if this cell has one or the holder of the lock finds one. The holder settles it.
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

    /// Waits until there is a settled value.
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
