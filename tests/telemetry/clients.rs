//! A client with an observer.

use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::Observer;
use lock_sync::Locks;
use lock_tests::{RedisServer, SOON, eventually_async};

/// The lock that both clients want.
pub(crate) const NAME: &str = "orders/42";
/// Short enough that a test sees renewals.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// Repeats a test until a waiter has the lock by the message of its grant, and `test` returns that. On a busy machine the
/// message may overtake the reply that gave the place. Then the client asks, and gets the lock by the answer.
pub(crate) async fn until_pushed(test: impl AsyncFn() -> bool) {
    for _ in 0..10 {
        if test().await {
            return;
        }
    }
    panic!("the message of a grant always came too early");
}

/// A client of this server, and its observer hears of everything.
pub(crate) async fn client(server: &RedisServer, observer: Arc<dyn Observer>) -> Locks {
    let store = lock_any::open_observed(&server.url(), Arc::clone(&observer)).await.unwrap();
    Locks::builder(store).ttl(TTL).observer(observer).build().unwrap()
}

/// Waits until this many processes wait for the lock in the store.
pub(crate) async fn until_waiting(locks: &Locks, count: u64) {
    eventually_async("a client waits in the store", SOON, async || {
        locks.inspect(NAME).await.unwrap().waiting == count
    })
    .await;
}
