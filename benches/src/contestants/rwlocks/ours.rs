//! The reader-writer lock of this workspace.

use lock_core::memory::MemoryBackend;
use lock_core::{Fixed, SharedBackend};
use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::contestants::{self, Ending};
use crate::{Contestant, Failure};

/// `lock_sync::RwLock`, over some backend.
#[derive(Debug)]
pub struct Ours<B> {
    locks: Locks<B>,
    ending: Ending,
}

impl Ours<RedisBackend> {
    /// Over a Redis server, with a connection of its own.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn redis(url: &str, ending: Ending, handoff: Handoff) -> Result<Self, Failure> {
        Ok(Self { locks: contestants::Ours::locks(url, handoff)?, ending })
    }
}

impl Ours<MemoryBackend> {
    /// Over a store of its own in memory.
    pub fn memory(ending: Ending) -> Self {
        Self { locks: Locks::new(MemoryBackend::new()), ending }
    }
}

impl<B: SharedBackend> Contestant for Ours<B> {
    type Key = RwLock<(), Fixed>;

    const INNER: &'static [&'static str] = contestants::Ours::INNER;

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.locks.rwlock(name, ())?.without_upgrades())
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = key.write().await?;
        section.await;
        match self.ending {
            Ending::Released => RwLockWriteGuard::release(guard).await?,
            Ending::Dropped => drop(guard),
        }
        Ok(())
    }

    async fn shared<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = key.read().await?;
        section.await;
        match self.ending {
            Ending::Released => RwLockReadGuard::release(guard).await?,
            Ending::Dropped => drop(guard),
        }
        Ok(())
    }
}
