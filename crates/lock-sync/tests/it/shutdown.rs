//! The shutdown of the locks.

use std::time::Duration;

use lock_core::memory::Verb;
use lock_sync::{LockError, MutexGuard, TryLockError};
use tokio::time::sleep;

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

#[tokio::test(start_paused = true)]
async fn it_waits_for_the_late_answer_of_a_request_that_was_repeated() {
    let pair = Pair::local();
    let (here, _) = pair.mutexes();
    let acquisitions = pair.ours.faults().on(Verb::Acquire);
    let stuck = acquisitions.hold_requests();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    acquisitions.hold_requests().open();
    drop(waiting);
    // The driver repeats the request, gets the grant and releases it.
    sleep(Duration::from_millis(100)).await;
    assert_eq!((pair.ours.stats().acquires, pair.ours.stats().releases), (2, 1));
    let mut ending = Box::pin(pair.here.shutdown());
    assert!(poll_once(ending.as_mut()).await.is_pending(), "the store may grant the first request");
    stuck.open();
    assert!(ending.await);
    assert_eq!(pair.store.live_leases(), 0);
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_permits_beside_others_that_are_held_or_forgotten() {
    for forgets in [false, true] {
        let pair = Pair::local();
        let (here, there) = pair.semaphores(4);
        let mut permit = here.acquire_many(2).await.unwrap();
        let part = permit.split(1).unwrap();
        drop(part);
        let kept = if forgets {
            permit.forget();
            None
        } else {
            Some(permit)
        };
        assert!(pair.here.shutdown().await);
        assert_eq!(there.available_permits().await.unwrap(), 3, "forgets: {forgets}");
        assert_eq!(pair.store.live_leases(), usize::from(kept.is_some()));
    }
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
