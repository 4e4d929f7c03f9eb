//! Futures that are dropped, at every possible point.

use std::pin::Pin;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use lock_core::memory::Verb;
use lock_sync::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use super::soon;
use crate::support::{Pair, poll_once};

type Lock = Arc<RwLock<u32>>;

/// A way to get a guard. The guard is dropped at once.
type Way = for<'a> fn(&'a Lock) -> BoxFuture<'a, bool>;

const WAYS: [(&str, Way); 12] = [
    ("read", |lock| lock.read().map(|guard| guard.is_ok()).boxed()),
    ("read_owned", |lock| Arc::clone(lock).read_owned().map(|guard| guard.is_ok()).boxed()),
    ("try_read", |lock| lock.try_read().map(|guard| guard.is_ok()).boxed()),
    ("try_read_owned", |lock| Arc::clone(lock).try_read_owned().map(|guard| guard.is_ok()).boxed()),
    ("write", |lock| lock.write().map(|guard| guard.is_ok()).boxed()),
    ("write_owned", |lock| Arc::clone(lock).write_owned().map(|guard| guard.is_ok()).boxed()),
    ("try_write", |lock| lock.try_write().map(|guard| guard.is_ok()).boxed()),
    ("try_write_owned", |lock| {
        Arc::clone(lock).try_write_owned().map(|guard| guard.is_ok()).boxed()
    }),
    ("upgradable_read", |lock| lock.upgradable_read().map(|guard| guard.is_ok()).boxed()),
    ("upgradable_read_owned", |lock| {
        Arc::clone(lock).upgradable_read_owned().map(|guard| guard.is_ok()).boxed()
    }),
    ("try_upgradable_read", |lock| lock.try_upgradable_read().map(|guard| guard.is_ok()).boxed()),
    ("try_upgradable_read_owned", |lock| {
        Arc::clone(lock).try_upgradable_read_owned().map(|guard| guard.is_ok()).boxed()
    }),
];

/// A way to upgrade an upgradable guard to an exclusive one.
const UPGRADES: [(&str, Way); 4] = [
    ("upgrade", |lock| {
        async { soon(lock.upgradable_read()).await.unwrap().upgrade().await.is_ok() }.boxed()
    }),
    ("try_upgrade", |lock| {
        async { soon(lock.upgradable_read()).await.unwrap().try_upgrade().await.is_ok() }.boxed()
    }),
    ("upgrade, owned", |lock| {
        let lock = Arc::clone(lock);
        async { soon(lock.upgradable_read_owned()).await.unwrap().upgrade().await.is_ok() }.boxed()
    }),
    ("try_upgrade, owned", |lock| {
        let lock = Arc::clone(lock);
        async { soon(lock.upgradable_read_owned()).await.unwrap().try_upgrade().await.is_ok() }
            .boxed()
    }),
];

/// The holder that the future waits for.
#[expect(dead_code, reason = "the guards are there to be held")]
enum Held<'a> {
    Nothing,
    Reader(RwLockReadGuard<'a, u32>),
    Writer(RwLockWriteGuard<'a, u32>),
    OwnedReader(OwnedRwLockReadGuard<u32>),
    OwnedWriter(OwnedRwLockWriteGuard<u32>),
}

impl<'a> Held<'a> {
    /// The kinds take turns. A writer takes part only if the future can wait for it.
    async fn in_round(round: u32, writers: bool, here: &Lock, there: &'a RwLock<u32>) -> Self {
        match round % 5 {
            1 => Self::Reader(soon(there.read()).await.unwrap()),
            2 => Self::OwnedReader(soon(Arc::clone(here).read_owned()).await.unwrap()),
            3 if writers => Self::Writer(soon(there.write()).await.unwrap()),
            4 if writers => Self::OwnedWriter(soon(Arc::clone(here).write_owned()).await.unwrap()),
            _ => Self::Nothing,
        }
    }
}

/// Asserts that everything is given back, far sooner than a lease would end.
async fn all_free(pair: &Pair, here: &RwLock<u32>, there: &RwLock<u32>, name: &str) {
    pair.all_released().await;
    assert!(!here.is_held() && !there.is_held(), "{name}");
    RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
    RwLockWriteGuard::release(soon(here.write()).await.unwrap()).await.unwrap();
}

/// Drops each future after its k-th poll, for every k, while others come and go.
async fn dropped_after_any_poll(pair: &Pair, here: Lock, ways: &[(&str, Way)], writers: bool) {
    let there = pair.there.rwlock("it", 0).unwrap();
    for (name, way) in ways {
        for round in 0..200_u32 {
            let mut held = Held::in_round(round, writers, &here, &there).await;
            let mut waiting = way(&here);
            for poll in 0..=round % 7 {
                if poll == 2 {
                    held = Held::Nothing;
                }
                if poll_once(Pin::new(&mut waiting)).await.is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(waiting);
            drop(held);
        }
        all_free(pair, &here, &there, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_way_to_a_guard_can_be_dropped_after_any_poll() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.rwlock("it", 0).unwrap());
    dropped_after_any_poll(&pair, here, &WAYS, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_can_an_upgrade() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.rwlock("it", 0).unwrap());
    dropped_after_any_poll(&pair, here, &UPGRADES, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_can_one_that_waits_for_a_permit_of_the_quota() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.rwlock_with_max_readers("it", 0, 1).unwrap());
    dropped_after_any_poll(&pair, here, &WAYS, true).await;
}

#[tokio::test]
async fn dropped_while_a_request_or_its_answer_is_under_way() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.rwlock("it", 0).unwrap());
    let there = pair.there.rwlock("it", 0).unwrap();
    for (name, way) in WAYS {
        for answer in [false, true] {
            let acquires = pair.ours.faults().on(Verb::Acquire);
            let gate = if answer { acquires.hold_replies() } else { acquires.hold_requests() };
            let mut waiting = way(&here);
            assert!(poll_once(Pin::new(&mut waiting)).await.is_pending(), "{name}");
            assert_eq!(pair.store.live_leases(), usize::from(answer), "{name}");
            drop(waiting);
            drop(gate);
            pair.ours.faults().heal();
            all_free(&pair, &here, &there, name).await;
        }
    }
}

#[tokio::test]
async fn an_upgrade_dropped_while_its_request_or_the_answer_is_under_way() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.rwlock("it", 0).unwrap());
    let there = pair.there.rwlock("it", 0).unwrap();
    for answer in [false, true] {
        let reading = here.upgradable_read().await.unwrap();
        // So that the lease is upgradable, and not exclusive.
        let beside = there.read().await.unwrap();
        RwLockReadGuard::release(beside).await.unwrap();
        let acquires = pair.ours.faults().on(Verb::Acquire);
        let gate = if answer { acquires.hold_replies() } else { acquires.hold_requests() };
        let mut upgrade = Box::pin(reading.upgrade());
        assert!(poll_once(upgrade.as_mut()).await.is_pending());
        drop(upgrade);
        drop(gate);
        pair.ours.faults().heal();
        all_free(&pair, &here, &there, "upgrade").await;
    }
}

#[tokio::test]
async fn a_grant_that_was_not_picked_up_goes_to_the_next() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.rwlock("it", 0).unwrap());
    for (name, way) in WAYS.into_iter().filter(|(name, _)| !name.starts_with("try")) {
        let writing = soon(here.write()).await.unwrap();
        let mut first = way(&here);
        let mut second = Box::pin(here.write());
        assert!(poll_once(Pin::new(&mut first)).await.is_pending(), "{name}");
        assert!(poll_once(second.as_mut()).await.is_pending(), "{name}");
        drop(writing);
        // The first waiter now has the lock, but is never polled.
        drop(first);
        drop(soon(second).await.unwrap());
    }
    pair.all_released().await;
}

#[tokio::test]
async fn a_release_goes_on_without_its_future() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.rwlock("it", 0).unwrap());
    let there = pair.there.rwlock("it", 0).unwrap();
    let reading = here.read().await.unwrap();
    let _gate = pair.ours.faults().on(Verb::Release).hold_requests();
    let mut releasing = Box::pin(RwLockReadGuard::release(reading));
    assert!(poll_once(releasing.as_mut()).await.is_pending());
    drop(releasing);
    assert_eq!(pair.store.live_leases(), 1);
    pair.ours.faults().heal();
    all_free(&pair, &here, &there, "release").await;
}
