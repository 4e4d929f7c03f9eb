//! The shutdown of the locks.

use lock_core::memory::Verb;
use lock_sync::{LockError, MutexGuard, TryLockError};

use crate::support::{Pair, poll_once};

#[tokio::test]
async fn it_waits_for_releases_under_way() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let _gate = pair.ours.faults().on(Verb::Release).hold_requests();
    drop(guard);
    let mut ending = Box::pin(pair.here.shutdown());
    assert!(poll_once(ending.as_mut()).await.is_pending());
    pair.ours.faults().heal();
    ending.await;
    assert_eq!(pair.store.live_leases(), 0);
    assert!(there.try_lock().await.is_ok());
}

#[tokio::test]
async fn waiters_are_sent_home_and_newcomers_refused() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let _held = there.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert!(matches!(waiting.await, Err(LockError::Closed)));
    assert!(matches!(here.lock().await, Err(LockError::Closed)));
    let late = pair.here.mutex("another", ()).unwrap();
    assert!(matches!(late.try_lock().await, Err(TryLockError::Closed)));
}

#[tokio::test]
async fn guards_outlive_it() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    pair.here.shutdown().await;
    assert!(MutexGuard::lease(&guard).is_valid());
    assert!(there.try_lock().await.is_err());
    MutexGuard::release(guard).await.unwrap();
    assert!(there.try_lock().await.is_ok());
}

#[tokio::test]
async fn locks_that_were_never_used_have_nothing_to_end() {
    let pair = Pair::threaded();
    pair.here.shutdown().await;
    pair.here.shutdown().await;
}
