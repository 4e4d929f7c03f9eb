//! Every lock with exclusive holders, for the same tests.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, FencingToken, Instant};
use lock_redis::RedisBackend;
use lock_sync::{
    AcquireError, Lease, LockError, Locks, Lost, Mutex, OwnedMutexGuard, OwnedRwLockWriteGuard,
    OwnedSemaphorePermit, ReentrantGuard, ReentrantMutex, ReleaseError, RwLock, Semaphore,
    TryAcquireError, TryLockError, owner_scope, owner_scope_sync,
};

use super::LOCK;

/// A handle of a lock, by default "it". Clones are the same handle.
pub(crate) trait Excluding: Clone + Send + Sync + 'static {
    type Guard: Guard;

    /// The keys on the server while the lock is held.
    const KEYS: &'static [&'static str];

    fn named(locks: &Locks<RedisBackend>, name: &str) -> Self;

    fn of(locks: &Locks<RedisBackend>) -> Self {
        Self::named(locks, "it")
    }

    fn take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static;

    fn take_within(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static;

    fn try_take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static;

    fn blocking_take(&self) -> Result<Self::Guard, Denied>;
}

/// The common part of all guards.
pub(crate) trait Guard: Debug + Send + 'static {
    fn lease(&self) -> Lease;

    fn fencing_token(&self) -> FencingToken {
        self.lease().fencing_token()
    }

    fn is_valid(&self) -> bool {
        self.lease().is_valid()
    }

    fn valid_until(&self) -> Instant {
        self.lease().valid_until()
    }

    fn lost(&self) -> Lost {
        self.lease().lost()
    }

    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + 'static;
}

/// The reason why there is no guard, for all kinds of locks.
#[derive(Debug)]
pub(crate) enum Denied {
    /// Another client has the lock.
    WouldBlock,
    Timeout {
        source: Option<Error>,
    },
    Backend(Error),
    #[expect(dead_code, reason = "shown when a test fails")]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

pub(crate) type TheMutex = Arc<Mutex<()>>;
pub(crate) type TheWriter = Arc<RwLock<()>>;
pub(crate) type TheOnePermit = Arc<Semaphore>;
/// A new owner each time. Its guards borrow it, and here they have to outlive everything, so it lives as
/// long as the process.
pub(crate) type TheReentrant = &'static ReentrantMutex<()>;

impl Excluding for TheMutex {
    type Guard = OwnedMutexGuard<()>;

    const KEYS: &'static [&'static str] = &[LOCK];

    fn named(locks: &Locks<RedisBackend>, name: &str) -> Self {
        Arc::new(locks.mutex(name, ()).unwrap())
    }

    fn take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).lock_owned())
    }

    fn take_within(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).lock_owned_timeout(limit))
    }

    fn try_take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).try_lock_owned())
    }

    fn blocking_take(&self) -> Result<Self::Guard, Denied> {
        Ok(Arc::clone(self).blocking_lock_owned()?)
    }
}

impl Excluding for TheWriter {
    type Guard = OwnedRwLockWriteGuard<()>;

    const KEYS: &'static [&'static str] = &[LOCK];

    fn named(locks: &Locks<RedisBackend>, name: &str) -> Self {
        Arc::new(locks.rwlock(name, ()).unwrap())
    }

    fn take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).write_owned())
    }

    fn take_within(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).write_owned_timeout(limit))
    }

    fn try_take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).try_write_owned())
    }

    fn blocking_take(&self) -> Result<Self::Guard, Denied> {
        Ok(Arc::clone(self).blocking_write_owned()?)
    }
}

/// The additional keys while a lock is shared, even with a single holder.
const SHARED: &[&str] = &[LOCK, "lock:{it}:grants", "lock:{it}:holders"];

impl Excluding for TheOnePermit {
    type Guard = OwnedSemaphorePermit;

    const KEYS: &'static [&'static str] = SHARED;

    fn named(locks: &Locks<RedisBackend>, name: &str) -> Self {
        Arc::new(locks.semaphore(name, 1).unwrap())
    }

    fn take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).acquire_owned())
    }

    fn take_within(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).acquire_owned_timeout(limit))
    }

    fn try_take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(Arc::clone(self).try_acquire_owned())
    }

    fn blocking_take(&self) -> Result<Self::Guard, Denied> {
        Ok(Arc::clone(self).blocking_acquire_owned()?)
    }
}

impl Excluding for TheReentrant {
    type Guard = ReentrantGuard<'static, ()>;

    const KEYS: &'static [&'static str] = SHARED;

    fn named(locks: &Locks<RedisBackend>, name: &str) -> Self {
        Box::leak(Box::new(locks.reentrant_mutex(name, ()).unwrap()))
    }

    fn take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(owner_scope(ReentrantMutex::lock(self)))
    }

    fn take_within(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(owner_scope(ReentrantMutex::lock_timeout(self, limit)))
    }

    fn try_take(&self) -> impl Future<Output = Result<Self::Guard, Denied>> + Send + 'static {
        denied(owner_scope(ReentrantMutex::try_lock(self)))
    }

    fn blocking_take(&self) -> Result<Self::Guard, Denied> {
        Ok(owner_scope_sync(|| ReentrantMutex::blocking_lock(self))?)
    }
}

async fn denied<G, E>(asking: impl Future<Output = Result<G, E>>) -> Result<G, Denied>
where
    Denied: From<E>,
{
    Ok(asking.await?)
}

macro_rules! guard {
    ($($guard:ty),*) => {$(
        impl Guard for $guard {
            fn lease(&self) -> Lease {
                <$guard>::lease(self)
            }

            fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + 'static {
                <$guard>::release(self)
            }
        }
    )*};
}

guard!(
    OwnedMutexGuard<()>,
    OwnedRwLockWriteGuard<()>,
    OwnedSemaphorePermit,
    ReentrantGuard<'static, ()>
);

/// From the errors of calls that wait, and of those that do not.
macro_rules! denied {
    ($(waiting $waiting:ident, trying $trying:ident: $would_block:ident;)*) => {$(
        impl From<$waiting> for Denied {
            fn from(error: $waiting) -> Self {
                match error {
                    $waiting::Timeout { source } => Self::Timeout { source },
                    $waiting::Backend(error) => Self::Backend(error),
                    error => Self::Other(error.into()),
                }
            }
        }

        impl From<$trying> for Denied {
            fn from(error: $trying) -> Self {
                match error {
                    $trying::$would_block => Self::WouldBlock,
                    $trying::Backend(error) => Self::Backend(error),
                    error => Self::Other(error.into()),
                }
            }
        }
    )*};
}

denied! {
    waiting LockError, trying TryLockError: WouldBlock;
    waiting AcquireError, trying TryAcquireError: NoPermits;
}

/// Makes tests of these functions, which are generic over [`Excluding`], for every exclusive lock.
macro_rules! for_all_that_excludes {
    (async on two threads: $($test:ident)*) => {
        $crate::support::for_all_that_excludes! {
            @each [tokio::test(flavor = "multi_thread", worker_threads = 2)] [async] $($test)*
        }
    };
    // For tests that wait most of the time.
    (async at once: $($test:ident)*) => {
        $(mod $test {
            use $crate::support::{TheMutex, TheOnePermit, TheReentrant, TheWriter};

            #[tokio::test]
            async fn all() {
                tokio::join!(
                    super::$test::<TheMutex>(),
                    super::$test::<TheWriter>(),
                    super::$test::<TheOnePermit>(),
                    super::$test::<TheReentrant>(),
                );
            }
        })*
    };
    (async: $($test:ident)*) => {
        $crate::support::for_all_that_excludes! { @each [tokio::test] [async] $($test)* }
    };
    (@each $attribute:tt $async:tt $($test:ident)*) => {$(
        mod $test {
            $crate::support::for_all_that_excludes! { @one $attribute $async $test mutex TheMutex }
            $crate::support::for_all_that_excludes! { @one $attribute $async $test rwlock TheWriter }
            $crate::support::for_all_that_excludes! {
                @one $attribute $async $test semaphore TheOnePermit
            }
            $crate::support::for_all_that_excludes! {
                @one $attribute $async $test reentrant TheReentrant
            }
        }
    )*};
    (@one [$($attribute:tt)*] [] $test:ident $name:ident $lock:ident) => {
        #[$($attribute)*]
        fn $name() {
            super::$test::<$crate::support::$lock>();
        }
    };
    (@one [$($attribute:tt)*] [async] $test:ident $name:ident $lock:ident) => {
        #[$($attribute)*]
        async fn $name() {
            super::$test::<$crate::support::$lock>().await;
        }
    };
    ($($test:ident)*) => {
        $crate::support::for_all_that_excludes! { @each [test] [] $($test)* }
    };
}

pub(crate) use for_all_that_excludes;
