//! Tasks that wait for a lock.

use std::sync::Arc;
use std::time::Duration;

use lock_sync::{LockError, Mutex, OwnedMutexGuard};
use lock_tests::{CommandStats, RedisServer, eventually, eventually_async};
use tokio::task::JoinHandle;

use super::{QUEUE, SOON, soon};

/// A task that waits for a lock.
pub(crate) struct Waiting(JoinHandle<Result<OwnedMutexGuard<()>, LockError>>);

/// Starts to wait in a new task, which goes on whatever the test does meanwhile.
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

/// Waits until a caller was refused, after the server's count reached this number.
pub(crate) async fn until_refused(server: &RedisServer, before: &CommandStats) {
    // A refusal says how long the present lease lasts.
    let refused = async || server.commandstats().since(before).calls("pttl") > 0;
    eventually_async("a caller is refused", SOON, refused).await;
}

/// Waits until a client listens to the events of a lock.
pub(crate) async fn until_heard(server: &RedisServer) {
    let heard = async || !server.cli(&["PUBSUB", "CHANNELS"]).array().is_empty();
    eventually_async("a client listens", SOON, heard).await;
}

/// Waits until this many claims wait for the lock "it".
#[track_caller]
pub(crate) fn until_in_line(server: &RedisServer, count: i64) {
    eventually(&format!("{count} stand in line"), SOON, || {
        server.cli(&["LLEN", QUEUE]).int() == count
    });
}

/// Waits until the server gets no more requests.
pub(crate) async fn until_quiet(server: &RedisServer) {
    soon(async {
        let mut before = server.commandstats();
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = server.commandstats();
            if now.since(&before).total() == 0 {
                return;
            }
            before = now;
        }
    })
    .await;
}

/// The requests that the server gets during this time.
pub(crate) async fn asked_within(server: &RedisServer, window: Duration) -> CommandStats {
    let before = server.commandstats();
    tokio::time::sleep(window).await;
    server.commandstats().since(&before)
}
