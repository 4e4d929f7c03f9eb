//! A backend of ours by itself.

use std::fmt;

use lock_core::{Acquire, Attempt, Backend, Claim, Key, OwnerToken, Ttl};

use super::LEASE;
use crate::{Contestant, Failure};

/// A backend without what `lock-sync` puts around it: nothing waits or renews.
pub struct Raw<B>(B);

impl<B> Raw<B> {
    /// This backend.
    pub fn new(backend: B) -> Self {
        Self(backend)
    }
}

impl<B> fmt::Debug for Raw<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").finish_non_exhaustive()
    }
}

impl<B: Backend> Contestant for Raw<B> {
    type Key = Key;

    const INNER: &'static [&'static str] = super::Ours::INNER;

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(Key::new(name)?)
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let claim = Claim::exclusive(key.clone(), OwnerToken::generate()?);
        let request = Acquire::new(claim, Ttl::new(LEASE)?);
        match self.0.try_acquire(&request).await? {
            Attempt::Granted(_) => {}
            other => return Err(format!("not granted, but {other:?}").into()),
        }
        section.await;
        let _told = self.0.release(&request.claim).await?;
        Ok(())
    }
}
