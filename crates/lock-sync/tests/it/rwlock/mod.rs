//! Readers and writers.

mod cancel;
mod contract;
mod downgrade;
mod fixed;
mod guards;
mod lease;
mod order;
mod quota;
mod sharing;
mod upgrade;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_sync::{Handoff, Locks, RwLock, TryLockError};
use tokio::runtime::Handle;
use tokio::task::yield_now;

use crate::support::{Pair, poll_once};

/// One lock on both sides.
fn rwlocks(pair: &Pair) -> (RwLock<u32>, RwLock<u32>) {
    (pair.here.rwlock("it", 0).unwrap(), pair.there.rwlock("it", 0).unwrap())
}

/// Two processes that pass the lock on among their own tasks only while no other process waits.
fn fair() -> Pair {
    Pair::local_with(|builder| builder.handoff(Handoff::Fair))
}

/// A third process, with its driver on this runtime.
fn third(pair: &Pair) -> Locks<MemoryBackend> {
    Locks::builder(pair.store.client())
        .handoff(Handoff::Fair)
        .on_runtime(Handle::current())
        .build()
        .unwrap()
}

/// Longer than any of these tests has to wait, and shorter than a lease.
const SOON: Duration = Duration::from_secs(10);

/// The output of a future that must complete without waiting for a holder.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("nothing is in the way")
}

/// Begins to wait, and asserts that the future has to wait.
async fn begin<F: Future>(mut future: Pin<&mut F>) {
    assert!(poll_once(future.as_mut()).await.is_pending());
}

/// Runs everything that is ready, on a runtime that also runs the drivers, and asserts that the
/// future still waits.
async fn still_waits<F: Future>(mut future: Pin<&mut F>) {
    for _ in 0..200 {
        yield_now().await;
        assert!(poll_once(future.as_mut()).await.is_pending());
    }
}

/// Waits until this process admits no new reader, because it knows that another process waits.
async fn refuses_readers(lock: &RwLock<u32>) {
    let refused = async {
        loop {
            match lock.try_read().await {
                Ok(_) => yield_now().await,
                Err(TryLockError::WouldBlock) => return,
                Err(error) => panic!("{error}"),
            }
        }
    };
    soon(refused).await;
}
