//! A maximum of readers: the permits of the quota.

use std::sync::Arc;
use std::time::Duration;

use lock_core::ErrorKind;
use lock_sync::{
    LockError, OwnedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, TryLockError,
};
use tokio::time::Instant;

use super::{begin, rwlocks, soon, still_waits};
use crate::support::{Pair, eventually};

fn limited(pair: &Pair, max_readers: u32) -> RwLock<u32> {
    pair.here.rwlock_with_max_readers("it", 0, max_readers).unwrap()
}

#[test]
fn the_maximum_has_limits_and_tokios_words() {
    let pair = Pair::threaded();
    let refused = |max_readers| {
        let error = pair.here.rwlock_with_max_readers("it", 0, max_readers).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        error.to_string()
    };
    assert!(refused(0).contains("a RwLock may not be created with 0 readers"));
    let most = u32::MAX >> 3;
    assert!(refused(most + 1).contains(&format!("with more than {most} readers")));
    assert!(pair.here.rwlock_with_max_readers("it", 0, most).is_ok());
}

#[tokio::test]
async fn one_reader_too_many_waits_for_another_to_leave() {
    let pair = Pair::local();
    let lock = limited(&pair, 2);
    let (_, there) = rwlocks(&pair);
    let (first, second) = (lock.read().await.unwrap(), lock.upgradable_read().await.unwrap());
    assert!(matches!(lock.try_read().await, Err(TryLockError::WouldBlock)));
    let mut third = Box::pin(lock.read());
    begin(third.as_mut()).await;
    still_waits(third.as_mut()).await;
    assert!(there.try_read().await.is_ok(), "the maximum is this handle's");
    drop(first);
    let third = soon(third).await.unwrap();
    assert!(
        RwLockUpgradableReadGuard::lease(&second).is_valid()
            && RwLockReadGuard::lease(&third).is_valid()
    );
}

#[tokio::test]
async fn all_waiters_pass_through_one_line() {
    let pair = Pair::local();
    let lock = limited(&pair, 1);
    let reading = lock.read().await.unwrap();
    let mut second = Box::pin(lock.read());
    begin(second.as_mut()).await;
    let mut writing = Box::pin(lock.write());
    begin(writing.as_mut()).await;
    drop(reading);
    let second = soon(second).await.unwrap();
    still_waits(writing.as_mut()).await;
    drop(second);
    let writing = soon(writing).await.unwrap();
    // Its permit becomes the permit of a reader, so there is still one.
    let reading = writing.downgrade();
    assert!(lock.try_read().await.is_err());
    drop(reading);
    let reading = soon(lock.upgradable_read()).await.unwrap();
    let writing = soon(reading.upgrade()).await.unwrap();
    assert!(lock.try_read().await.is_err());
    RwLockWriteGuard::release(writing).await.unwrap();
    assert!(lock.try_read().await.is_ok());
}

#[tokio::test]
async fn an_upgrade_keeps_its_permit() {
    let pair = Pair::local();
    let lock = limited(&pair, 1);
    let (_, there) = rwlocks(&pair);
    let reading = lock.upgradable_read().await.unwrap();
    let elsewhere = there.read().await.unwrap();
    let reading = reading.try_upgrade().await.unwrap_err().into_guard();
    assert!(lock.try_read().await.is_err(), "it came to nothing");
    RwLockReadGuard::release(elsewhere).await.unwrap();
    let reading = soon(reading.upgrade()).await.unwrap().downgrade();
    assert!(lock.try_read().await.is_err(), "it was done");
    drop(reading);
    assert!(soon(lock.read()).await.is_ok());
}

#[tokio::test]
async fn a_place_in_that_line_can_be_given_up() {
    let pair = Pair::local();
    let lock = limited(&pair, 1);
    let reading = lock.read().await.unwrap();
    let mut second = Box::pin(lock.read());
    let mut third = Box::pin(lock.write());
    begin(second.as_mut()).await;
    begin(third.as_mut()).await;
    drop(reading);
    // It has the permit, but is never polled.
    drop(second);
    drop(soon(third).await.unwrap());
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_wait_counts_from_the_first_poll_to_the_guard() {
    let limit = Duration::from_secs(2);
    let pair = Pair::local();
    let lock = limited(&pair, 1);
    let (_, there) = rwlocks(&pair);
    let reading = lock.read().await.unwrap();
    let begin = Instant::now();
    let error = lock.read_timeout(limit).await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: None }));
    assert!(begin.elapsed() >= limit && begin.elapsed() < limit + limit / 2);

    // Half of the time passes in the wait for the permit, the rest in the wait for the lock.
    let begin = Instant::now();
    let mut waiting = Box::pin(lock.write_timeout(limit));
    super::begin(waiting.as_mut()).await;
    tokio::time::sleep(limit / 2).await;
    let elsewhere = there.read().await.unwrap();
    drop(reading);
    assert!(matches!(waiting.await, Err(LockError::Timeout { .. })));
    assert!(begin.elapsed() >= limit && begin.elapsed() < limit + limit / 2);
    drop(elsewhere);
    assert!(soon(lock.write()).await.is_ok());
}

#[test]
fn plain_threads_wait_for_a_permit() {
    let pair = Pair::threaded();
    let lock = Arc::new(limited(&pair, 1));
    let reading = lock.blocking_read().unwrap();
    std::thread::scope(|scope| {
        let limited = scope.spawn(|| {
            futures::executor::block_on(lock.read_timeout(Duration::from_millis(50))).is_err()
        });
        assert!(limited.join().unwrap(), "with a limit, and without a runtime");
        let waiting = scope.spawn(|| lock.blocking_write().map(|mut guard| *guard += 1).is_ok());
        drop(reading);
        assert!(waiting.join().unwrap());
    });
}

#[tokio::test]
async fn a_shutdown_is_heard_of_when_the_permit_is_free() {
    let pair = Pair::threaded();
    let lock = limited(&pair, 1);
    let reading = lock.read().await.unwrap();
    let mut waiting = Box::pin(lock.read());
    begin(waiting.as_mut()).await;
    pair.here.shutdown().await;
    drop(reading);
    assert!(matches!(soon(waiting).await, Err(LockError::Closed)));
    eventually("nothing is held", || pair.store.live_leases() == 0).await;
}

#[test]
fn a_driver_that_is_gone_ends_the_wait() {
    let pair = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let pair = Pair::local();
        let lock = Arc::new(limited(&pair, 1));
        let guard = runtime.block_on(Arc::clone(&lock).read_owned()).unwrap();
        let mut waiting = Box::pin(Arc::clone(&lock).read_owned_timeout(Duration::from_secs(60)));
        runtime.block_on(begin(waiting.as_mut()));
        (runtime, guard, waiting)
    };
    let (runtime, guard, waiting) = pair;
    drop(runtime);
    let error = futures::executor::block_on(waiting).unwrap_err();
    assert!(matches!(error, LockError::Backend(error) if error.kind() == ErrorKind::ShuttingDown));
    assert!(!OwnedRwLockReadGuard::lease(&guard).is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_that_has_failed_takes_no_permit() {
    let pair = Pair::local();
    let lock = limited(&pair, 1);
    let guard = lock.read().await.unwrap();
    let mut late = Box::pin(lock.read_timeout(Duration::from_millis(10)));
    assert!(matches!(late.as_mut().await, Err(LockError::Timeout { .. })));
    drop(guard);
    assert!(lock.try_read().await.is_ok(), "the permit went to a future that has completed");
    drop(late);
}
