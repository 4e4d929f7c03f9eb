//! The reader-writer lock of the crate `distributed-lock-redis`.

use std::fmt;
use std::time::Duration;

use distributed_lock_core::traits::{
    DistributedReaderWriterLock as _, LockHandle, ReaderWriterLockProvider,
};
use distributed_lock_redis::{RedisDistributedReaderWriterLock, RedisLockProvider};

use crate::{Contestant, Failure};

/// The delay before its writers try again for the first time.
///
/// Its readers do not wait, and fail at once. Here they try again after this delay.
const RETRY: Duration = Duration::from_millis(50);

/// `distributed-lock-redis` over one server: a lease of 30 s that it renews, and a release that is
/// awaited, because a handle that is dropped does not release.
pub struct Distributed {
    provider: RedisLockProvider,
}

impl Distributed {
    /// Connects at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self { provider: RedisLockProvider::new(url).await? })
    }
}

impl fmt::Debug for Distributed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distributed").finish_non_exhaustive()
    }
}

impl Contestant for Distributed {
    type Key = RedisDistributedReaderWriterLock;

    // It has no scripts for this lock.
    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.provider.create_reader_writer_lock(name))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let handle = key.acquire_write(None).await?;
        section.await;
        Ok(handle.release().await?)
    }

    async fn shared<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let handle = loop {
            match key.try_acquire_read().await? {
                Some(handle) => break handle,
                None => tokio::time::sleep(RETRY).await,
            }
        };
        section.await;
        Ok(handle.release().await?)
    }
}
