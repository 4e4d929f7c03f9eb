//! Several locks at once.

mod drops;

use std::time::Duration;

use async_trait::async_trait;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, AcquireOutcome, Backend, Error, ErrorKind, InspectBackend, Key};
use lock_sync::{LockError, Locks, LossReason, MultiGuard, MutexGuard, ReleaseError, TryLockError};
use tokio::time::{Instant, sleep};

use crate::layered::{Layer, Layered};
use crate::support::{Pair, eventually, poll_once};

const TTL: Duration = Duration::from_secs(3);

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn keys(guard: &MultiGuard) -> Vec<Key> {
    guard.lease().fencing_tokens().map(|(key, _)| key.clone()).collect()
}

/// Whether the other side can have this lock now.
async fn is_free(locks: &Locks<MemoryBackend>, name: &str) -> bool {
    match locks.mutex(name, ()).unwrap().try_lock().await {
        Ok(guard) => MutexGuard::release(guard).await.is_ok(),
        Err(TryLockError::WouldBlock) => false,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn all_are_held_until_the_guard_goes() {
    let pair = Pair::threaded();
    let guard = pair.here.lock_all(["b", "c", "a", "b"]).await.unwrap();
    assert!(keys(&guard) == [key("a"), key("b"), key("c")], "in order, each once");
    assert_eq!(pair.ours.stats().acquires, 1, "in one step");
    for name in ["a", "b", "c"] {
        assert!(!is_free(&pair.there, name).await);
    }
    assert!(guard.lease().is_valid() && guard.lease().remaining() > Duration::ZERO);
    guard.release().await.unwrap();
    assert_eq!(pair.store.live_leases(), 0);
    drop(pair.there.try_lock_all(["a", "b", "c"]).await.unwrap());
    pair.all_released().await;
}

#[tokio::test]
async fn each_has_a_token_of_its_own() {
    let pair = Pair::threaded();
    let before = MutexGuard::lease(&pair.there.mutex("b", ()).unwrap().lock().await.unwrap())
        .fencing_token();
    let guard = pair.here.lock_all(["a", "b"]).await.unwrap();
    assert!(guard.lease().fencing_token_of(&key("b")).unwrap() > before);
    assert_eq!(guard.lease().fencing_token_of(&key("c")), None);
    let tokens: Vec<_> = guard.lease().fencing_tokens().map(|(_, token)| Some(token)).collect();
    assert_eq!(
        tokens,
        [guard.lease().fencing_token_of(&key("a")), guard.lease().fencing_token_of(&key("b"))]
    );
    drop(guard);
    let mut next = pair.there.lock_all(["a", "b"]).await.unwrap();
    assert!(next.lease().fencing_tokens().map(|(_, token)| Some(token)).ge(tokens));
    next = {
        drop(next);
        pair.here.lock_all(["b", "a"]).await.unwrap()
    };
    assert!(format!("{next:?}").contains("\"a\""));
}

#[tokio::test]
async fn none_is_a_guard_over_nothing_and_one_is_like_a_mutex() {
    let pair = Pair::threaded();
    let nothing = pair.here.lock_all::<&str>([]).await.unwrap();
    assert!(nothing.lease().is_valid() && keys(&nothing).is_empty());
    assert_eq!(nothing.lease().remaining(), Duration::MAX);
    assert!(poll_once(Box::pin(nothing.lease().lost()).as_mut()).await.is_pending());
    nothing.release().await.unwrap();
    assert_eq!(pair.ours.stats().total(), 0);
    let mutex = pair.here.mutex("a", ()).unwrap();
    let one = pair.here.lock_all(["a"]).await.unwrap();
    assert!(matches!(mutex.try_lock().await, Err(TryLockError::WouldBlock)));
    one.release().await.unwrap();
    assert!(mutex.try_lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_each_and_takes_what_was_given_back() {
    let pair = short();
    let b = pair.there.mutex("b", ()).unwrap();
    let held = b.lock().await.unwrap();
    let mut waiting = Box::pin(pair.here.lock_all(["c", "b", "a"]));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL).await;
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert!(!is_free(&pair.there, "a").await, "the first is held");
    assert!(is_free(&pair.there, "c").await, "the last is waited for later");
    drop(held);
    let guard = waiting.await.unwrap();
    assert!(guard.lease().is_valid());
    // No other holder has any of them, in this process and the other.
    for locks in [&pair.here, &pair.there] {
        for name in ["a", "b", "c"] {
            assert!(!is_free(locks, name).await);
        }
    }
    sleep(TTL * 3).await;
    assert!(guard.lease().is_valid(), "all are renewed");
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_one_for_all() {
    let pair = short();
    let (b, c) = (pair.there.mutex("b", ()).unwrap(), pair.there.mutex("c", ()).unwrap());
    let (first, _second) = (b.lock().await.unwrap(), c.lock().await.unwrap());
    let begin = Instant::now();
    let mut waiting = Box::pin(pair.here.lock_all_timeout(["a", "b", "c"], TTL * 2));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL).await;
    drop(first);
    let late = waiting.await;
    assert!(matches!(late, Err(LockError::Timeout { source: None })), "{late:?}");
    let waited = begin.elapsed();
    assert!(waited >= TTL * 2 && waited < TTL * 2 + Duration::from_millis(50), "{waited:?}");
    eventually("only the other's is left", || pair.store.live_leases() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_nothing_is_waited_for_until_the_limit() {
    let pair = short();
    let _gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let error = pair.here.lock_all_timeout(["a", "b"], TTL / 10).await.unwrap_err();
    let LockError::Timeout { source: Some(source) } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), ErrorKind::Timeout);
    pair.ours.faults().heal();
    // The store may execute the request only now. It is then undone.
    let limit = Duration::from_millis(100);
    assert!(pair.there.lock_all_timeout(["a", "b"], limit).await.is_ok());
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn the_wait_limit_of_the_locks_counts() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).wait_limit(TTL / 2));
    let held = pair.there.lock_all(["b", "c"]).await.unwrap();
    let begin = Instant::now();
    let late = pair.here.lock_all(["a", "b"]).await;
    assert!(matches!(late, Err(LockError::Timeout { .. })));
    assert!(begin.elapsed() >= TTL / 2 && begin.elapsed() < TTL);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_failed_try_is_served_at_once() {
    let pair = short();
    pair.ours.faults().on(Verb::Watch).fail(ErrorKind::Unsupported);
    let held = pair.there.mutex("b", ()).unwrap();
    let _held = held.lock().await.unwrap();
    let a = pair.here.mutex("a", ()).unwrap();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_replies();
    let mut trying = Box::pin(pair.here.try_lock_all(["a", "b"]));
    let mut waiting = Box::pin(a.lock());
    assert!(poll_once(trying.as_mut()).await.is_pending());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    gate.open();
    assert!(matches!(trying.await, Err(TryLockError::WouldBlock)));
    let begin = Instant::now();
    assert!(MutexGuard::lease(&waiting.await.unwrap()).is_valid());
    assert!(begin.elapsed() < Duration::from_millis(50), "it was free all the time");
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_while_it_waits_is_taken_anew() {
    let pair = short();
    let b = pair.there.mutex("b", ()).unwrap();
    let held = b.lock().await.unwrap();
    let mut waiting = Box::pin(pair.here.lock_all(["a", "b"]));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL / 2).await;
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert_eq!(pair.store.force_release(&key("a")).await.unwrap(), 1);
    let thief = pair.there.mutex("a", ()).unwrap();
    let thief = thief.try_lock().await.unwrap();
    sleep(TTL / 10).await;
    drop(held);
    assert!(tokio::time::timeout(TTL, waiting.as_mut()).await.is_err(), "another client has a");
    assert!(is_free(&pair.there, "b").await, "it has let go of what it had");
    let last = MutexGuard::lease(&thief).fencing_token();
    drop(thief);
    let guard = waiting.await.unwrap();
    assert!(guard.lease().is_valid() && guard.lease().fencing_token_of(&key("a")).unwrap() > last);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_noticed_although_the_wait_goes_on() {
    let pair = short();
    let b = pair.there.mutex("b", ()).unwrap();
    let _held = b.lock().await.unwrap();
    let mut waiting = Box::pin(pair.here.lock_all(["a", "b"]));
    assert!(tokio::time::timeout(TTL / 2, waiting.as_mut()).await.is_err());
    assert_eq!(pair.store.force_release(&key("a")).await.unwrap(), 1);
    assert!(tokio::time::timeout(TTL / 2, waiting.as_mut()).await.is_err());
    assert!(!is_free(&pair.there, "a").await, "it has it again, and goes on waiting for the other");
}

#[tokio::test(start_paused = true)]
async fn one_lost_lease_is_the_guards() {
    let pair = short();
    let guard = pair.here.lock_all(["a", "b"]).await.unwrap();
    pair.store.force_release(&key("b")).await.unwrap();
    assert_eq!(guard.lease().lost().await.reason(), LossReason::Revoked);
    assert!(
        !guard.lease().is_valid()
            && guard.lease().check().is_err()
            && guard.lease().remaining().is_zero()
    );
    let work = guard.lease().while_held(std::future::pending::<()>()).await;
    assert_eq!(work.unwrap_err().reason(), LossReason::Revoked);
    assert!(!is_free(&pair.there, "a").await, "the other is still held");
    assert!(matches!(guard.release().await, Err(ReleaseError::Lost(_))));
    assert!(is_free(&pair.there, "a").await, "and was released all the same");
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_delays_others_only_for_its_leases() {
    let pair = short();
    let dead = pair.store.client();
    let locks = Locks::builder(dead.clone()).ttl(TTL).renewal(false);
    let locks = locks.on_runtime(tokio::runtime::Handle::current()).build().unwrap();
    let guard = locks.lock_all(["a", "b", "c"]).await.unwrap();
    dead.faults().cut();
    let begin = Instant::now();
    assert!(pair.here.lock_all(["c", "a"]).await.unwrap().lease().is_valid());
    assert!(begin.elapsed() < TTL + Duration::from_millis(100));
    assert!(!guard.lease().is_valid());
}

#[tokio::test(start_paused = true)]
async fn failures_that_time_cures_are_waited_out() {
    let pair = short();
    pair.ours.faults().fail_next(3, ErrorKind::NotReady);
    pair.here.lock_all(["a", "b"]).await.unwrap().release().await.unwrap();
    pair.ours.faults().on(Verb::Acquire).lose_replies(1);
    let begin = Instant::now();
    pair.here.lock_all(["a", "b"]).await.unwrap().release().await.unwrap();
    assert!(begin.elapsed() < TTL / 2, "no need to wait for our own leases to end");
    pair.ours.faults().on(Verb::Acquire).lose_replies(1);
    let error = pair.here.try_lock_all(["a", "b"]).await.unwrap_err();
    assert!(matches!(error, TryLockError::Backend(_)), "{error:?}");
    pair.all_released().await;
}

#[tokio::test]
async fn an_error_of_a_joint_request_does_not_fail_a_request_for_one_lock() {
    let pair = Pair::threaded();
    let a = pair.here.mutex("a", ()).unwrap();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    pair.ours.faults().on(Verb::Acquire).fail_next(1, ErrorKind::Denied);
    let mut both = Box::pin(pair.here.lock_all(["a", "b"]));
    let mut one = Box::pin(a.lock());
    assert!(poll_once(both.as_mut()).await.is_pending());
    gate.arrived(1).await;
    assert!(poll_once(one.as_mut()).await.is_pending());
    gate.open();
    drop(one.await.unwrap());
    // Requests for single locks succeed.
    both.await.unwrap().release().await.unwrap();
    pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::Denied);
    let denied = |error: &Error| error.kind() == ErrorKind::Denied;
    let refused = pair.here.lock_all(["a", "b"]).await;
    assert!(matches!(refused, Err(LockError::Backend(e)) if denied(&e)));
    let refused = pair.here.try_lock_all(["a", "b"]).await;
    assert!(matches!(&refused, Err(TryLockError::Backend(e)) if denied(e)), "{refused:?}");
}

#[tokio::test]
async fn names_are_checked_before_anything_is_sent() {
    let pair = Pair::threaded();
    let long = "x".repeat(1000);
    let error = pair.here.lock_all(["a", &long]).await.unwrap_err();
    assert!(matches!(error, LockError::Backend(e) if e.kind() == ErrorKind::InvalidKey));
    let error = pair.here.try_lock_all([long]).await.unwrap_err();
    assert!(matches!(error, TryLockError::Backend(e) if e.kind() == ErrorKind::InvalidKey));
    assert_eq!(pair.ours.stats().total(), 0);
}

#[tokio::test]
async fn a_shutdown_refuses_it() {
    let pair = Pair::threaded();
    let _held = pair.there.lock_all(["b"]).await.unwrap();
    let mut waiting = Box::pin(pair.here.lock_all(["a", "b"]));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert!(matches!(waiting.await, Err(LockError::Closed)));
    assert!(matches!(pair.here.lock_all(["c", "d"]).await, Err(LockError::Closed)));
    assert!(matches!(pair.here.try_lock_all(["c", "d"]).await, Err(TryLockError::Closed)));
    eventually("only the other's is left", || pair.store.live_leases() == 1).await;
}

#[tokio::test]
async fn what_is_kept_here_is_not_asked_for() {
    let pair = Pair::threaded();
    let cached = pair.here.mutex("a", ()).unwrap().with_cache(TTL);
    let token = MutexGuard::lease(&cached.lock().await.unwrap()).fencing_token();
    assert!(cached.is_cached());
    let before = pair.ours.stats();
    let guard = pair.here.lock_all(["a", "b", "c"]).await.unwrap();
    assert_eq!(pair.ours.stats().since(before).acquires, 1, "for the two others");
    assert!(guard.lease().fencing_token_of(&key("a")).unwrap() > token);
}

#[test]
fn from_synchronous_code() {
    let pair = Pair::threaded();
    let guard = pair.here.blocking_lock_all(["a", "b"]).unwrap();
    assert!(guard.lease().is_valid());
    let waiting = std::thread::spawn({
        let there = pair.there.clone();
        move || there.blocking_lock_all(["b", "c"]).map(|guard| guard.lease().is_valid())
    });
    std::thread::sleep(Duration::from_millis(10));
    drop(guard);
    assert!(waiting.join().unwrap().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let blocked = std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async { pair.here.blocking_lock_all(["a"]).map(drop) })
    });
    assert!(std::panic::catch_unwind(blocked).is_err());
}

#[test]
fn the_runtime_of_the_driver_goes() {
    let gone = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let gone = gone.unwrap();
    let pair = Pair::build(|builder| builder.on_runtime(gone.handle().clone()));
    let gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let mut waiting = Box::pin(pair.here.lock_all(["a", "b"]));
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        gate.arrived(1).await;
    });
    drop(gone);
    let stopped = |error: &Error| error.kind() == ErrorKind::ShuttingDown;
    assert!(matches!(other.block_on(waiting), Err(LockError::Backend(e)) if stopped(&e)));
    let late = other.block_on(pair.here.try_lock_all(["a", "b"]));
    assert!(matches!(late, Err(TryLockError::Backend(e)) if stopped(&e)));
}

/// A layer that grants one key at a time, or that grants all keys and panics.
struct OneByOne {
    panics: bool,
}

#[async_trait]
impl Layer for OneByOne {
    async fn acquire_all(
        &self,
        store: &MemoryBackend,
        all: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        if self.panics {
            store.try_acquire_all(all).await?;
            panic!("a bug");
        }
        Ok(None)
    }
}

#[tokio::test]
async fn a_backend_that_grants_one_at_a_time_is_asked_in_order() {
    for panics in [false, true] {
        let store = MemoryBackend::new();
        let locks = |store| Locks::new(Layered { store, layer: OneByOne { panics } });
        let (here, there) = (locks(store.client()), locks(store.client()));
        let guard = here.lock_all(["a", "b"]).await.unwrap();
        assert!(matches!(there.try_lock_all(["b", "c"]).await, Err(TryLockError::WouldBlock)));
        let mut waiting = Box::pin(there.lock_all(["c", "b"]));
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        drop(guard);
        let guard = waiting.await.unwrap();
        assert!(guard.lease().is_valid());
        assert!(here.try_lock_all(["a", "d"]).await.is_ok());
        guard.release().await.unwrap();
        eventually("all leases are released", || store.live_leases() == 0).await;
    }
}
