//! A driver on a runtime of the app, and what is left when that runtime shuts down.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use lock_core::ErrorKind;
use lock_core::memory::{MemoryBackend, Verb};
use lock_sync::{Handoff, LockError, Locks, LossReason, MutexGuard, TryLockError};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Pair, eventually, must_end, poll_once};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn has_stopped<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Backend(error)) if error.kind() == ErrorKind::ShuttingDown)
}

#[test]
fn locking_is_an_error() {
    must_end(|| {
        let gone = runtime();
        let pair = Pair::build(|builder| builder.on_runtime(gone.handle().clone()));
        drop(gone);
        let (here, _) = pair.mutexes();
        runtime().block_on(async {
            assert!(has_stopped(&here.lock().await));
            assert!(matches!(here.try_lock().await, Err(TryLockError::Backend(_))));
        });
    });
}

#[test]
fn the_guard_is_lost_and_waiters_are_told() {
    must_end(|| {
        let gone = runtime();
        let pair = Pair::build(|b| b.on_runtime(gone.handle().clone()).handoff(Handoff::Never));
        let (here, _) = pair.mutexes();
        runtime().block_on(async {
            let guard = here.lock().await.unwrap();
            let mut waiting = Box::pin(here.lock());
            assert!(poll_once(waiting.as_mut()).await.is_pending());
            gone.shutdown_background();
            assert_eq!(MutexGuard::lease(&guard).lost().await.reason(), LossReason::DriverStopped);
            assert!(!MutexGuard::lease(&guard).is_valid());
            assert!(has_stopped(&waiting.await));
            assert!(MutexGuard::release(guard).await.is_err());
        });
    });
}

#[test]
fn the_runtime_shuts_down_with_requests_under_way() {
    for _ in 0..50 {
        must_end(|| {
            let gone = runtime();
            let pair = Pair::build(|b| b.on_runtime(gone.handle().clone()).handoff(Handoff::Never));
            let here = Arc::new(pair.here.mutex("it", 0).unwrap());
            let _gate = pair.ours.faults().on(Verb::Release).hold_requests();
            let mut waiting = Vec::new();
            runtime().block_on(async {
                let guard = here.lock().await.unwrap();
                for _ in 0..3 {
                    let mut waiter = Box::pin(Arc::clone(&here).lock_owned());
                    assert!(poll_once(waiter.as_mut()).await.is_pending());
                    waiting.push(waiter);
                }
                drop(guard);
                eventually("it is being released", || pair.ours.stats().releases > 0).await;
            });
            drop(gone);
            for waiter in waiting {
                assert!(has_stopped(&runtime().block_on(waiter)));
            }
        });
    }
}

#[test]
fn shutdown_returns() {
    must_end(|| {
        for _ in 0..20 {
            let gone = runtime();
            let pair = Pair::build(|builder| builder.on_runtime(gone.handle().clone()));
            let (here, _) = pair.mutexes();
            drop(here.blocking_lock().unwrap());
            drop(gone);
            runtime().block_on(pair.here.shutdown());
        }
    });
}

#[test]
fn a_runtime_without_a_timer_is_no_place_for_a_driver() {
    must_end(|| {
        let timeless = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let pair = Pair::build(|builder| builder.on_runtime(timeless.handle().clone()));
        let (here, _) = pair.mutexes();
        // The first call may succeed before the driver stops. Then the guard is lost at once.
        match here.blocking_lock() {
            Ok(guard) => {
                let lost = futures::executor::block_on(MutexGuard::lease(&guard).lost());
                assert_eq!(lost.reason(), LossReason::DriverStopped);
            }
            error => assert!(has_stopped(&error)),
        }
        assert!(has_stopped(&here.blocking_lock()));
    });
}

#[test]
fn the_runtime_of_one_asker_does_not_fail_the_waiters_of_another() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.mutex("it", 0).unwrap());
    let (asking, waiting) = (runtime(), runtime());
    // The answer needs a timer of the first caller's runtime, which is about to shut down.
    pair.ours.faults().on(Verb::Acquire).delay_requests(Duration::from_millis(300));
    let asker = Arc::clone(&here);
    asking.spawn(async move { asker.lock().await.map(drop) });
    waiting.block_on(eventually("it has asked", || pair.ours.stats().acquires == 1));
    let waiter = waiting.spawn(Arc::clone(&here).lock_owned());
    waiting.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    asking.shutdown_background();
    assert!(waiting.block_on(waiter).unwrap().is_ok());
}

#[test]
fn nothing_stays_behind_when_it_goes_while_a_release_is_tried_again() {
    let backend = Arc::new(MemoryBackend::new());
    let left = Arc::downgrade(&backend);
    let gone = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    backend.faults().on(Verb::Release).fail(ErrorKind::Unreachable);
    let locks = Locks::builder(Arc::clone(&backend)).on_runtime(gone.handle().clone());
    let locks = locks.build().unwrap();
    let mutex = locks.mutex("it", ()).unwrap();
    gone.block_on(async {
        drop(mutex.lock().await.unwrap());
        while backend.stats().releases == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    drop(gone);
    drop((mutex, locks, backend));
    assert_eq!(left.strong_count(), 0);
}

#[test]
fn streams_end() {
    must_end(|| {
        let gone = runtime();
        let pair = Pair::build(|builder| builder.on_runtime(gone.handle().clone()));
        let mut versions = pair.here.stored_mutex("it", 0).unwrap().subscribe();
        let mut leaders = Box::pin(pair.here.election("leader").unwrap().observe().into_stream());
        runtime().block_on(async {
            assert_eq!(leaders.next().await.unwrap().unwrap(), None);
            gone.shutdown_background();
            while versions.next().await.is_some() {}
            while leaders.next().await.is_some() {}
        });
    });
}
