//! A backend of ours by itself.

use std::fmt;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Released, Renew, Renewal, Ttl,
};

use super::LEASE;
use crate::{Contestant, Failure, Verbs};

/// A backend without `lock-sync`: it neither waits nor renews by itself.
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
        Verbs::acquire(self, &claim).await?;
        section.await;
        let _told = self.0.release(&claim).await?;
        Ok(())
    }
}

impl<B: Backend> Verbs for Raw<B> {
    type Claim = Claim;

    const INNER: &'static [&'static str] = super::Ours::INNER;

    fn claim(&self, name: &str) -> Result<Self::Claim, Failure> {
        Ok(Claim::exclusive(Key::new(name)?, OwnerToken::generate()?))
    }

    async fn acquire(&self, claim: &Self::Claim) -> Result<(), Failure> {
        match self.0.try_acquire(&Acquire::new(claim.clone(), Ttl::new(LEASE)?)).await? {
            AcquireOutcome::Granted(_) => Ok(()),
            other => Err(format!("not granted, but {other:?}").into()),
        }
    }

    async fn renew(&self, claim: &Self::Claim) -> Result<(), Failure> {
        match self.0.renew(&Renew::new(claim.clone(), Ttl::new(LEASE)?)).await {
            Renewal::Renewed { .. } => Ok(()),
            other => Err(format!("not renewed, but {other:?}").into()),
        }
    }

    async fn release(&self, claim: &Self::Claim) -> Result<(), Failure> {
        match self.0.release(claim).await? {
            Released::Freed { .. } => Ok(()),
            other => Err(format!("not released, but {other:?}").into()),
        }
    }
}
