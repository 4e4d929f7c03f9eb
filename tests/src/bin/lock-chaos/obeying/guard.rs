//! A guard of any kind.

#![allow(clippy::result_large_err, reason = "an error that gives a guard back is larger than that")]

use lock_sync::{
    Lease, MutexGuard, ReentrantGuard, ReleaseError, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, SemaphorePermit, UpgradeError,
};

use super::lock::Refused;

/// The guard of a task of the worker.
pub(crate) enum Guard<'a> {
    Mutex(MutexGuard<'a, ()>),
    Read(RwLockReadGuard<'a, ()>),
    Write(RwLockWriteGuard<'a, ()>),
    Upgradable(RwLockUpgradableReadGuard<'a, ()>),
    Permit(SemaphorePermit<'a>),
    Owned(ReentrantGuard<'a, ()>),
}

impl<'a> Guard<'a> {
    pub(crate) fn lease(&self) -> Lease {
        match self {
            Guard::Mutex(guard) => MutexGuard::lease(guard),
            Guard::Read(guard) => RwLockReadGuard::lease(guard),
            Guard::Write(guard) => RwLockWriteGuard::lease(guard),
            Guard::Upgradable(guard) => RwLockUpgradableReadGuard::lease(guard),
            Guard::Permit(guard) => guard.lease(),
            Guard::Owned(guard) => ReentrantGuard::lease(guard),
        }
    }

    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Guard::Mutex(guard) => MutexGuard::release(guard).await,
            Guard::Read(guard) => RwLockReadGuard::release(guard).await,
            Guard::Write(guard) => RwLockWriteGuard::release(guard).await,
            Guard::Upgradable(guard) => RwLockUpgradableReadGuard::release(guard).await,
            Guard::Permit(guard) => guard.release().await,
            Guard::Owned(guard) => ReentrantGuard::release(guard).await,
        }
    }

    /// Becomes a writer. Otherwise returns the guard unchanged, and the reason.
    pub(crate) async fn upgrade(self, wait: bool) -> Result<Self, (Self, Refused)> {
        let Self::Upgradable(guard) = self else {
            return Err((self, Refused::Failed("not held with the prospect of writing".into())));
        };
        if wait {
            return guard.upgrade().await.map(Guard::Write).map_err(|error| {
                let (guard, error) = UpgradeError::into_parts(error);
                (Guard::Upgradable(guard), error.into())
            });
        }
        guard.try_upgrade().await.map(Guard::Write).map_err(|error| {
            let (guard, error) = UpgradeError::into_parts(error);
            (Guard::Upgradable(guard), Refused::of(error))
        })
    }

    /// Becomes a reader, upgradable or not. Otherwise returns the guard unchanged.
    pub(crate) fn downgrade(self, upgradable: bool) -> Result<Self, Self> {
        match self {
            Self::Write(guard) if upgradable => {
                Ok(Self::Upgradable(guard.downgrade_to_upgradable()))
            }
            Self::Write(guard) => Ok(Self::Read(guard.downgrade())),
            Self::Upgradable(guard) if !upgradable => Ok(Self::Read(guard.downgrade())),
            other => Err(other),
        }
    }

    /// Takes some of the permits out of the semaphore; `None` if these are no permits, or too few.
    pub(crate) fn split(&mut self, count: usize) -> Option<Self> {
        match self {
            Self::Permit(permit) => permit.split(count).map(Guard::Permit),
            _ => None,
        }
    }

    /// Takes the permits out of the semaphore. Otherwise returns the guard unchanged.
    pub(crate) fn forget(self) -> Result<(), Self> {
        match self {
            Self::Permit(permit) => {
                permit.forget();
                Ok(())
            }
            other => Err(other),
        }
    }
}
