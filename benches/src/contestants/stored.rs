//! The mutex of this workspace whose value is in the store.

use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks, StoredMutex};

use crate::contestants::Ours;
use crate::{Contestant, Failure};

/// `lock_sync::StoredMutex` with a number: each pass locks, adds one, and commits.
#[derive(Debug)]
pub struct Stored {
    locks: Locks<RedisBackend>,
}

impl Stored {
    /// Over a Redis server, with a connection of its own.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn redis(url: &str) -> Result<Self, Failure> {
        Ok(Self { locks: Ours::locks(url, Handoff::default())? })
    }
}

impl Contestant for Stored {
    type Key = StoredMutex<u64>;

    const INNER: &'static [&'static str] = <Ours as Contestant>::INNER;

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.locks.stored_mutex(name, 0)?)
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut guard = key.lock().await?;
        section.await;
        *guard += 1;
        guard.commit().await?;
        Ok(())
    }
}
