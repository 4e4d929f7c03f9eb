//! The options of a single lock, explicit leases, and locks by name.

use std::time::Duration;

use lock_core::memory::Verb;
use lock_core::{ErrorKind, Ttl};
use lock_sync::{
    Lease, LockError, LossReason, MutexGuard, OwnedMutexGuard, Owner, OwnerGuard, RwLockReadGuard,
    StoredMutexGuard, TryLockError,
};
use tokio::time::{Instant, sleep};

use crate::support::{Pair, poll_once};

const TTL: Duration = Duration::from_secs(3);

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

fn ttl(duration: Duration) -> Ttl {
    Ttl::new(duration).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lock_has_a_ttl_of_its_own() {
    let pair = short();
    let long = pair.here.mutex("long", ()).unwrap().with_ttl(ttl(TTL * 100));
    let plain = pair.here.mutex("plain", ()).unwrap();
    let (long, plain) = (long.lock().await.unwrap(), plain.lock().await.unwrap());
    assert!(MutexGuard::lease(&long).remaining() > TTL * 90);
    assert!(MutexGuard::lease(&plain).remaining() < TTL);
    // It is renewed with this ttl, and the others wait for its end if the process dies.
    sleep(TTL * 200).await;
    assert!(MutexGuard::lease(&long).remaining() > TTL * 50);
    pair.ours.faults().cut();
    sleep(TTL * 2).await;
    assert!(!MutexGuard::lease(&plain).is_valid() && MutexGuard::lease(&long).is_valid());
    assert!(pair.there.try_lock("plain").await.is_ok());
    assert!(matches!(pair.there.try_lock("long").await, Err(TryLockError::WouldBlock)));
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_lock_takes_options() {
    let pair = short();
    let (long, cap) = (ttl(TTL * 100), TTL / 2);
    let rwlock = pair.here.rwlock("rwlock", ()).unwrap().with_ttl(long);
    let semaphore = pair.here.semaphore("semaphore", 2).unwrap().with_ttl(long);
    let slots = pair.here.slot_semaphore("slots", 2).unwrap().with_ttl(long);
    let (rwlock, semaphore, slots) = (
        rwlock.with_max_hold(cap).unwrap().without_upgrades(),
        semaphore.with_max_hold(cap).unwrap(),
        slots.with_max_hold(cap).unwrap(),
    );
    let reader = rwlock.read().await.unwrap();
    let (permit, slot) = (semaphore.acquire().await.unwrap(), slots.acquire().await.unwrap());
    for lease in [RwLockReadGuard::lease(&reader), permit.lease(), slot.lease()] {
        let lost = lease.lost().await;
        assert_eq!(lost.reason(), LossReason::HeldTooLong, "{lease:?}");
    }
    let zero = pair.here.mutex("it", ()).unwrap().with_max_hold(Duration::ZERO);
    assert_eq!(zero.unwrap_err().kind(), ErrorKind::InvalidConfig);
}

#[tokio::test(start_paused = true)]
async fn every_recipe_takes_options() {
    let pair = short();
    let (long, cap) = (ttl(TTL * 100), TTL * 10);
    let reentrant = pair.here.reentrant_mutex("reentrant", ()).unwrap().with_ttl(long);
    let stored = pair.here.stored_mutex("stored", 0).unwrap().with_ttl(long);
    let election = pair.here.election("election").unwrap().with_ttl(long);
    let handle = pair.here.clone().with_ttl(long).with_max_hold(cap).unwrap();
    let (reentrant, stored, election) = (
        reentrant.with_max_hold(cap).unwrap(),
        stored.with_max_hold(cap).unwrap(),
        election.with_max_hold(cap).unwrap(),
    );
    let mut owner = Owner::new().unwrap();
    let owned = reentrant.lock_as(&mut owner).await.unwrap();
    let (value, leader) = (stored.lock().await.unwrap(), election.campaign("it").await.unwrap());
    let (all, named) =
        (handle.lock_all(["a", "b"]).await.unwrap(), handle.erase().lock("c").await.unwrap());
    let leases = [
        OwnerGuard::lease(&owned),
        StoredMutexGuard::lease(&value),
        leader.lease(),
        all.lease(),
        named.lease(),
    ];
    pair.ours.faults().cut();
    sleep(TTL * 2).await;
    assert!(leases.iter().all(Lease::is_valid), "{leases:?}");
    for lease in leases {
        let lost = lease.lost().await;
        assert_eq!(lost.reason(), LossReason::HeldTooLong, "{lease:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_recipe_gives_up_a_store_that_is_out_of_reach() {
    let pair = short();
    let (here, none) = (&pair.here, Duration::ZERO);
    let reentrant = here.reentrant_mutex("reentrant", ()).unwrap().with_outage_limit(none);
    let stored = here.stored_mutex("stored", 0).unwrap().with_outage_limit(none);
    let election = here.election("election").unwrap().with_outage_limit(none);
    let cell = here.once_cell::<u32, _>("cell").unwrap().with_outage_limit(none);
    let barrier = here.barrier("barrier", 2).unwrap().with_outage_limit(none);
    let handle = here.clone().with_outage_limit(none);
    pair.ours.faults().cut();
    let begin = Instant::now();
    assert!(reentrant.lock_as(&mut Owner::new().unwrap()).await.is_err());
    assert!(stored.lock().await.is_err());
    assert!(election.campaign("it").await.is_err());
    assert!(cell.get_or_init(async || 1).await.is_err());
    assert!(barrier.wait().await.is_err());
    assert!(handle.lock_all(["a", "b"]).await.is_err());
    assert!(handle.lock("c").await.is_err());
    assert!(begin.elapsed() < TTL / 10, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn handles_with_other_options_exclude_one_another() {
    let pair = short();
    let plain = pair.here.mutex("it", ()).unwrap();
    let other = pair.here.mutex("it", ()).unwrap().with_ttl(ttl(TTL * 2));
    let guard = plain.lock().await.unwrap();
    assert!(matches!(other.try_lock().await, Err(TryLockError::WouldBlock)));
    let mut waiting = Box::pin(other.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let token = MutexGuard::lease(&guard).fencing_token();
    drop(guard);
    let guard = waiting.await.unwrap();
    assert!(MutexGuard::lease(&guard).fencing_token() > token);
    assert!(other.is_held() && !plain.is_held());
    // The same options mean one lock again: the line is one.
    let third = pair.here.mutex("it", ()).unwrap().with_ttl(ttl(TTL * 2));
    let mut waiting = Box::pin(third.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let acquires = pair.ours.stats().acquires;
    drop(guard);
    assert!(MutexGuard::lease(&waiting.await.unwrap()).is_valid());
    assert_eq!(pair.ours.stats().acquires, acquires, "the lease is passed on");
}

// ---- Explicit leases ----

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_lives_as_long_as_its_holder_extends_it() {
    let pair = short();
    let mutex = pair.here.mutex("it", ()).unwrap().with_renewal(false);
    let guard = mutex.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard);
    for _ in 0..5 {
        sleep(TTL * 2 / 3).await;
        lease.extend(ttl(TTL)).await.unwrap();
        assert!(lease.remaining() > TTL * 9 / 10);
        assert!(pair.there.try_lock("it").await.is_err());
    }
    assert_eq!(pair.ours.stats().renewals, 5);
    assert_eq!(lease.lost().await.reason(), LossReason::Expired);
    assert_eq!(pair.ours.stats().renewals, 5, "the driver renews nothing by itself");
    assert!(lease.extend(ttl(TTL)).await.is_err(), "a lost lease stays lost");
    assert!(pair.there.lock_timeout("it", TTL).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_extended_lease_is_never_shortened() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard);
    lease.extend(ttl(TTL * 20)).await.unwrap();
    // The driver renews as before, and the store must not end the lease before its deadline here.
    for _ in 0..3 {
        let until = lease.valid_until();
        sleep(TTL * 8).await;
        assert!(lease.valid_until() >= until && lease.remaining() > TTL * 10);
    }
    let renewals = pair.ours.stats().renewals;
    lease.extend(ttl(TTL)).await.unwrap();
    assert_eq!(pair.ours.stats().renewals, renewals, "it lives for longer in any case");
    pair.ours.faults().cut();
    sleep(TTL * 9).await;
    assert!(lease.is_valid() && pair.there.try_lock("it").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_extension_waits_for_the_store_until_the_lease_is_over() {
    let pair = short();
    let mutex = pair.here.mutex("it", ()).unwrap().with_renewal(false);
    let guard = mutex.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard);
    sleep(TTL / 3).await;
    pair.ours.faults().on(Verb::Renew).fail_next(2, ErrorKind::Timeout);
    lease.extend(ttl(TTL)).await.unwrap();
    assert!(lease.remaining() > TTL / 2);
    sleep(TTL / 3).await;
    pair.ours.faults().cut();
    let lost = lease.extend(ttl(TTL)).await.unwrap_err();
    assert_eq!(lost.reason(), LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn an_extension_ends_when_the_guard_is_given_up() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let mutex = std::sync::Arc::new(here);
    let guard = mutex.clone().lock_owned().await.unwrap();
    let lease = OwnedMutexGuard::lease(&guard);
    let held_up = pair.ours.faults().on(Verb::Renew).hold_requests();
    let mut extending = Box::pin(lease.extend(ttl(TTL * 2)));
    assert!(poll_once(extending.as_mut()).await.is_pending());
    drop(guard);
    assert_eq!(extending.await.unwrap_err().reason(), LossReason::Released);
    held_up.open();
}

#[tokio::test(start_paused = true)]
async fn all_leases_of_a_handle_are_extended() {
    let pair = short();
    let all = pair.here.lock_all(["a", "b"]).await.unwrap();
    all.lease().extend(ttl(TTL * 10)).await.unwrap();
    pair.ours.faults().cut();
    sleep(TTL * 5).await;
    assert!(all.lease().is_valid());
    for name in ["a", "b"] {
        assert!(pair.there.try_lock(name).await.is_err());
    }
}

// ---- The limit of an outage ----

/// How long a call waited for a store that is out of reach, and whether the error names the store.
async fn waited<T>(call: impl Future<Output = Result<T, LockError>>) -> (Duration, bool) {
    let begin = Instant::now();
    let error = call.await.err().unwrap();
    (begin.elapsed(), matches!(error, LockError::Backend(_)))
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_fails_fast_does_not_wait_for_the_store() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).outage_limit(Duration::ZERO));
    let (here, there) = pair.mutexes();
    let held = there.lock().await.unwrap();
    pair.ours.faults().cut();
    for _ in 0..3 {
        let (time, names) = waited(here.lock()).await;
        assert!(names && time < Duration::from_millis(1_100), "{time:?}");
        let (time, names) = waited(here.lock_timeout(TTL * 4)).await;
        assert!(names && time < Duration::from_millis(1_100), "{time:?}");
    }
    // It waits for other holders nevertheless.
    pair.ours.faults().heal();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL * 3).await;
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    drop(held);
    assert!(waiting.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_outage_has_a_limit_of_its_own() {
    let pair = short();
    let limit = Duration::from_millis(1_234);
    let here = pair.here.mutex("it", ()).unwrap().with_outage_limit(limit);
    pair.ours.faults().cut();
    for call in [here.lock(), here.lock_timeout(TTL * 4)] {
        let (time, names) = waited(call).await;
        let late = limit + Duration::from_millis(1_100);
        assert!(names && (limit..late).contains(&time), "{time:?}");
    }
    // A limit of the caller that comes first ends the wait as well.
    let other = pair.here.mutex("other", ()).unwrap().with_outage_limit(limit);
    let begin = Instant::now();
    let error = other.lock_timeout(limit / 2).await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: Some(_) }), "{error:?}");
    assert!(begin.elapsed() < limit);
}

#[tokio::test(start_paused = true)]
async fn a_longer_limit_outlasts_a_longer_outage() {
    let pair = short();
    let here = pair.here.mutex("it", ()).unwrap().with_outage_limit(TTL * 10);
    pair.ours.faults().cut();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL * 5).await;
    pair.ours.faults().heal();
    assert!(waiting.await.is_ok(), "the default would have given up after one ttl");
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_an_outage_holds_for_values_too() {
    let limit = Duration::from_millis(500);
    let pair = Pair::local_with(|builder| builder.ttl(TTL).outage_limit(limit));
    let cell = pair.here.once_cell::<u32, _>("it").unwrap();
    pair.ours.faults().cut();
    let begin = Instant::now();
    assert!(cell.get_or_init(|| async { 7 }).await.is_err());
    assert!(begin.elapsed() < TTL * 2 / 3, "{:?}", begin.elapsed());
}

// ---- Names that are used once ----

#[tokio::test]
async fn a_name_is_locked_without_a_mutex() {
    let pair = Pair::threaded();
    let guard = pair.here.lock("it").await.unwrap();
    let mutex = pair.here.mutex("it", ()).unwrap();
    assert!(mutex.is_held() && matches!(mutex.try_lock().await, Err(TryLockError::WouldBlock)));
    let limited = pair.there.lock_timeout("it", Duration::from_millis(20)).await;
    assert!(matches!(limited, Err(LockError::Timeout { source: None })));
    let mut waiting = Box::pin(pair.there.lock("it"));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert!(format!("{guard:?} {waiting:?}").contains("LockGuard"));
    let lease = guard.lease();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.lease().fencing_token() > lease.fencing_token() && !lease.is_valid());
    next.release().await.unwrap();
    drop(pair.here.try_lock("it").await.unwrap());
    tokio::task::spawn_blocking(move || drop(pair.here.blocking_lock("it").unwrap()))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_bad_name_is_refused_before_anything_is_sent() {
    let pair = Pair::threaded();
    let name = "x".repeat(513);
    let bad = |error: &lock_core::Error| error.kind() == ErrorKind::InvalidKey;
    let refused = pair.here.lock(name.as_str()).await;
    assert!(matches!(refused, Err(LockError::Backend(error)) if bad(&error)));
    let refused = pair.here.try_lock(name.as_str()).await;
    assert!(matches!(refused, Err(TryLockError::Backend(error)) if bad(&error)));
    assert_eq!(pair.ours.stats().acquires, 0);
}

// ---- The shutdown ----

#[tokio::test(start_paused = true)]
async fn a_shutdown_has_a_limit_of_its_own() {
    let limit = Duration::from_millis(200);
    let pair = Pair::local_with(|builder| builder.ttl(TTL).shutdown_limit(limit));
    let _held_up = pair.ours.faults().on(Verb::Release).hold_requests();
    drop(pair.here.lock("it").await.unwrap());
    let begin = Instant::now();
    assert!(!pair.here.shutdown().await, "the store has not answered");
    assert!((limit..TTL / 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    let begin = Instant::now();
    assert!(!pair.here.shutdown_timeout(limit * 2).await);
    assert!((limit * 2..TTL / 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    pair.ours.faults().heal();
    assert!(pair.here.shutdown().await);
    assert_eq!(pair.store.live_leases(), 0);
}
