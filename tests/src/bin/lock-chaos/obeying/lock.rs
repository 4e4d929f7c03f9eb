//! A lock of any kind, and the ways to take it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lock_sync::{Mutex, Owner, ReentrantMutex, RwLock, Semaphore, TryAcquireError, TryLockError};

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

/// Waits as long as the patience says: by the first way, by the second way with a limit, or by the third way once.
macro_rules! by {
    ($patience:expr, $usual:expr, $limit:ident => $within:expr, $now:expr) => {
        match $patience {
            Patience::Usual => waited($usual).await,
            Patience::AtMost($limit) => waited($within).await,
            Patience::None => tried($now).await,
        }
    };
}

impl Lock {
    /// Takes the lock, once: an owner is used up.
    pub(crate) async fn take(&mut self, patience: Patience) -> Result<Guard<'_>, Refused> {
        match self {
            Self::Mutex(it) => {
                by!(patience, it.lock(), limit => it.lock_timeout(limit), it.try_lock())
                    .map(Guard::Mutex)
            }
            Self::Read(it) => {
                by!(patience, it.read(), limit => it.read_timeout(limit), it.try_read())
                    .map(Guard::Read)
            }
            Self::Write(it) => {
                by!(patience, it.write(), limit => it.write_timeout(limit), it.try_write())
                    .map(Guard::Write)
            }
            Self::Upgradable(it) => by!(
                patience,
                it.upgradable_read(),
                limit => it.upgradable_read_timeout(limit),
                it.try_upgradable_read()
            )
            .map(Guard::Upgradable),
            Self::Permits(it, count) => {
                let n = *count;
                let all = it.acquire_many(n);
                by!(patience, all, limit => it.acquire_many_timeout(n, limit), it.try_acquire_many(n))
                    .map(Guard::Permit)
            }
            Self::Owned(it, owner) => {
                let used_up = || Refused::Failed("its owner was used up".into());
                let owner = owner.take().ok_or_else(used_up)?;
                by!(
                    patience,
                    owner.scope(it.lock()),
                    limit => owner.scope(it.lock_timeout(limit)),
                    owner.scope(it.try_lock())
                )
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
