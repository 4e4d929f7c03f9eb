//! The lease that is kept after the last guard.

use std::time::Duration;

use lock_sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::support::Pair;

const IDLE: Duration = Duration::from_secs(60);

/// A lock that has been used once, and is kept.
async fn kept(pair: &Pair) -> Mutex<u32> {
    let mutex = pair.here.mutex("it", 0).unwrap().with_cache(IDLE);
    drop(mutex.lock().await.unwrap());
    sleep(Duration::from_millis(10)).await;
    assert!(mutex.is_cached() && !mutex.is_held());
    mutex
}

#[tokio::test(start_paused = true)]
async fn taking_it_again_costs_no_request() {
    let pair = Pair::local();
    let mutex = kept(&pair).await;
    let before = pair.ours.stats();
    let mut last = None;
    for _ in 0..500 {
        let guard = mutex.lock().await.unwrap();
        assert!(mutex.is_held() && !mutex.is_cached());
        assert!(Some(MutexGuard::lease(&guard).fencing_token()) > last, "a token of its own");
        last = Some(MutexGuard::lease(&guard).fencing_token());
    }
    assert!(mutex.try_lock().await.is_ok());
    let since = pair.ours.stats().since(before);
    assert_eq!((since.acquires, since.releases), (0, 0));
    assert!(since.renewals <= 1, "{since:?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_and_ends_when_it_is_idle() {
    let ttl = Duration::from_secs(3);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let mutex = kept(&pair).await;
    let other = pair.there.mutex("it", 0).unwrap();
    sleep(ttl * 5).await;
    assert!(mutex.is_cached());
    assert_eq!(pair.store.live_leases(), 1);
    sleep(IDLE).await;
    assert!(!mutex.is_cached());
    assert_eq!(pair.store.live_leases(), 0);
    assert!(other.try_lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn it_is_given_up_when_another_process_wants_it() {
    let pair = Pair::local();
    let mutex = kept(&pair).await;
    let other = pair.there.mutex("it", 0).unwrap();
    let begin = Instant::now();
    let guard = other.lock().await.unwrap();
    assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
    assert!(!mutex.is_cached());
    drop(guard);
    assert!(mutex.lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_was_not_heard_is_heard_with_the_next_renewal() {
    let ttl = Duration::from_secs(30);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let _mutex = kept(&pair).await;
    pair.ours.faults().mute_hints(true);
    let other = pair.there.mutex("it", 0).unwrap();
    let begin = Instant::now();
    drop(other.lock().await.unwrap());
    assert!(begin.elapsed() <= ttl / 3 + Duration::from_millis(100), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn it_goes_with_the_mutex_and_with_the_locks() {
    let pair = Pair::local();
    let mutex = kept(&pair).await;
    drop(mutex);
    pair.all_released().await;
    let mutex = kept(&pair).await;
    pair.here.shutdown().await;
    assert_eq!(pair.store.live_leases(), 0);
    assert!(!mutex.is_cached());
    assert!(mutex.lock().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn when_it_is_lost_the_next_asks_anew() {
    let pair = Pair::local_with(|builder| builder.ttl(Duration::from_secs(3)));
    let mutex = kept(&pair).await;
    pair.store.forget();
    let other = pair.there.mutex("it", 0).unwrap();
    let theirs = other.lock().await.unwrap();
    // A waiter that comes before the process knows of the loss gets a guard that soon reports it.
    sleep(Duration::from_secs(2)).await;
    assert!(!mutex.is_cached());
    let waiting = tokio::time::timeout(Duration::from_secs(1), mutex.lock()).await;
    assert!(waiting.is_err(), "the lock is held elsewhere");
    drop(theirs);
    assert!(mutex.lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn without_renewal_or_hints_nothing_is_kept() {
    let pair = Pair::local_with(|builder| builder.renewal(false));
    let mutex = pair.here.mutex("it", 0).unwrap().with_cache(IDLE);
    drop(mutex.lock().await.unwrap());
    assert!(!mutex.is_cached());
    pair.all_released().await;

    let deaf = Pair::local();
    deaf.ours.faults().on(lock_core::memory::Verb::Watch).fail(lock_core::ErrorKind::Unsupported);
    let mutex = deaf.here.mutex("it", 0).unwrap().with_cache(IDLE);
    drop(mutex.lock().await.unwrap());
    deaf.all_released().await;
    assert!(!mutex.is_cached());
    drop(mutex.lock().await.unwrap());
    assert!(!mutex.is_cached());
}

#[tokio::test]
async fn a_driver_of_its_own_gives_it_up_too() {
    let pair = Pair::threaded();
    let locks = &pair.here;
    let mutex = locks.mutex("it", 0).unwrap().with_cache(IDLE);
    drop(mutex.lock().await.unwrap());
    let other = pair.there.mutex("it", 0).unwrap();
    drop(other.lock().await.unwrap());
    assert!(!mutex.is_cached());
    drop(mutex.lock().await.unwrap());
    drop(mutex);
    pair.all_released().await;
}
