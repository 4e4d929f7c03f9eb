//! Backends that panic. The process repeats a release that may not have reached the store.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Capabilities, Claim, Clock, Convertible, Error, ErrorKind,
    Key, Released, Renew, Renewal, SharedBackend, Watch,
};
use lock_sync::{Locks, MutexGuard, ReleaseError, RwLockReadGuard};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;

/// Longer than a few repetitions take, and shorter than a lease.
const SOON: Duration = Duration::from_secs(10);

/// A backend whose first releases panic.
struct Panics {
    inner: MemoryBackend,
    left: AtomicU32,
}

#[async_trait]
impl Backend for Panics {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        self.inner.try_acquire(request).await
    }
    async fn renew(&self, request: &Renew) -> Renewal {
        self.inner.renew(request).await
    }
    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let less = |left: u32| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            panic!("a bug");
        }
        self.inner.release(claim).await
    }
    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.inner.watch(key).await
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    fn capabilities(&self) -> Capabilities<'_> {
        self.inner.capabilities()
    }
}

impl SharedBackend for Panics {
    type Conversion = Convertible;
}

/// Two processes, and the backend of the first. Each of its first releases panics.
fn processes(panics: u32) -> (Locks<Panics>, Locks<MemoryBackend>, MemoryBackend) {
    let store = MemoryBackend::new();
    let inner = store.client();
    let here = Locks::builder(Panics { inner: inner.clone(), left: AtomicU32::new(panics) });
    let there = Locks::builder(store.client()).on_runtime(Handle::current());
    (here.on_runtime(Handle::current()).build().unwrap(), there.build().unwrap(), inner)
}

#[tokio::test(start_paused = true)]
async fn a_release_that_panics_is_repeated() {
    let (here, there, _) = processes(3);
    let (here, there) = (here.mutex("it", 0).unwrap(), there.mutex("it", 0).unwrap());
    let guard = here.lock().await.unwrap();
    let error = MutexGuard::release(guard).await.unwrap_err();
    let ReleaseError::Backend(error) = error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), "the backend panicked: a bug");
    assert!(timeout(SOON, there.lock()).await.is_ok(), "the lease is still there");
}

#[tokio::test(start_paused = true)]
async fn the_release_of_a_mode_that_the_lease_may_have_is_repeated_after_a_panic() {
    let (here, there, backend) = processes(2);
    let (here, there) = (here.rwlock("it", 0).unwrap(), there.rwlock("it", 0).unwrap());
    let writing = here.write().await.unwrap();
    let asked = backend.stats().acquires;
    let converting = backend.faults().on(Verb::Acquire);
    converting.lose_replies(1);
    let reading = writing.downgrade();
    while backend.stats().acquires == asked {
        yield_now().await;
    }
    converting.fail(ErrorKind::NotReady);
    assert!(there.try_read().await.is_ok(), "the store has carried out the downgrade");
    drop::<RwLockReadGuard<'_, _>>(reading);
    assert!(timeout(SOON, there.write()).await.is_ok(), "the lease is still there");
}
