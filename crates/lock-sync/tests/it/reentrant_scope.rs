//! A lock that code in the scope of its owner enters again.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use lock_sync::{
    LockError, Owner, OwnerGuard, ReentrantGuard, TryLockError, current_owner, owner_scope,
    owner_scope_sync,
};

use crate::reentrant::sent;
use crate::support::{Pair, dropped_after, poll_once};

#[tokio::test]
async fn a_second_lock_in_a_scope_enters_again() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    owner_scope(async {
        let outer = here.lock().await.unwrap();
        let before = pair.ours.stats();
        let inner = here.lock().await.unwrap();
        let tried = here.try_lock().await.unwrap();
        let soon = here.lock_timeout(Duration::from_secs(1)).await.unwrap();
        assert_eq!(pair.ours.stats().acquires, before.acquires, "no request is sent");
        for guard in [&inner, &tried, &soon] {
            assert_eq!(
                ReentrantGuard::lease(guard).fencing_token(),
                ReentrantGuard::lease(&outer).fencing_token()
            );
        }
        assert!(std::ptr::eq(ReentrantGuard::mutex(&inner), &here));
    })
    .await;
    owner_scope(async { drop(there.lock().await.unwrap()) }).await;
    pair.all_released().await;
}

#[tokio::test]
async fn outside_a_scope_it_is_an_error_that_says_what_to_do() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let error = here.lock().await.unwrap_err();
    assert!(matches!(error, LockError::NoOwnerScope));
    let message = error.to_string();
    for way_out in ["owner_scope", "lock_as", "spawned task"] {
        assert!(message.contains(way_out), "{message}");
    }
    let error = here.try_lock().await.unwrap_err();
    assert!(matches!(error, TryLockError::NoOwnerScope));
    assert_eq!(error.to_string(), message);
    assert!(matches!(current_owner(), Err(LockError::NoOwnerScope)));
    assert_eq!(pair.ours.stats().total(), 0);
}

#[tokio::test]
async fn the_last_guard_releases_the_lock_in_any_order() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    let mut stranger = Owner::new().unwrap();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut guards = owner_scope(async {
            let mut guards = Vec::new();
            for _ in 0..3 {
                guards.push(Some(here.lock().await.unwrap()));
            }
            guards
        })
        .await;
        for (nth, guard) in order.into_iter().enumerate() {
            assert!(guards.iter().flatten().all(|guard| ReentrantGuard::lease(guard).is_valid()));
            let refused = there.try_lock_as(&mut stranger).await;
            assert!(refused.is_err(), "{} of {order:?} were dropped", nth);
            drop(refused);
            ReentrantGuard::release(guards[guard].take().unwrap()).await.unwrap();
        }
        drop(OwnerGuard::release(there.try_lock_as(&mut stranger).await.unwrap()).await);
    }
}

#[tokio::test]
async fn a_guard_may_leave_the_scope() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let guard = owner_scope(here.lock()).await.unwrap();
    assert!(ReentrantGuard::lease(&guard).is_valid());
    let refused = owner_scope(here.try_lock()).await;
    assert!(matches!(refused, Err(TryLockError::WouldBlock)), "another scope");
    drop(refused);
    drop(guard);
    assert!(owner_scope(here.try_lock()).await.is_ok());
}

#[tokio::test]
async fn a_spawned_task_has_no_owner_unless_it_is_given_one() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.reentrant_mutexes().0);
    owner_scope(async {
        let outer = here.lock().await.unwrap();
        let mutex = Arc::clone(&here);
        let spawned = tokio::spawn(async move { mutex.lock().await.map(drop) }).await.unwrap();
        assert!(matches!(spawned, Err(LockError::NoOwnerScope)));

        let mutex = Arc::clone(&here);
        let stranger = owner_scope(async move { mutex.try_lock().await.map(drop) });
        let stranger = tokio::spawn(stranger).await.unwrap();
        assert!(matches!(stranger, Err(TryLockError::WouldBlock)));

        let mutex = Arc::clone(&here);
        let same = current_owner().unwrap().scope(async move {
            mutex.lock().await.map(|guard| ReentrantGuard::lease(&guard).fencing_token())
        });
        assert_eq!(
            tokio::spawn(same).await.unwrap().unwrap(),
            ReentrantGuard::lease(&outer).fencing_token()
        );
        assert!(ReentrantGuard::lease(&outer).is_valid());
    })
    .await;
}

#[tokio::test]
async fn a_scope_in_a_scope_is_another_owner() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    owner_scope(async {
        let outer = here.lock().await.unwrap();
        let name = current_owner().unwrap().pass();
        owner_scope(async {
            assert_ne!(current_owner().unwrap().pass(), name);
            let refused = here.try_lock().await;
            assert!(matches!(refused, Err(TryLockError::WouldBlock)));
        })
        .await;
        assert_eq!(current_owner().unwrap().pass(), name, "back in the outer one");
        assert_eq!(
            ReentrantGuard::lease(&here.lock().await.unwrap()).fencing_token(),
            ReentrantGuard::lease(&outer).fencing_token()
        );
    })
    .await;
}

/// The library cannot distinguish a branch from a nested call. The documentation says so.
#[tokio::test]
async fn branches_in_one_scope_are_one_owner() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    let meeting = tokio::sync::Barrier::new(2);
    let branch = || async {
        let _guard = here.lock().await.unwrap();
        // Both have to be inside for either to get past this.
        meeting.wait().await;
    };
    let both = async { tokio::join!(branch(), branch()) };
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, owner_scope(both)).await.unwrap();

    // With a scope for each they exclude one another.
    let inside = std::cell::Cell::new(0);
    let branch = || {
        owner_scope(async {
            let _guard = here.lock().await.unwrap();
            inside.set(inside.get() + 1);
            assert_eq!(inside.get(), 1);
            tokio::task::yield_now().await;
            inside.set(inside.get() - 1);
        })
    };
    join_all((0..5).map(|_| branch())).await;
}

#[tokio::test]
async fn the_owner_of_a_scope_can_be_sent_elsewhere() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    owner_scope(async {
        let owner = current_owner().unwrap();
        let guard = here.lock().await.unwrap();
        let elsewhere = sent(&owner);
        let token = elsewhere
            .scope(async {
                there.lock().await.map(|guard| ReentrantGuard::lease(&guard).fencing_token())
            })
            .await
            .unwrap();
        assert_eq!(token, ReentrantGuard::lease(&guard).fencing_token());
        let mut elsewhere = sent(&owner);
        assert_eq!(
            OwnerGuard::lease(&there.lock_as(&mut elsewhere).await.unwrap()).fencing_token(),
            token
        );
    })
    .await;
    pair.all_released().await;
}

#[tokio::test]
async fn the_owner_is_that_of_the_first_poll() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    // Made outside, polled inside.
    let future = here.lock();
    drop(owner_scope(future).await.unwrap());
    // Made inside, polled outside.
    let future = owner_scope_sync(|| here.lock());
    assert!(matches!(future.await, Err(LockError::NoOwnerScope)));
    // Polled inside, and then outside: it stays with the owner that it began with.
    let mut stranger = Owner::new().unwrap();
    let held = here.lock_as(&mut stranger).await.unwrap();
    let mut future = Box::pin(here.lock());
    owner_scope(async { assert!(poll_once(future.as_mut()).await.is_pending()) }).await;
    assert_eq!(format!("{future:?}"), r#"ReentrantLock { key: Key("again"), .. }"#);
    drop(held);
    assert!(ReentrantGuard::lease(&future.await.unwrap()).is_valid());
}

#[test]
fn any_executor_will_do() {
    let pair = Pair::threaded();
    let (here, _) = pair.reentrant_mutexes();
    futures::executor::block_on(owner_scope(async {
        let outer = here.lock().await.unwrap();
        assert_eq!(
            ReentrantGuard::lease(&here.lock().await.unwrap()).fencing_token(),
            ReentrantGuard::lease(&outer).fencing_token()
        );
    }));
}

#[test]
fn synchronous_code_has_a_scope_too() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    assert!(matches!(here.blocking_lock(), Err(LockError::NoOwnerScope)));
    let guard = owner_scope_sync(|| {
        let outer = here.blocking_lock().unwrap();
        let inner = here.blocking_lock().unwrap();
        assert_eq!(
            ReentrantGuard::lease(&inner).fencing_token(),
            ReentrantGuard::lease(&outer).fencing_token()
        );
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| here.blocking_lock().map(drop));
            let refused = thread.join().unwrap();
            assert!(matches!(refused, Err(LockError::NoOwnerScope)));
            let owner = current_owner().unwrap();
            let thread = scope.spawn(|| owner.scope_sync(|| there.blocking_lock().map(drop)));
            thread.join().unwrap().unwrap();
        });
        inner
    });
    assert!(ReentrantGuard::lease(&guard).is_valid(), "it leaves the scope as any other value");
    assert!(matches!(here.blocking_lock(), Err(LockError::NoOwnerScope)));
}

#[test]
fn a_blocked_thread_has_no_owner() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.reentrant_mutexes().0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(owner_scope(async {
        let _guard = here.lock().await.unwrap();
        let mutex = Arc::clone(&here);
        let blocking = tokio::task::spawn_blocking(move || mutex.blocking_lock().map(drop));
        let refused = blocking.await.unwrap();
        assert!(matches!(refused, Err(LockError::NoOwnerScope)));
    }));
}

/// Drops the future after its k-th poll, for every k, while another client comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    let (here, there) = pair.reentrant_mutexes();
    let mut stranger = Owner::new().unwrap();
    for round in 0..600_u32 {
        let contended = round % 3 == 0;
        let held = if contended { Some(there.lock_as(&mut stranger).await.unwrap()) } else { None };
        let waiting = Box::pin(owner_scope(async {
            let outer = here.lock().await.unwrap();
            let inner = here.lock().await.unwrap();
            (outer, inner)
        }));
        dropped_after(waiting, round % 5, held, 1).await;
    }
    pair.all_released().await;
    let limit = Duration::from_secs(10);
    drop(there.lock_as_timeout(&mut stranger, limit).await.unwrap());
}
