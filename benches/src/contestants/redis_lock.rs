//! The crate `redis-lock`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis_027::Client;
use redis_027::aio::MultiplexedConnection;
use redis_lock::{LockAcrossOptions, lock_across};
use tokio::sync::Mutex;

use super::LEASE;
use crate::{Contestant, Failure};

/// `redis-lock` for one resource, on one connection: a lease of 10 ms without renewal, tries every
/// 100 ms for 10 s.
pub struct RedisLock {
    connections: [Arc<Mutex<MultiplexedConnection>>; 1],
    impatient: bool,
}

impl RedisLock {
    /// Connects at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, Failure> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connections: [Arc::new(Mutex::new(connection))], impatient: false })
    }

    /// Tries again without a delay, with a lease as long as the other peers'.
    #[must_use]
    pub fn impatient(mut self) -> Self {
        self.impatient = true;
        self
    }

    fn options(&self) -> LockAcrossOptions {
        let mut options = LockAcrossOptions::default();
        if self.impatient {
            options.retry = Duration::ZERO;
            options.ttl = LEASE;
        }
        options
    }
}

impl fmt::Debug for RedisLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLock").field("impatient", &self.impatient).finish_non_exhaustive()
    }
}

impl Contestant for RedisLock {
    type Key = String;

    const INNER: &'static [&'static str] = &["get", "del"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(name.to_owned())
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        Ok(lock_across(&self.connections, key, section, self.options())
            .await
            .map_err(|error| error.to_string())?)
    }
}
