//! The semaphore of this workspace.

use lock_core::PermitBackend;
use lock_core::memory::MemoryBackend;
use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks, Semaphore};

use crate::contestants::{self, Ending};
use crate::{Contestant, Failure};

/// `lock_sync::Semaphore`, over some backend.
#[derive(Debug)]
pub struct Ours<B> {
    locks: Locks<B>,
    permits: u32,
    ending: Ending,
}

impl Ours<RedisBackend> {
    /// Over a Redis server, with a connection of its own.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn redis(
        url: &str,
        permits: u32,
        ending: Ending,
        handoff: Handoff,
    ) -> Result<Self, Failure> {
        Ok(Self { locks: contestants::Ours::locks(url, handoff)?, permits, ending })
    }
}

impl Ours<MemoryBackend> {
    /// Over a store of its own in memory.
    pub fn memory(permits: u32, ending: Ending) -> Self {
        Self { locks: Locks::new(MemoryBackend::new()), permits, ending }
    }
}

impl<B: PermitBackend> Contestant for Ours<B> {
    type Key = Semaphore;

    const INNER: &'static [&'static str] = contestants::Ours::INNER;

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.locks.semaphore(name, self.permits as usize)?)
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let permit = key.acquire().await?;
        section.await;
        match self.ending {
            Ending::Released => permit.release().await?,
            Ending::Dropped => drop(permit),
        }
        Ok(())
    }
}
