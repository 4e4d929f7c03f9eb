//! The lock of this workspace.

use lock_core::memory::MemoryBackend;
use lock_redis::RedisBackend;
use lock_sync::{Locks, Mutex};

use crate::{Contestant, Failure};

/// How a guard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Ending {
    /// Its release is awaited.
    Released,
    /// It is dropped, and released in the background.
    Dropped,
}

/// `lock_sync::Mutex`, over some backend.
#[derive(Debug)]
pub struct Ours {
    locks: Locks,
    ending: Ending,
}

impl Ours {
    /// Over a Redis server, with a connection of its own.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn redis(url: &str, ending: Ending) -> Result<Self, Failure> {
        Ok(Self { locks: Locks::new(RedisBackend::open(url)?), ending })
    }

    /// Over a store of its own in memory.
    pub fn memory(ending: Ending) -> Self {
        Self { locks: Locks::new(MemoryBackend::new()), ending }
    }
}

impl Contestant for Ours {
    type Key = Mutex<()>;

    const INNER: &'static [&'static str] =
        &["get", "set", "del", "pttl", "pexpire", "time", "publish"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.locks.mutex(name, ())?)
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = key.lock().await?;
        section.await;
        match self.ending {
            Ending::Released => guard.release().await?,
            Ending::Dropped => drop(guard),
        }
        Ok(())
    }
}
