//! The value beside a lock, which only the holder can write. `StoredMutex`, `OnceCell`, `Election` and `Barrier` use
//! it.

mod watcher;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Backend, Capability, Cell, CellBackend, Claim, Error, ErrorKind, Key, Mode, Stored,
};

pub(crate) use watcher::Watcher;
pub(crate) use writing::Unwritten;

use crate::bare::{BareLock, Denial, Hold, Labels, Limit, Policy, Retries, Wait};
use crate::error::LeaseLost;
use crate::handoff::Handoff;
use crate::locks::Locks;

/// A lock, and the value beside it.
#[derive(Clone)]
pub(crate) struct RemoteCell {
    bare: BareLock,
    /// The store of the lock, with the capability to keep values.
    backend: Arc<dyn CellBackend>,
}

/// Why a value was not stored. The second field is the failure of a request that the store may have carried out.
pub(crate) enum Unstored {
    /// The lease for the write is over.
    Lost(LeaseLost, Option<Error>),
    Failed(Error, Option<Error>),
}

impl RemoteCell {
    pub(crate) fn new<B, K>(locks: &Locks<B>, name: K) -> Result<Self, Error>
    where
        B: CellBackend + ?Sized,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        locks.backend.require(Capability::Keep)?;
        Ok(Self { bare: locks.bare_lock(name)?, backend: Arc::new(Arc::clone(&locks.backend)) })
    }

    pub(crate) fn with_handoff(mut self, handoff: Handoff) -> Self {
        self.bare = self.bare.with_handoff(handoff);
        self
    }

    /// This lock with another policy.
    pub(crate) fn with_policy(self, change: impl FnOnce(&mut Policy, &Labels)) -> Self {
        self.map(|bare| bare.with_policy(change))
    }

    /// This lock, with another bare lock.
    pub(crate) fn map(mut self, change: impl FnOnce(BareLock) -> BareLock) -> Self {
        self.bare = change(self.bare);
        self
    }

    pub(crate) fn key(&self) -> &Key {
        self.bare.key()
    }

    /// The lock without the value.
    pub(crate) fn bare(&self) -> &BareLock {
        &self.bare
    }

    /// The pause after which a value is loaded again without a hint.
    pub(crate) fn interval(&self) -> Duration {
        self.bare.ttl() / 3
    }

    /// Waits for the lock.
    pub(crate) async fn lock(&self, wait: Wait) -> Result<Hold, Denial> {
        self.bare.acquire(Mode::Exclusive, wait).await
    }

    /// Asks for the value once.
    pub(crate) async fn load(&self) -> Result<Option<Cell>, Error> {
        self.bare.ask_about(self.backend.load(self.key())).await
    }

    /// Asks for the value until there is an answer, or no retries are left.
    pub(crate) async fn load_patiently(&self, limit: Limit) -> Result<Option<Cell>, Denial> {
        let mut retries = Retries::new(&self.bare, limit);
        loop {
            match self.load().await {
                Ok(cell) => return Ok(cell),
                Err(error) => retries.after(error).await?,
            }
        }
    }

    /// Asks for the value as this holder, until there is an answer, the lease is over, or no retries are left. No
    /// earlier holder can change the value any more.
    pub(crate) async fn load_under(
        &self,
        hold: &Hold,
        limit: Limit,
    ) -> Result<Option<Cell>, Denial> {
        let mut retries = Retries::new(&self.bare, limit);
        loop {
            let claim = Self::claim(hold).map_err(Denial::Lost)?;
            match self.bare.ask(self.backend.load_under(&claim)).await {
                Ok(cell) => return Ok(cell),
                Err(error) if error.kind() == ErrorKind::NotHeld => {
                    return Err(Denial::Lost(hold.disown()));
                }
                Err(error) => retries.after(error).await?,
            }
        }
    }

    /// Writes the value, or erases it, as this holder. Repeats the request until there is an answer, the lease
    /// is over, or no retries are left.
    ///
    /// If the future is dropped, the value may or may not have been written.
    pub(crate) async fn store(&self, hold: &Hold, value: Option<&[u8]>) -> Result<(), Unstored> {
        let mut retries = Retries::new(&self.bare, Limit::none());
        let mut doubt = None;
        hold.drop_value();
        loop {
            let claim = match Self::claim(hold) {
                Ok(claim) => claim,
                Err(lost) => return Err(Unstored::Lost(lost, doubt)),
            };
            let storing = self.backend.store(&claim, hold.fencing_token(), value);
            let error = match self.bare.ask(storing).await {
                Ok(Stored::Written) => return Ok(()),
                Ok(_) => return Err(Unstored::Lost(hold.disown(), doubt)),
                Err(error) => error,
            };
            if error.is_retryable() {
                doubt.get_or_insert_with(|| error.clone());
            }
            match retries.after(error).await {
                Ok(()) => {}
                Err(Denial::Failed(error) | Denial::Timeout(Some(error))) => {
                    return Err(Unstored::Failed(error, doubt));
                }
                Err(_) => return Err(Unstored::Lost(hold.loss(), doubt)),
            }
        }
    }

    /// The claim under which the store knows this holder.
    fn claim(hold: &Hold) -> Result<Claim, LeaseLost> {
        hold.check()?;
        hold.claim().ok_or_else(|| hold.loss())
    }

    /// Listens for changes of the value.
    pub(crate) fn watcher(&self, interval: Duration) -> Watcher {
        Watcher::new(&self.bare, interval)
    }
}
