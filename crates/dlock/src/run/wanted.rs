//! The lock that a program needs.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, ErrorKind, Key};
use lock_sync::{
    AcquireError, Lease, LockError, Locks, OwnedMutexGuard, OwnedRwLockReadGuard,
    OwnedSemaphorePermit, OwnedSlotPermit, TryAcquireError, TryLockError,
};

use super::args::RunArgs;

/// What to hold while the program runs.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Lock(Key),
    Shared(Key),
    Permit(Key, u16),
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    Try,
    AtMost(Duration),
    Endless,
}

/// The lock is not held.
#[derive(Debug)]
pub(super) enum Denied {
    /// The lock is not free.
    Busy,
    /// The wait was too long.
    Timeout,
    Failed(Box<dyn StdError>),
}

/// The guard of the lock.
pub(super) enum Held {
    Lock(OwnedMutexGuard<()>),
    Shared(OwnedRwLockReadGuard<()>),
    Permit(OwnedSemaphorePermit),
    Slot(OwnedSlotPermit),
}

impl Wanted {
    pub(super) fn of(args: &RunArgs) -> Option<Self> {
        let name = args.what.lock.as_ref().or(args.what.name.as_ref());
        match (name, &args.what.semaphore, args.permits) {
            (Some(name), _, _) if args.shared => Some(Self::Shared(name.clone())),
            (Some(name), _, _) => Some(Self::Lock(name.clone())),
            (_, Some(name), Some(permits)) => Some(Self::Permit(name.clone(), permits)),
            _ => None,
        }
    }

    pub(super) fn key(&self) -> &Key {
        match self {
            Self::Lock(key) | Self::Shared(key) | Self::Permit(key, _) => key,
        }
    }

    /// Waits for the lock. If the wait is dropped, nothing remains in the store.
    pub(super) async fn acquire(&self, locks: &Locks, patience: Patience) -> Result<Held, Denied> {
        match self {
            Self::Lock(key) => lock(locks, key, patience).await,
            Self::Shared(key) => read(locks, key, patience).await,
            Self::Permit(key, permits) => permit(locks, key, usize::from(*permits), patience).await,
        }
    }
}

async fn lock(locks: &Locks, key: &Key, patience: Patience) -> Result<Held, Denied> {
    let lock = Arc::new(locks.mutex(key.clone(), ()).map_err(failed)?);
    Ok(Held::Lock(match patience {
        Patience::Try => lock.try_lock_owned().await?,
        Patience::AtMost(limit) => lock.lock_owned_timeout(limit).await?,
        Patience::Endless => lock.lock_owned().await?,
    }))
}

async fn read(locks: &Locks, key: &Key, patience: Patience) -> Result<Held, Denied> {
    let lock = Arc::new(locks.rwlock(key.clone(), ()).map_err(failed)?);
    Ok(Held::Shared(match patience {
        Patience::Try => lock.try_read_owned().await?,
        Patience::AtMost(limit) => lock.read_owned_timeout(limit).await?,
        Patience::Endless => lock.read_owned().await?,
    }))
}

async fn permit(
    locks: &Locks,
    key: &Key,
    permits: usize,
    patience: Patience,
) -> Result<Held, Denied> {
    let semaphore = match locks.semaphore(key.clone(), permits) {
        // The store counts no permits. A quorum is an example.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return slot(locks, key, permits, patience).await;
        }
        semaphore => Arc::new(semaphore.map_err(failed)?),
    };
    Ok(Held::Permit(match patience {
        Patience::Try => semaphore.try_acquire_owned().await?,
        Patience::AtMost(limit) => semaphore.acquire_owned_timeout(limit).await?,
        Patience::Endless => semaphore.acquire_owned().await?,
    }))
}

/// Waits for a permit that is a lock of its own.
async fn slot(
    locks: &Locks,
    key: &Key,
    permits: usize,
    patience: Patience,
) -> Result<Held, Denied> {
    let semaphore = Arc::new(locks.slot_semaphore(key.clone(), permits).map_err(failed)?);
    Ok(Held::Slot(match patience {
        Patience::Try => semaphore.try_acquire_owned().await?,
        Patience::AtMost(limit) => semaphore.acquire_owned_timeout(limit).await?,
        Patience::Endless => semaphore.acquire_owned().await?,
    }))
}

impl Held {
    pub(super) fn lease(&self) -> Lease {
        match self {
            Self::Lock(guard) => OwnedMutexGuard::lease(guard),
            Self::Shared(guard) => OwnedRwLockReadGuard::lease(guard),
            Self::Permit(permit) => permit.lease(),
            Self::Slot(permit) => permit.lease(),
        }
    }
}

fn failed(error: Error) -> Denied {
    Denied::Failed(Box::new(error))
}

impl From<LockError> for Denied {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Timeout { source: None } => Self::Timeout,
            error => Self::Failed(Box::new(error)),
        }
    }
}

impl From<TryLockError> for Denied {
    fn from(error: TryLockError) -> Self {
        match error {
            TryLockError::WouldBlock => Self::Busy,
            error => Self::Failed(Box::new(error)),
        }
    }
}

impl From<AcquireError> for Denied {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Timeout { source: None } => Self::Timeout,
            error => Self::Failed(Box::new(error)),
        }
    }
}

impl From<TryAcquireError> for Denied {
    fn from(error: TryAcquireError) -> Self {
        match error {
            TryAcquireError::NoPermits => Self::Busy,
            error => Self::Failed(Box::new(error)),
        }
    }
}
