//! The crate `rlock`: its mutex, and a client for its other locks.

use std::time::Duration;

use rlock::AcquireOptions;
use rlock::async_lock::RLock;

use crate::{Contestant, Failure};

/// `rlock`: a lease of 10 s that it renews, tries every 100 ms, and a release that is awaited.
#[derive(Debug)]
pub struct Rlock {
    pub(super) manager: RLock,
    pub(super) options: AcquireOptions,
}

impl Rlock {
    /// Connects at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self { manager: RLock::new(url).await?, options: AcquireOptions::default() })
    }

    /// Tries again after 1 ns, which tokio's timer rounds up to a millisecond.
    ///
    /// # Errors
    ///
    /// If the library rejects the delay as too short.
    pub fn impatient(mut self) -> Result<Self, Failure> {
        self.options = AcquireOptions::builder().retry_interval(Duration::from_nanos(1)).build()?;
        Ok(self)
    }
}

impl Contestant for Rlock {
    type Key = String;

    const INNER: &'static [&'static str] = &["type", "get", "del", "pexpire"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("rlock:{name}"))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut guard = self.manager.acquire_mutex_with_options(key, self.options.clone()).await?;
        section.await;
        Ok(guard.release().await?)
    }
}
