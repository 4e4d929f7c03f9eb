//! The reader-writer lock of the crate `rlock`.

use super::super::rlock::Rlock as Client;
use crate::{Contestant, Failure};

/// `rlock`: a lease of 10 s that it renews, tries every 100 ms, prefers readers, and a release that is
/// awaited.
#[derive(Debug)]
pub struct Rlock(pub Client);

impl Contestant for Rlock {
    type Key = String;

    const INNER: &'static [&'static str] = &[
        "time",
        "type",
        "zremrangebyscore",
        "zcount",
        "zcard",
        "zscore",
        "zadd",
        "zrem",
        "pttl",
        "pexpire",
    ];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("rlock:{name}"))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let Client { manager, options } = &self.0;
        let mut guard = manager.acquire_write_with_options(key, options.clone()).await?;
        section.await;
        Ok(guard.release().await?)
    }

    async fn shared<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let Client { manager, options } = &self.0;
        let mut guard = manager.acquire_read_with_options(key, options.clone()).await?;
        section.await;
        Ok(guard.release().await?)
    }
}
