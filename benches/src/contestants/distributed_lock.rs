//! The crate `distributed-lock-redis`.

use std::fmt;
use std::time::{Duration, Instant};

use distributed_lock_core::traits::{DistributedLock as _, LockHandle, LockProvider};
use distributed_lock_redis::{RedisDistributedLock, RedisLockProvider};

use crate::{Contestant, Failure};

/// `distributed-lock-redis` over one server: a lease of 30 s that it renews, and a release that is
/// awaited, because a handle that is dropped does not release.
pub struct DistributedLock {
    provider: RedisLockProvider,
}

impl DistributedLock {
    /// Connects at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self { provider: RedisLockProvider::new(url).await? })
    }

    /// The reason why its row is missing: the outcome of a try for a held key with the order to wait for a second.
    ///
    /// # Errors
    ///
    /// If it does not lock a free key.
    pub async fn why_absent(&self, name: &str) -> Result<String, Failure> {
        let holder = self.provider.create_lock(name).acquire(None).await?;
        let start = Instant::now();
        let second = self.provider.create_lock(name).acquire(Some(Duration::from_secs(1))).await;
        let elapsed = start.elapsed();
        holder.release().await?;
        Ok(match second {
            Err(error) => format!(
                "distributed-lock-redis: left out, it does not wait. Told to wait for 1 s for a \
                 key that is held, it said after {elapsed:.1?}: {error}."
            ),
            Ok(_) => "distributed-lock-redis: left out, it let two in at once.".to_owned(),
        })
    }
}

impl fmt::Debug for DistributedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedLock").finish_non_exhaustive()
    }
}

impl Contestant for DistributedLock {
    type Key = RedisDistributedLock;

    const INNER: &'static [&'static str] = &["get", "del", "pexpire"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.provider.create_lock(name))
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
