//! The semaphore of the crate `distributed-lock-redis`.

use std::fmt;

use distributed_lock_core::traits::{DistributedSemaphore as _, LockHandle, SemaphoreProvider};
use distributed_lock_redis::{RedisDistributedSemaphore, RedisLockProvider};

use crate::{Contestant, Failure};

/// `distributed-lock-redis` over one server: a lease of 30 s that it renews, and a release that is awaited, because a
/// dropped handle does not release. It tries again after delays that grow from 10 ms to 200 ms and cannot be changed.
pub struct Distributed {
    provider: RedisLockProvider,
    permits: u32,
}

impl Distributed {
    /// Connects at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn connect(url: &str, permits: u32) -> Result<Self, Failure> {
        Ok(Self { provider: RedisLockProvider::new(url).await?, permits })
    }
}

impl fmt::Debug for Distributed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distributed").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl Contestant for Distributed {
    type Key = RedisDistributedSemaphore;

    const INNER: &'static [&'static str] =
        &["time", "zremrangebyscore", "zcard", "zadd", "zrem", "pttl", "pexpire"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.provider.create_semaphore(name, self.permits))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let handle = key.acquire(None).await?;
        section.await;
        Ok(handle.release().await?)
    }
}
