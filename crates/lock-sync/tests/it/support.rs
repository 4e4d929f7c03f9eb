//! What the tests share.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_sync::{Builder, Locks, Mutex};
use tokio::runtime::Handle;

/// Two processes, as far as the store can tell, and the store.
pub(crate) struct Pair {
    pub(crate) store: MemoryBackend,
    pub(crate) ours: MemoryBackend,
    pub(crate) here: Locks<MemoryBackend>,
    pub(crate) there: Locks<MemoryBackend>,
}

impl Pair {
    /// With drivers on threads of their own.
    pub(crate) fn threaded() -> Self {
        Self::build(|builder| builder)
    }

    /// With the drivers on this runtime, for paused time.
    pub(crate) fn local() -> Self {
        Self::local_with(|builder| builder)
    }

    pub(crate) fn local_with(
        options: impl Fn(Builder<MemoryBackend>) -> Builder<MemoryBackend>,
    ) -> Self {
        Self::build(|builder| options(builder.on_runtime(Handle::current())))
    }

    pub(crate) fn build(
        options: impl Fn(Builder<MemoryBackend>) -> Builder<MemoryBackend>,
    ) -> Self {
        let store = MemoryBackend::new();
        let (ours, theirs) = (store.client(), store.client());
        Self {
            here: options(Locks::builder(ours.clone())).build().unwrap(),
            there: options(Locks::builder(theirs)).build().unwrap(),
            ours,
            store,
        }
    }

    /// The same lock on both sides.
    pub(crate) fn mutexes(&self) -> (Mutex<u32>, Mutex<u32>) {
        (self.here.mutex("it", 0).unwrap(), self.there.mutex("it", 0).unwrap())
    }

    /// Waits until the store holds no lease, because of the releases under way.
    pub(crate) async fn all_released(&self) {
        eventually("all leases are released", || self.store.live_leases() == 0).await;
    }
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    poll_fn(|context| {
        Poll::Ready(match future.take() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        })
    })
    .await
}

/// Lets everything that is ready run, on this runtime and on the drivers' threads, until the
/// condition holds. Fails after a time that no machine needs.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(10), "never: {what}");
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}
