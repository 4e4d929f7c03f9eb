//! A lock that is entered again: through its guard, and in the name of its owner.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use lock_core::memory::{MemoryBackend, Verb};
use lock_sync::{
    LockError, Locks, LossReason, MutexGuard, OwnedMutexGuard, Owner, OwnerGuard, ReentrantMutex,
    Reentry, ReleaseError, TryLockError, owner_scope_sync,
};
use tokio::time::{Instant, sleep};

use crate::support::{Pair, dropped_after, eventually, poll_once};

const TTL: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(10);

impl Pair {
    /// One reentrant mutex on both sides.
    pub(crate) fn reentrant_mutexes(&self) -> (ReentrantMutex<u32>, ReentrantMutex<u32>) {
        let mutex = |locks: &lock_sync::Locks<_>| locks.reentrant_mutex("again", 0).unwrap();
        (mutex(&self.here), mutex(&self.there))
    }
}

/// A copy of the owner, as another process would get it.
pub(crate) fn sent(owner: &Owner) -> Owner {
    Locks::new(MemoryBackend::new()).owner(&owner.pass().expose().parse().unwrap()).unwrap()
}

async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(LONG, future).await.expect("it takes no longer than that")
}

// ---- Through the guard ----

#[tokio::test]
async fn a_guard_is_entered_again_without_asking() {
    async fn deeper(mut number: Reentry<'_, u32>, asked: impl Fn() -> u64) -> u32 {
        *number += 1;
        let before = asked();
        let mut deepest = number.reenter().unwrap();
        *deepest *= 10;
        assert!(
            Reentry::lease(&deepest).is_valid()
                && Reentry::lease(&deepest).remaining() > Duration::ZERO
        );
        assert_eq!((Reentry::lease(&deepest).key().as_bytes(), asked()), (&b"it"[..], before));
        *number += 1;
        *number
    }

    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let mut guard = here.lock().await.unwrap();
    let before = pair.ours.stats().acquires;
    let token = MutexGuard::lease(&guard).fencing_token();
    let entered = guard.reenter().unwrap();
    assert_eq!(Reentry::lease(&entered).fencing_token(), token);
    assert_eq!(deeper(entered, || pair.ours.stats().acquires).await, 11);
    assert_eq!(pair.ours.stats().acquires, before);
    assert_eq!((*guard, MutexGuard::lease(&guard).fencing_token()), (11, token));
    assert!(there.try_lock().await.is_err(), "leaving is not letting go");
    let _: &lock_sync::Mutex<u32> = MutexGuard::mutex(&guard);

    drop(guard);
    let mut owned = Arc::new(here).lock_owned().await.unwrap();
    *owned.reenter().unwrap() += 1;
    let entered = owned.reenter().unwrap();
    assert_eq!(format!("{entered:?} {entered}"), "12 12");
    let _: &Arc<lock_sync::Mutex<u32>> = OwnedMutexGuard::mutex(&owned);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_lost_cannot_be_entered_again() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, _) = pair.mutexes();
    let mut guard = here.lock().await.unwrap();
    let mut entered = guard.reenter().unwrap();
    pair.store.forget();
    let lost = Reentry::lease(&entered).lost().await;
    assert_eq!(lost.reason(), LossReason::Revoked);
    assert!(!Reentry::lease(&entered).is_valid() && Reentry::lease(&entered).remaining().is_zero());
    assert_eq!(Reentry::lease(&entered).check(), Err(lost));
    assert_eq!(Reentry::lease(&entered).while_held(std::future::ready(())).await, Err(lost));
    *entered += 1;
    assert_eq!(entered.reenter().err(), Some(lost));
    assert_eq!(guard.reenter().err(), Some(lost));
    assert_eq!(*guard, 1, "the data is still there");
}

// ---- In the name of an owner ----

#[tokio::test]
async fn an_owner_enters_again_without_asking() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let mut outer = here.lock_as(&mut owner).await.unwrap();
    let (token, before) = (OwnerGuard::lease(&outer).fencing_token(), pair.ours.stats());
    {
        let (number, owner) = outer.split();
        assert_eq!(*number, 0);
        let mut inner = here.lock_as(owner).await.unwrap();
        let innermost = here.try_lock_as(inner.split().1).await.unwrap();
        assert_eq!(OwnerGuard::lease(&innermost).fencing_token(), token);
        assert!(
            OwnerGuard::lease(&innermost).is_valid()
                && std::ptr::eq(OwnerGuard::mutex(&innermost), &here)
        );
    }
    assert_eq!(pair.ours.stats().acquires, before.acquires);
    assert_eq!(pair.ours.stats().releases, before.releases);
    assert!(OwnerGuard::lease(&outer).is_valid() && here.is_held());
    OwnerGuard::release(outer).await.unwrap();
    assert_eq!(pair.store.live_leases(), 0);
    assert!(OwnerGuard::lease(&here.lock_as(&mut owner).await.unwrap()).fencing_token() > token);
}

#[tokio::test]
async fn a_try_of_an_owner_waits_for_no_request_of_another() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let (mut owner, mut other) = (Owner::new().unwrap(), Owner::new().unwrap());
    let mut outer = here.lock_as(&mut owner).await.unwrap();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let mut left = Box::pin(here.lock_as(&mut other));
    assert!(poll_once(left.as_mut()).await.is_pending());
    drop(left);
    let mut inner = Box::pin(here.try_lock_as(outer.split().1));
    assert!(poll_once(inner.as_mut()).await.is_ready(), "it waits for an answer to another owner");
    gate.open();
}

#[tokio::test]
async fn an_owner_enters_its_own_lock_before_all_waiters() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let (mut beside, mut elsewhere) = (Owner::new().unwrap(), Owner::new().unwrap());
    let mut outer = here.lock_as(&mut owner).await.unwrap();
    let mut waits_here = Box::pin(here.lock_as(&mut beside));
    let mut waits_there = Box::pin(there.lock_as(&mut elsewhere));
    assert!(poll_once(waits_here.as_mut()).await.is_pending());
    assert!(poll_once(waits_there.as_mut()).await.is_pending());
    let inner = in_time(here.lock_as(outer.split().1)).await.unwrap();
    assert!(OwnerGuard::lease(&inner).is_valid());
    drop(inner);
    drop(outer);
    let (one, other) = tokio::join!(async { drop(in_time(waits_here).await.unwrap()) }, async {
        drop(in_time(waits_there).await.unwrap())
    },);
    let ((), ()) = (one, other);
}

#[tokio::test]
async fn every_owner_that_waits_has_its_turn() {
    let pair = Pair::local();
    let (here, there) = pair.reentrant_mutexes();
    let mut first = Owner::new().unwrap();
    let guard = here.lock_as(&mut first).await.unwrap();
    let served = std::sync::Mutex::new(Vec::new());
    let mut waiting: Vec<_> = (0..20)
        .map(|n| {
            let (mutex, served) = (if n % 2 == 0 { &here } else { &there }, &served);
            Box::pin(async move {
                let mut owner = Owner::new().unwrap();
                let _guard = mutex.lock_as(&mut owner).await.unwrap();
                served.lock().unwrap().push(n);
            })
        })
        .collect();
    for waiter in &mut waiting {
        assert!(poll_once(waiter.as_mut()).await.is_pending());
    }
    drop(guard);
    in_time(join_all(waiting)).await;
    let mut served = served.into_inner().unwrap();
    served.sort_unstable();
    assert_eq!(served, (0..20).collect::<Vec<_>>());
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_crashes_ends_alone() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = pair.reentrant_mutexes();
    let (mut owner, mut stranger) = (Owner::new().unwrap(), Owner::new().unwrap());
    let mut copy = sent(&owner);
    let dead = here.lock_as(&mut owner).await.unwrap();
    let live = there.lock_as(&mut copy).await.unwrap();
    pair.ours.faults().cut();
    assert_eq!(OwnerGuard::lease(&dead).lost().await.reason(), LossReason::Expired);
    sleep(TTL * 2).await;
    assert!(OwnerGuard::lease(&live).is_valid() && !OwnerGuard::lease(&dead).is_valid());
    assert!(there.try_lock_as(&mut stranger).await.is_err());
    OwnerGuard::release(live).await.unwrap();
    assert!(there.try_lock_as(&mut stranger).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_crashed_owner_is_followed_by_the_next() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = pair.reentrant_mutexes();
    let (mut owner, mut stranger) = (Owner::new().unwrap(), Owner::new().unwrap());
    let mut guard = here.lock_as(&mut owner).await.unwrap();
    pair.ours.faults().cut();
    let next = there.lock_as_timeout(&mut stranger, TTL * 3).await.unwrap();
    assert!(!OwnerGuard::lease(&guard).is_valid());
    let token = OwnerGuard::lease(&guard).fencing_token();
    assert!(OwnerGuard::lease(&next).fencing_token() > token);
    let again = here.lock_as(guard.split().1).await;
    assert!(matches!(again, Err(LockError::Lost(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_has_lost_the_lock_cannot_enter_again() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let mut outer = here.lock_as(&mut owner).await.unwrap();
    let token = OwnerGuard::lease(&outer).fencing_token();
    pair.store.forget();
    let lost = OwnerGuard::lease(&outer).lost().await;
    assert_eq!(lost.reason(), LossReason::Revoked);
    match here.lock_as(outer.split().1).await {
        Err(LockError::Lost(again)) => assert_eq!(again, lost),
        other => panic!("{other:?}"),
    }
    match here.try_lock_as(outer.split().1).await {
        Err(TryLockError::Lost(again)) => assert_eq!(again, lost),
        other => panic!("{other:?}"),
    }
    assert!(matches!(OwnerGuard::release(outer).await, Err(ReleaseError::Lost(_))));
    // Once its guards are gone, the owner locks like any other.
    let anew = here.lock_as(&mut owner).await.unwrap();
    assert!(
        OwnerGuard::lease(&anew).is_valid() && OwnerGuard::lease(&anew).fencing_token() > token
    );
}

#[tokio::test(start_paused = true)]
async fn entering_notices_an_unnoticed_loss() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).renewal(false));
    let (here, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let mut outer = here.lock_as(&mut owner).await.unwrap();
    // As after SIGCONT: time has passed, and nothing has run yet.
    tokio::time::advance(TTL * 2).await;
    let again = here.lock_as(outer.split().1).await;
    assert!(matches!(again, Err(LockError::Lost(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_guard_outlives_its_ttl() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = pair.reentrant_mutexes();
    let (mut owner, mut stranger) = (Owner::new().unwrap(), Owner::new().unwrap());
    let guard = here.lock_as(&mut owner).await.unwrap();
    let token = OwnerGuard::lease(&guard).fencing_token();
    sleep(TTL * 5).await;
    assert!(
        OwnerGuard::lease(&guard).is_valid() && OwnerGuard::lease(&guard).fencing_token() == token
    );
    assert_eq!(OwnerGuard::lease(&guard).while_held(std::future::ready(7)).await, Ok(7));
    assert!(there.try_lock_as(&mut stranger).await.is_err());
}

#[tokio::test]
async fn a_shutdown_refuses_owners_too() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let (mut owner, mut other) = (Owner::new().unwrap(), Owner::new().unwrap());
    let guard = here.lock_as(&mut owner).await.unwrap();
    let mut waiting = Box::pin(here.lock_as(&mut other));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert!(matches!(waiting.await, Err(LockError::Closed)));
    assert!(OwnerGuard::lease(&guard).is_valid(), "guards outlive it");
    let refused = here.try_lock_as(&mut other).await;
    assert!(matches!(refused, Err(TryLockError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn out_of_reach_is_an_error() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    pair.ours.faults().cut();
    assert!(matches!(here.lock_as(&mut owner).await, Err(LockError::Backend(_))));
    let refused = here.try_lock_as(&mut owner).await;
    assert!(matches!(refused, Err(TryLockError::Backend(_))));
}

#[test]
fn a_plain_thread_can_lock() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    let (mut owner, mut other) = (Owner::new().unwrap(), Owner::new().unwrap());
    let mut outer = here.blocking_lock_as(&mut owner).unwrap();
    let inner = here.blocking_lock_as(outer.split().1).unwrap();
    let token = OwnerGuard::lease(&inner).fencing_token();
    drop(inner);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            there.blocking_lock_as(&mut other).map(|g| OwnerGuard::lease(&g).fencing_token())
        });
        drop(outer);
        assert!(waiting.join().unwrap().unwrap() > token);
    });
}

/// The timers of the store must not belong to a runtime that no thread drives.
#[test]
fn a_thread_that_blocks_needs_no_runtime_of_its_own() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let undriven = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = undriven.enter();
    pair.ours.faults().delay_replies(Duration::from_millis(2));
    drop(here.blocking_lock_as(&mut owner).unwrap());
    let another = pair.here.reentrant_mutex("another", ()).unwrap();
    owner_scope_sync(|| drop(another.blocking_lock().unwrap()));
}

/// Drops the future after its k-th poll, for every k, while others come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let (mut stranger, mut copy) = (Owner::new().unwrap(), sent(&owner));
    for round in 0..1_000_u32 {
        let held = match round % 3 {
            0 => None,
            1 => Some(there.lock_as(&mut stranger).await.unwrap()),
            _ => Some(there.lock_as(&mut copy).await.unwrap()),
        };
        let waiting = Box::pin(here.lock_as(&mut owner));
        dropped_after(waiting, round % 5, held, 1).await;
    }
    pair.all_released().await;
    drop(in_time(there.lock_as(&mut stranger)).await.unwrap());
}

#[tokio::test]
async fn a_dropped_future_does_not_touch_the_owners_other_guards() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let (mut copy, mut stranger) = (sent(&owner), Owner::new().unwrap());
    let guard = here.lock_as(&mut owner).await.unwrap();
    let _gate = pair.ours.faults().on(Verb::Release).hold_requests();
    let mut again = Box::pin(here.lock_as(&mut copy));
    let entered = poll_once(again.as_mut()).await;
    assert!(entered.is_ready(), "no request is sent");
    drop(entered);
    drop(again);
    pair.ours.faults().heal();
    assert!(
        OwnerGuard::lease(&guard).is_valid() && there.try_lock_as(&mut stranger).await.is_err()
    );
    eventually("nothing was released", || pair.ours.stats().releases == 0).await;
}

#[tokio::test]
async fn the_value_can_be_reached_in_every_shape() {
    let pair = Pair::threaded();
    let mut mutex = pair.here.reentrant_mutex("it", [1, 2]).unwrap();
    mutex.get_mut()[0] = 5;
    assert_eq!(mutex.into_inner(), [5, 2]);
    let shared: Arc<ReentrantMutex<[u32]>> =
        Arc::new(pair.here.reentrant_mutex("it", [1, 2]).unwrap());
    let mut owner = Owner::new().unwrap();
    assert_eq!(shared.lock_as(&mut owner).await.unwrap().len(), 2);
}

#[tokio::test]
async fn debug_sends_no_request_and_shows_no_secret() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    let secret = owner.pass().expose();
    assert_eq!(format!("{here:?}"), r#"ReentrantMutex { key: Key("again"), data: 0 }"#);
    let future = here.lock_as(&mut owner);
    assert_eq!(format!("{future:?}"), r#"LockAs { key: Key("again"), .. }"#);
    let guard = future.await.unwrap();
    let asked = pair.ours.stats();
    assert_eq!(format!("{here:?}"), r#"ReentrantMutex { key: Key("again"), data: <locked> }"#);
    assert_eq!(format!("{guard:?} {guard}"), "0 0");
    assert_eq!(OwnerGuard::lease(&guard).key().as_bytes(), b"again");
    drop(guard);
    assert!(!format!("{here:?} {owner:?} {:?}", pair.here).contains(&secret));
    assert_eq!(pair.ours.stats().acquires, asked.acquires);
}

#[tokio::test(start_paused = true)]
async fn a_try_waits_for_the_releases_of_many_owners_as_long_as_for_one() {
    let pair = Pair::local();
    let mutex = pair.here.reentrant_mutex("it", ()).unwrap();
    let _gate = pair.ours.faults().on(Verb::Release).hold_replies();
    for _ in 0..10 {
        let mut owner = Owner::new().unwrap();
        drop(mutex.lock_as(&mut owner).await.unwrap());
        pair.all_released().await;
    }
    let began = Instant::now();
    drop(mutex.try_lock_as(&mut Owner::new().unwrap()).await.unwrap());
    assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
}
