//! An executor that stands still.

use std::time::Duration;

use lock_sync::{MutexGuard, TryLockError};
use lock_tests::{RedisServer, Worker, lock_worker};

use crate::support::{LOCK, Pair, SOON, ttl_of};

/// A renewal may be two seconds late.
const LEASE: Duration = Duration::from_secs(4);

#[test]
fn a_process_whose_executor_is_blocked_longer_than_the_lease_keeps_its_lock() {
    let server = RedisServer::start();
    let holder = Worker::builder(lock_worker!()).ttl(LEASE).spawn(&server.url());
    let other = Worker::spawn(lock_worker!(), &server.url());
    let token = holder.lock("it");
    let before = server.commandstats();

    let blocked = LEASE * 5 / 2;
    holder.send(&format!("block {}", blocked.as_millis()));
    // While the executor is blocked, the other process asks over and over.
    while holder.poll("blocked").is_none() {
        assert_eq!(other.try_lock("it"), None, "the lock ran out");
        std::thread::sleep(Duration::from_millis(5));
    }

    assert!(holder.poll("lost").is_none());
    assert!(holder.is_valid("it"));
    let renewals = server.commandstats().since(&before).calls("pexpire");
    assert!(renewals >= 5, "{renewals} renewals in {blocked:?}");
    holder.unlock("it");
    assert!(other.lock("it") > token);
}

#[tokio::test]
async fn a_task_that_blocks_its_only_thread_longer_than_the_lease_keeps_its_lock() {
    let pair = Pair::with(|redis| redis, |locks| locks.ttl(LEASE));
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    // No await from here on: this runtime does nothing else meanwhile.
    std::thread::sleep(LEASE * 5 / 2);
    assert!(MutexGuard::lease(&guard).is_valid());
    assert!(ttl_of(&pair.server, LOCK).is_some_and(|left| left > Duration::ZERO));
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    MutexGuard::release(guard).await.unwrap();
    assert!(tokio::time::timeout(SOON, there.lock()).await.unwrap().is_ok());
}
