//! The crate `rslock`.

use std::time::Duration;

use rslock::LockManager;

use super::LEASE;
use crate::{Contestant, Failure};

/// `rslock`: no renewal, tries after up to 200 ms, and a release that is awaited,
/// because a guard that is dropped does not release.
#[derive(Debug)]
pub struct Rslock {
    manager: LockManager,
}

impl Rslock {
    /// Connects on first use.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn connect(url: &str) -> Result<Self, Failure> {
        Self::quorum(&[url.to_owned()])
    }

    /// Connects to several servers on first use.
    ///
    /// # Errors
    ///
    /// If a URL makes no sense.
    pub fn quorum(urls: &[String]) -> Result<Self, Failure> {
        let clients: Result<_, _> = urls.iter().map(|url| redis::Client::open(&**url)).collect();
        Ok(Self { manager: LockManager::from_clients(clients?) })
    }

    /// Tries again after a random delay of less than 1 ms, which the library rounds down to 0.
    #[must_use]
    pub fn impatient(mut self) -> Self {
        self.manager.set_retry(u32::MAX, Duration::from_millis(1));
        self
    }
}

impl Contestant for Rslock {
    type Key = Vec<u8>;

    const INNER: &'static [&'static str] = &["get", "del"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("rslock:{name}").into_bytes())
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = self.manager.acquire(key, LEASE).await?;
        section.await;
        guard.release().await;
        Ok(())
    }
}
