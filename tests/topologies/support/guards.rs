//! Guards whose leases outlast a failover, however long servers take for it on a busy machine.

use lock_core::Ttl;
use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::{RedisServer, SOON, eventually, soon};
use tokio::task::block_in_place;

use super::long;

/// The locks of a process.
pub(crate) fn locks(backend: RedisBackend) -> Locks<RedisBackend> {
    Locks::builder(backend).ttl(long().duration()).build().unwrap()
}

/// A guard stays valid through a failover, its lease is renewed afterwards, and the waiter of another process gets
/// the lock.
pub(crate) async fn guards_go_through(
    clients: [RedisBackend; 2],
    primary: &RedisServer,
    fail_over: impl FnOnce(),
) {
    let [here, there] = clients.map(|client| locks(client).mutex("a", ()).unwrap());
    let guard = soon(here.lock()).await.unwrap();
    let lease = MutexGuard::lease(&guard);
    let waiting = tokio::spawn(async move {
        let guard = there.lock().await.unwrap();
        MutexGuard::lease(&guard).fencing_token()
    });
    block_in_place(|| {
        eventually("the other process waits", SOON, || {
            primary.cli(&["LLEN", "lock:{a}:queue"]).int() == 1
        });
        fail_over();
    });
    assert!(lease.is_valid(), "the lease was lost");
    let longer = Ttl::new(2 * long().duration()).unwrap();
    soon(lease.extend(longer)).await.unwrap();
    assert!(lease.remaining() > long().duration(), "the lease was not renewed");
    MutexGuard::release(guard).await.unwrap();
    assert!(soon(waiting).await.unwrap() > lease.fencing_token());
}
