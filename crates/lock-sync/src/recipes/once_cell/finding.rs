//! Loads the value, and settles it, so that all callers see it.
//!
//! A store of several servers may show a value to one caller and not to the next: the value is not settled. No cell
//! returns such a value. A cell first settles it, as a register over majorities does (Attiya, Bar-Noy and Dolev,
//! *Sharing memory robustly in message-passing systems*, 1995). The cell takes the lock and loads again. If the value
//! is still not settled, the cell stores it once more, under its own token. An initialization that finds such a value
//! under the lock also stores it once more, and makes no other value.
//!
//! Under the lock, the holder decides by the value that it loads [under its claim](lock_core::CellBackend::load_under).
//! From then on the store refuses every late request of a former holder, because each holder has a lease of its own:
//! the process never hands this lock off.

use serde::de::DeserializeOwned;

use super::{OnceCell, OnceCellError, Turn, decode};
use crate::bare::{Hold, Limit, Wait};

impl<T: DeserializeOwned> OnceCell<T> {
    /// Returns the value, if any process has initialized it. Asks the store unless this cell has
    /// the value.
    ///
    /// The call waits for other callers only if it finds a value [that is not settled](OnceCell#one-value-for-all).
    /// Then it takes the lock, and waits for the lock no longer than the [wait limit](crate::Builder::wait_limit).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no visible effect. If the call was settling the value, the next caller settles it.
    ///
    /// # Errors
    ///
    /// - [`OnceCellError::Backend`] if the store was out of reach for as long as a lease lives;
    /// - [`OnceCellError::Value`] if the stored value is not of this type;
    /// - [`OnceCellError::Timeout`], [`OnceCellError::Lost`] and [`OnceCellError::Closed`] if it needed the lock,
    ///   and did not get it in time, lost it, or the [`Locks`](crate::Locks) shut down;
    /// - [`OnceCellError::Unknown`] if it settled a value, a request had no answer, and the call then failed.
    pub async fn load(&self) -> Result<Option<&T>, OnceCellError> {
        match self.look(Limit::none()).await? {
            Seen::Value(value) => Ok(Some(value)),
            Seen::Nothing => Ok(None),
            Seen::Unsettled { .. } => self.find(self.limit()).await,
        }
    }

    /// Waits until another caller has initialized the value, and returns it.
    ///
    /// The call does not initialize the value. It takes the lock only if it finds a value [that is not
    /// settled](OnceCell#one-value-for-all). When a holder stores the value, the store sends a hint to the waiters.
    /// In case a hint gets lost, they also ask every third of a [lease](crate::Builder::ttl).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Another call goes on to wait.
    ///
    /// # Errors
    ///
    /// - [`OnceCellError::Timeout`] if the [wait limit](crate::Builder::wait_limit) of the
    ///   [`Locks`](crate::Locks) was reached;
    /// - [`OnceCellError::Backend`] if, without a wait limit, the store was out of reach for longer than a lease lives;
    /// - [`OnceCellError::Value`] if the stored value is not of this type;
    /// - [`OnceCellError::Lost`] if it needed the lock, and lost it;
    /// - [`OnceCellError::Unknown`] if it settled a value, a request had no answer, and the call then failed;
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

/// The outcome of a load.
pub(super) enum Seen<'a, T> {
    Nothing,
    /// A settled value.
    Value(&'a T),
    /// A value that is not settled.
    Unsettled {
        /// Whether its writer still holds the lock, and may be about to settle it.
        held: bool,
    },
}

/// The role in which a call that needs the value begins.
pub(super) enum Role<'a, T> {
    /// There is a value.
    Late(&'a T),
    /// This call has the lock, and must initialize the value.
    Leader(Hold, Turn<'a>),
}

impl<T: DeserializeOwned> OnceCell<T> {
    /// The value, if this cell or the store has one. Settles it first, if need be.
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

    /// Makes sure that all callers see the value, or that no caller does.
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
            Role::Late(value) => Ok(Some(value)),
            Role::Leader(hold, _turn) => {
                // The holder finds no value: the value was erased, or too few servers ever had it. Erase it for all
                // callers.
                self.remote.store(&hold, None).await?;
                Ok(None)
            }
        }
    }

    /// Waits for the value, or for the right to initialize it.
    pub(super) async fn enter<E>(&self, limit: Limit) -> Result<Role<'_, T>, OnceCellError<E>> {
        let turn = self.turn().await;
        let seen = self.look(limit).await?;
        if let Seen::Value(value) = seen {
            return Ok(Role::Late(value));
        }
        let remote = &self.remote;
        let hold = match remote.lock(Wait::Try).await {
            Ok(hold) => hold,
            // While another attempt has the lock, the value may arrive before the lock is free.
            Err(_) => tokio::select! {
                hold = remote.lock(limit.wait(remote.bare())) => hold?,
                value = self.appears(limit) => return value.map(Role::Late),
            },
        };
        // The previous holder of the lock may have stored a value.
        let found = self.find_under(&hold, limit).await?;
        Ok(match found {
            Some(value) => Role::Late(value),
            None => Role::Leader(hold, turn),
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
