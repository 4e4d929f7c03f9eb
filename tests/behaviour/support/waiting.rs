//! Tasks that wait for a lock.

use std::sync::Arc;

use lock_sync::{LockError, Mutex, OwnedMutexGuard};
use lock_tests::{CommandStats, RedisServer, eventually_async};
use tokio::task::JoinHandle;

use super::{SOON, soon};

/// A task that waits for a lock.
pub(crate) struct Waiting(JoinHandle<Result<OwnedMutexGuard<()>, LockError>>);

/// Begins to wait in a task of its own, which goes on whatever the test does meanwhile.
pub(crate) fn waiting(mutex: &Arc<Mutex<()>>) -> Waiting {
    Waiting(tokio::spawn(Arc::clone(mutex).lock_owned()))
}

impl Waiting {
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// The guard, which must come soon.
    #[track_caller]
    pub(crate) fn served(self) -> impl Future<Output = OwnedMutexGuard<()>> {
        let task = soon(self.0);
        async move { task.await.unwrap().unwrap() }
    }
}

/// Waits until somebody who asked was refused, after the server had counted so far.
pub(crate) async fn until_refused(server: &RedisServer, before: &CommandStats) {
    // A refusal says how long the present lease lasts.
    let refused = async || server.commandstats().since(before).calls("pttl") > 0;
    eventually_async("somebody is refused", SOON, refused).await;
}

/// Waits until somebody listens to what happens to a lock.
pub(crate) async fn until_heard(server: &RedisServer) {
    let heard = async || !server.cli(&["PUBSUB", "CHANNELS"]).array().is_empty();
    eventually_async("somebody listens", SOON, heard).await;
}
