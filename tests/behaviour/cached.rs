//! A lease that stays after the last guard: what it saves, and when it ends.

use std::time::{Duration, Instant};

use lock_core::Clock;
use lock_redis::RedisBackend;
use lock_sync::{Locks, Mutex, MutexGuard, TryLockError};
use lock_tests::{RedisServer, Worker, eventually_async, lock_worker};

use crate::support::{LOCK, Leftovers, Pair, SOON, TTL, soon, ttl_of, until_quiet};

/// Longer than a test.
const IDLE: Duration = Duration::from_secs(60);

/// For steps that must not wait for a renewal: a renewal is due every ten seconds.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The server counts in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// A lock that was used once, and whose lease is kept.
async fn kept(locks: &Locks<RedisBackend>, server: &RedisServer) -> Mutex<()> {
    let mutex = locks.mutex("it", ()).unwrap().with_cache(IDLE);
    drop(soon(mutex.lock()).await.unwrap());
    server.until_labels(1).await;
    // Its tokens are replenished meanwhile.
    until_quiet(server).await;
    assert!(mutex.is_cached() && !mutex.is_held());
    assert_eq!(server.locks(), [LOCK]);
    mutex
}

#[tokio::test]
async fn taking_it_again_sends_nothing_and_others_are_excluded() {
    let pair = Pair::new();
    let mutex = kept(&pair.here, &pair.server).await;
    let (_, there) = pair.mutexes();
    assert!(matches!(soon(there.try_lock()).await, Err(TryLockError::WouldBlock)));
    // Then the other client has nothing more to send.
    pair.server.until_labels(2).await;

    let before = pair.server.commandstats();
    let mut last = None;
    for round in 0..500 {
        let guard = mutex.lock().await.unwrap();
        assert!(mutex.is_held() && !mutex.is_cached());
        assert!(Some(MutexGuard::lease(&guard).fencing_token()) > last, "a token of its own");
        last = Some(MutexGuard::lease(&guard).fencing_token());
        match round % 3 {
            0 => drop(guard),
            1 => MutexGuard::release(guard).await.unwrap(),
            _ => {
                drop(guard);
                drop(mutex.try_lock().await.unwrap());
            }
        }
    }
    let asked = pair.server.commandstats().since(&before);
    assert_eq!(asked.total(), 0, "{asked:?}");
    assert!(matches!(soon(there.try_lock()).await, Err(TryLockError::WouldBlock)));
}

#[tokio::test]
async fn another_process_that_waits_has_it_at_once() {
    let pair = Pair::new();
    let mutex = kept(&pair.here, &pair.server).await;
    let other = Worker::spawn(lock_worker!(), &pair.server.url());
    let mut last = None;
    for _ in 0..10 {
        other.send("lock it");
        let theirs = other.locked("it", AT_ONCE);
        assert!(!mutex.is_cached());
        assert!(Some(theirs) > last);
        other.unlock("it");
        let guard = soon(mutex.lock()).await.unwrap();
        assert!(MutexGuard::lease(&guard).fencing_token() > theirs);
        last = Some(MutexGuard::lease(&guard).fencing_token());
        drop(guard);
        assert!(mutex.is_cached());
    }
}

#[test]
fn a_process_that_stands_still_keeps_it_for_the_rest_of_the_lease() {
    let lease = Duration::from_secs(2);
    let server = RedisServer::start();
    let options = || Worker::builder(lock_worker!()).ttl(lease);
    let keeper = options().cache(IDLE).spawn(&server.url());
    // Its own lease is long: it waits for the end of the other one.
    let other = Worker::spawn(lock_worker!(), &server.url());
    let token = keeper.lock("it");
    keeper.unlock("it");
    let is_cached = || {
        keeper.send("cached it");
        keeper.wait_for("cached it", SOON).word(2) == "true"
    };
    assert!(is_cached());
    keeper.stop();

    let seen = Clock::boot().now();
    let left = ttl_of(&server, LOCK).unwrap();
    other.send("lock it");
    let locked = other.wait_for("locked it", left + AT_ONCE);
    let waited = locked.at.saturating_duration_since(seen);
    assert!(waited + ROUNDING >= left, "after {waited:?}, with {left:?} to go");
    assert!(locked.token() > token);

    keeper.cont();
    assert_eq!(keeper.try_lock("it"), None, "two hold the lock");
    assert!(!is_cached());
    assert!(other.is_valid("it"));
    other.unlock("it");
    assert!(keeper.lock("it") > locked.token());
}

#[tokio::test]
async fn it_is_renewed_until_it_was_idle_for_long_enough() {
    // A renewal may be two seconds late.
    const LEASE: Duration = Duration::from_secs(4);
    const IDLE: Duration = Duration::from_secs(6);
    let pair = Pair::with(|redis| redis, |locks| locks.ttl(LEASE));
    let mutex = pair.here.mutex("it", ()).unwrap().with_cache(IDLE);
    let guard = soon(mutex.lock()).await.unwrap();
    let begin = Instant::now();
    drop(guard);
    let is_free = async || pair.server.locks().is_empty();
    eventually_async("it is given up", IDLE + SOON, is_free).await;
    assert!(begin.elapsed() >= IDLE, "after {:?}", begin.elapsed());
    assert!(!mutex.is_cached());
    let (_, there) = pair.mutexes();
    drop(soon(there.try_lock()).await.unwrap());
    drop(soon(mutex.lock()).await.unwrap());
    assert!(mutex.is_cached());
}

#[tokio::test]
async fn it_goes_with_the_mutex() {
    let pair = Pair::new();
    let mutex = kept(&pair.here, &pair.server).await;
    assert!(ttl_of(&pair.server, LOCK).unwrap() > TTL / 2);
    drop(mutex);
    pair.server.assert_all_free();
}

#[tokio::test]
async fn it_is_released_when_shutdown_returns() {
    let pair = Pair::new();
    let mutex = kept(&pair.here, &pair.server).await;
    soon(pair.here.shutdown()).await;
    assert_eq!(pair.server.locks(), Vec::<String>::new());
    assert!(!mutex.is_cached());
    assert!(matches!(mutex.try_lock().await, Err(TryLockError::Closed)));
    let (_, there) = pair.mutexes();
    drop(soon(there.try_lock()).await.unwrap());
}

#[tokio::test]
async fn when_its_key_is_deleted_the_next_holder_asks_anew() {
    let server = RedisServer::builder().config("notify-keyspace-events", "Kg$xe").start();
    let pair = Pair::of(server, |redis| redis, |locks| locks);
    let mutex = kept(&pair.here, &pair.server).await;
    assert_eq!(pair.server.cli(&["DEL", LOCK]).int(), 1);
    let over = async || !mutex.is_cached();
    eventually_async("it is known to be lost", AT_ONCE, over).await;
    let (_, there) = pair.mutexes();
    let theirs = soon(there.lock()).await.unwrap();
    assert!(matches!(soon(mutex.try_lock()).await, Err(TryLockError::WouldBlock)));
    drop(theirs);
    drop(soon(mutex.lock()).await.unwrap());
}
