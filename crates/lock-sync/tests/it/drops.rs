//! Guards that are dropped in places where nothing may block, spawn or panic.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use lock_sync::{Mutex, OwnedMutexGuard};
use tokio::runtime::{Builder, Runtime};

use crate::support::Pair;

/// A guard of the lock "it" of this side, and the parts that observe its release.
fn held(pair: &Pair) -> (Arc<Mutex<u32>>, OwnedMutexGuard<u32>) {
    let mutex = Arc::new(pair.here.mutex("it", 0).unwrap());
    let guard = Arc::clone(&mutex).blocking_lock_owned().unwrap();
    (mutex, guard)
}

/// Waits on a plain thread, because the runtime may be gone.
fn assert_released(pair: &Pair) {
    let begin = std::time::Instant::now();
    while pair.store.live_leases() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "the release was not sent");
        std::thread::yield_now();
    }
}

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ]
}

#[test]
fn outside_any_runtime() {
    let pair = Pair::threaded();
    let (_, guard) = held(&pair);
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert_released(&pair);
}

#[test]
fn in_a_panic() {
    let pair = Pair::threaded();
    let (_, guard) = held(&pair);
    let panicked = std::thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert_released(&pair);
}

#[test]
fn as_the_last_act_of_block_on() {
    for runtime in runtimes() {
        let pair = Pair::threaded();
        let mutex = Arc::new(pair.here.mutex("it", 0).unwrap());
        runtime.block_on(async { drop(mutex.lock().await.unwrap()) });
        drop(runtime);
        assert_released(&pair);
    }
}

#[test]
fn in_a_task_that_is_aborted() {
    for runtime in runtimes() {
        let pair = Pair::threaded();
        let (_, guard) = held(&pair);
        runtime.block_on(async {
            let task = tokio::spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        });
        assert_released(&pair);
    }
}

#[test]
fn in_a_task_that_ends_with_its_runtime() {
    for runtime in runtimes() {
        let pair = Pair::threaded();
        let (_, guard) = held(&pair);
        let (_, waiting_guard) = {
            let other = Arc::new(pair.here.mutex("other", 0).unwrap());
            let guard = Arc::clone(&other).blocking_lock_owned().unwrap();
            (other, guard)
        };
        runtime.spawn(async move {
            let _guards = (guard, waiting_guard);
            std::future::pending::<()>().await;
        });
        runtime.shutdown_background();
        assert_released(&pair);
    }
}

#[test]
fn after_the_runtime_is_gone() {
    for runtime in runtimes() {
        let pair = Pair::threaded();
        let mutex = Arc::new(pair.here.mutex("it", 0).unwrap());
        let guard = runtime.block_on(Arc::clone(&mutex).lock_owned()).unwrap();
        drop(runtime);
        assert!(OwnedMutexGuard::lease(&guard).is_valid());
        drop(guard);
        assert_released(&pair);
    }
}

#[test]
fn in_a_destructor_of_a_thread_local() {
    thread_local! {
        static KEPT: RefCell<Option<OwnedMutexGuard<u32>>> = const { RefCell::new(None) };
    }
    let pair = Pair::threaded();
    let (_, guard) = held(&pair);
    std::thread::spawn(move || KEPT.set(Some(guard))).join().unwrap();
    assert_released(&pair);
}

#[test]
fn after_every_other_handle() {
    let pair = Pair::threaded();
    let store = pair.store.clone();
    let (mutex, guard) = held(&pair);
    drop((pair, mutex));
    assert_eq!(store.live_leases(), 1);
    drop(guard);
    let begin = std::time::Instant::now();
    while store.live_leases() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "the driver ended too early");
        std::thread::yield_now();
    }
}
