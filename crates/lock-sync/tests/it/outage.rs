//! Failures of the store.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{LockError, MutexGuard, ReleaseError, TryLockError};
use tokio::time::{Instant, sleep};

use crate::support::{Pair, poll_once};

const TTL: Duration = Duration::from_secs(3);

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_time_cures_is_waited_out() {
    let pair = short();
    let (here, _) = pair.mutexes();
    pair.ours.faults().fail_next(3, ErrorKind::NotReady);
    assert!(MutexGuard::lease(&here.lock().await.unwrap()).is_valid());
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_patience_with_the_store_ends_with_one_lease() {
    let pair = short();
    let (here, _) = pair.mutexes();
    pair.ours.faults().cut();
    let begin = Instant::now();
    let error = here.lock().await.unwrap_err();
    assert!(matches!(&error, LockError::Backend(e) if e.kind() == ErrorKind::Unreachable));
    assert!(begin.elapsed() >= TTL && begin.elapsed() < TTL * 2);
}

#[tokio::test(start_paused = true)]
async fn with_a_limit_patience_lasts_until_the_limit() {
    let pair = short();
    let (here, _) = pair.mutexes();
    pair.ours.faults().cut();
    let begin = Instant::now();
    let error = here.lock_timeout(TTL * 4).await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: Some(_) }), "it says why: {error:?}");
    assert!(begin.elapsed() >= TTL * 4);
    // The waiter gets the lock when the store comes back.
    let mut waiting = Box::pin(here.lock_timeout(TTL * 4));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL * 2).await;
    pair.ours.faults().heal();
    assert!(waiting.await.is_ok());
}

#[tokio::test]
async fn a_failure_that_time_does_not_cure_is_reported_at_once() {
    let pair = Pair::threaded();
    let (here, _) = pair.mutexes();
    pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::Denied);
    let denied = |error: &lock_core::Error| error.kind() == ErrorKind::Denied;
    assert!(matches!(here.lock().await, Err(LockError::Backend(e)) if denied(&e)));
    assert!(matches!(here.try_lock().await, Err(TryLockError::Backend(e)) if denied(&e)));
    pair.ours.faults().heal();
    assert!(here.lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_was_lost_is_found_again() {
    let pair = short();
    let (here, there) = pair.mutexes();
    pair.ours.faults().on(Verb::Acquire).lose_replies(1);
    let begin = Instant::now();
    let guard = here.lock().await.unwrap();
    assert!(begin.elapsed() < TTL / 2, "no need to wait for our own lease to end");
    drop(guard);
    assert!(there.lock_timeout(TTL / 2).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_try_with_a_lost_answer_leaves_no_lease_behind() {
    let pair = short();
    let (here, _) = pair.mutexes();
    pair.ours.faults().on(Verb::Acquire).lose_replies(1);
    assert!(matches!(here.try_lock().await, Err(TryLockError::Backend(_))));
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_failed_is_repeated() {
    let pair = short();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    pair.ours.faults().on(Verb::Release).fail_next(2, ErrorKind::Timeout);
    let error = MutexGuard::release(guard).await.unwrap_err();
    assert!(matches!(error, ReleaseError::Backend(_)));
    let begin = Instant::now();
    assert!(there.lock_timeout(TTL).await.is_ok());
    assert!(begin.elapsed() < TTL / 2, "by repeating, not by expiry");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_although_the_mutex_is_gone() {
    let pair = short();
    let (here, there) = pair.mutexes();
    pair.ours.faults().on(Verb::Release).fail_next(1, ErrorKind::Timeout);
    drop(here.lock().await.unwrap());
    drop(here);
    let begin = Instant::now();
    drop(there.lock().await.unwrap());
    assert!(begin.elapsed() < TTL / 2, "by repeating, not by expiry");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_release_that_is_repeated() {
    let pair = short();
    let (here, _) = pair.mutexes();
    pair.ours.faults().on(Verb::Release).fail_next(3, ErrorKind::Timeout);
    drop(here.lock().await.unwrap());
    pair.here.shutdown().await;
    assert_eq!(pair.store.live_leases(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_released_at_the_cap_of_a_hold_is_repeated_too() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).max_hold(TTL / 2));
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    pair.ours.faults().on(Verb::Release).fail_next(2, ErrorKind::Timeout);
    MutexGuard::lease(&guard).lost().await;
    let begin = Instant::now();
    drop(there.lock().await.unwrap());
    assert!(begin.elapsed() < TTL / 3, "by repeating, not by expiry");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_nothing_is_told_from_one_that_says_busy() {
    let pair = short();
    let (here, there) = pair.mutexes();
    let _gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let error = here.lock_timeout(TTL / 10).await.unwrap_err();
    let LockError::Timeout { source: Some(source) } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), ErrorKind::Timeout);
    pair.ours.faults().heal();
    pair.all_released().await;
    let _held = there.lock().await.unwrap();
    let error = here.lock_timeout(TTL / 10).await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: None }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn hints_that_never_come_cost_time_but_nothing_else() {
    let pair = short();
    let (here, there) = pair.mutexes();
    pair.ours.faults().mute_hints(true);
    let guard = there.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL * 2).await;
    drop(guard);
    let begin = Instant::now();
    drop(waiting.await.unwrap());
    assert!(begin.elapsed() <= TTL + Duration::from_millis(100), "the clock alone is enough");
}

#[tokio::test(start_paused = true)]
async fn a_store_without_hints_is_waited_for_by_the_clock() {
    let pair = short();
    let (here, there) = pair.mutexes();
    pair.ours.faults().on(Verb::Watch).fail(ErrorKind::Unsupported);
    let _held = there.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL * 10).await;
    assert_eq!(pair.ours.stats().watches, 1, "a store that has none is not asked twice");
    let asked = pair.ours.stats().acquires;
    assert!((60..=130).contains(&asked), "{asked} requests in {:?}", TTL * 10);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_cut_is_renewed() {
    let pair = short();
    let (here, there) = pair.mutexes();
    let held = there.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL / 10).await;
    pair.ours.faults().cut();
    pair.ours.faults().heal();
    sleep(TTL).await;
    assert!(pair.ours.stats().watches >= 2);
    drop(held);
    let begin = Instant::now();
    drop(waiting.await.unwrap());
    assert!(begin.elapsed() < TTL / 10, "woken by the new watch");
}

#[tokio::test]
async fn a_backend_that_panics_is_an_error() {
    use async_trait::async_trait;
    use lock_core::{
        Acquire, AcquireOutcome, Backend, Claim, Clock, Error, Key, Released, Renew, Renewal,
    };

    struct Panics;

    #[async_trait]
    impl Backend for Panics {
        async fn try_acquire(&self, _: &Acquire) -> Result<AcquireOutcome, Error> {
            panic!("a bug")
        }
        async fn renew(&self, _: &Renew) -> Renewal {
            panic!("a bug")
        }
        async fn release(&self, _: &Claim) -> Result<Released, Error> {
            panic!("a bug")
        }
        async fn watch(&self, _: &Key) -> Result<lock_core::Watch, Error> {
            panic!("a bug")
        }
        fn clock(&self) -> Clock {
            Clock::boot()
        }
    }

    // A claim whose release panics counts as held until its lease is over.
    let locks = lock_sync::Locks::builder(Panics).ttl(Duration::from_secs(1)).build().unwrap();
    let mutex = locks.mutex("it", ()).unwrap();
    for _ in 0..2 {
        let Err(LockError::Backend(error)) = mutex.lock().await else { panic!() };
        assert_eq!(error.to_string(), "the backend panicked: a bug");
    }
}
