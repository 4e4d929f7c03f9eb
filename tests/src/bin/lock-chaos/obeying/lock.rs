//! A lock of any kind, and the ways to take it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lock_sync::{
    Mutex, Owner, ReentrantMutex, RwLock, Semaphore, TryAcquireError, TryLockError,
    TryReentrantLockError,
};

use super::guard::Guard;

/// The lock to hold, and the way.
pub(crate) enum Lock {
    Mutex(Arc<Mutex<()>>),
    Read(RwLock<()>),
    Write(RwLock<()>),
    Upgradable(RwLock<()>),
    Permits(Semaphore, u32),
    /// The owner is present until the lock is requested.
    Owned(ReentrantMutex<()>, Option<Owner>),
}

/// How long to wait.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// As the options say.
    Usual,
    AtMost(Duration),
    None,
}

/// The reason why there is no guard.
pub(crate) enum Refused {
    Busy,
    Failed(Box<dyn Error + Send + Sync>),
}

impl<E: Error + Send + Sync + 'static> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Refused {
    pub(crate) fn of(error: impl TryError) -> Self {
        if error.is_busy() { Self::Busy } else { error.into() }
    }
}

impl Lock {
    /// Takes the lock, once: an owner is used up.
    pub(crate) async fn take(&mut self, patience: Patience) -> Result<Guard<'_>, Refused> {
        match self {
            Self::Mutex(mutex) => match patience {
                Patience::Usual => waited(mutex.lock()).await,
                Patience::AtMost(limit) => waited(mutex.lock_timeout(limit)).await,
                Patience::None => tried(mutex.try_lock()).await,
            }
            .map(Guard::Mutex),
            Self::Read(lock) => match patience {
                Patience::Usual => waited(lock.read()).await,
                Patience::AtMost(limit) => waited(lock.read_timeout(limit)).await,
                Patience::None => tried(lock.try_read()).await,
            }
            .map(Guard::Read),
            Self::Write(lock) => match patience {
                Patience::Usual => waited(lock.write()).await,
                Patience::AtMost(limit) => waited(lock.write_timeout(limit)).await,
                Patience::None => tried(lock.try_write()).await,
            }
            .map(Guard::Write),
            Self::Upgradable(lock) => match patience {
                Patience::Usual => waited(lock.upgradable_read()).await,
                Patience::AtMost(limit) => waited(lock.upgradable_read_timeout(limit)).await,
                Patience::None => tried(lock.try_upgradable_read()).await,
            }
            .map(Guard::Upgradable),
            Self::Permits(semaphore, count) => match patience {
                Patience::Usual => waited(semaphore.acquire_many(*count)).await,
                Patience::AtMost(limit) => {
                    waited(semaphore.acquire_many_timeout(*count, limit)).await
                }
                Patience::None => tried(semaphore.try_acquire_many(*count)).await,
            }
            .map(Guard::Permit),
            Self::Owned(mutex, owner) => {
                let Some(owner) = owner.take() else {
                    return Err(Refused::Failed("its owner was used up".into()));
                };
                match patience {
                    Patience::Usual => waited(owner.scope(mutex.lock())).await,
                    Patience::AtMost(limit) => waited(owner.scope(mutex.lock_timeout(limit))).await,
                    Patience::None => tried(owner.scope(mutex.try_lock())).await,
                }
                .map(Guard::Owned)
            }
        }
    }
}

async fn waited<G, E>(waiting: impl Future<Output = Result<G, E>>) -> Result<G, Refused>
where
    E: Error + Send + Sync + 'static,
{
    Ok(waiting.await?)
}

async fn tried<G>(trying: impl Future<Output = Result<G, impl TryError>>) -> Result<G, Refused> {
    trying.await.map_err(Refused::of)
}

/// An error that may say that another client has the lock.
pub(crate) trait TryError: Error + Send + Sync + Sized + 'static {
    fn is_busy(&self) -> bool;
}

impl TryError for TryLockError {
    fn is_busy(&self) -> bool {
        matches!(self, Self::WouldBlock)
    }
}

impl TryError for TryAcquireError {
    fn is_busy(&self) -> bool {
        matches!(self, Self::NoPermits)
    }
}

impl TryError for TryReentrantLockError {
    fn is_busy(&self) -> bool {
        matches!(self, Self::WouldBlock)
    }
}
