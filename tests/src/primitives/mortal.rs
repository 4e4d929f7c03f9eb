//! A client that dies.

use lock_sync::{Builder, Locks};
use tokio::runtime::{self, Runtime};

use super::{SHORT, Stage, client};

/// A client that dies when it is dropped, whatever part of it is still in use.
///
/// It dies with its runtime: its leases are neither renewed nor released.
pub(super) struct Mortal<S: Stage> {
    pub(super) locks: Locks<S::Backend>,
    runtime: Option<Runtime>,
}

impl<S: Stage> Mortal<S> {
    pub(super) async fn of(stage: &S) -> Self {
        Self::with(stage, |locks| locks.ttl(SHORT)).await
    }

    pub(super) async fn with(
        stage: &S,
        options: impl FnOnce(Builder<S::Backend>) -> Builder<S::Backend>,
    ) -> Self {
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let locks = client(stage, |locks| options(locks).on_runtime(handle)).await;
        Self { locks, runtime: Some(runtime) }
    }
}

impl<S: Stage> Drop for Mortal<S> {
    fn drop(&mut self) {
        // A wait for its tasks would block the runtime of the test.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
