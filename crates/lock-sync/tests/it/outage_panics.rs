//! Backends that panic. The process repeats a release that may not have reached the store.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Backend, Claim, Error, ErrorKind, Released};
use lock_sync::{Locks, MutexGuard, ReleaseError, RwLockReadGuard};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::layered::{Layer, Layered};

/// Longer than a few repetitions take, and shorter than a lease.
const SOON: Duration = Duration::from_secs(10);

/// A layer whose first releases panic.
struct Panics {
    left: AtomicU32,
}

#[async_trait]
impl Layer for Panics {
    async fn release(&self, store: &MemoryBackend, claim: &Claim) -> Result<Released, Error> {
        let less = |left: u32| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            panic!("a bug");
        }
        store.release(claim).await
    }
}

/// Two processes, and the backend of the first. Each of its first releases panics.
fn processes(panics: u32) -> (Locks<Layered<Panics>>, Locks<MemoryBackend>, MemoryBackend) {
    let store = MemoryBackend::new();
    let inner = store.client();
    let layer = Panics { left: AtomicU32::new(panics) };
    let here = Locks::builder(Layered { store: inner.clone(), layer });
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
