//! Guards that are dropped where nothing may block, spawn or panic.
//!
//! The lease is half a minute long: a key that is gone sooner was released.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_sync::{Mutex, OwnedMutexGuard};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{LOCK, Leftovers, Pair, SOON};

/// A guard of the lock "it", and the mutex that it came from.
fn held(pair: &Pair) -> (Arc<Mutex<()>>, OwnedMutexGuard<()>) {
    let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
    let guard = Arc::clone(&mutex).blocking_lock_owned().unwrap();
    assert_eq!(pair.server.locks(), [LOCK]);
    (mutex, guard)
}

/// A task of this runtime that has taken the lock "it" and will hold it for ever.
fn holding(pair: &Pair, runtime: &Runtime) -> JoinHandle<()> {
    let mutex = pair.here.mutex("it", ()).unwrap();
    let (locked, is_locked) = oneshot::channel();
    let task = runtime.spawn(async move {
        let _guard = mutex.lock().await.unwrap();
        locked.send(()).unwrap();
        std::future::pending().await
    });
    runtime.block_on(is_locked).unwrap();
    assert_eq!(pair.server.locks(), [LOCK]);
    task
}

/// The key is gone, and another client gets the lock.
fn assert_released(pair: &Pair) {
    pair.server.assert_all_free();
    let (_, there) = pair.mutexes();
    drop(there.blocking_lock().unwrap());
}

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ]
}

#[test]
fn outside_any_runtime() {
    let pair = Pair::new();
    let (_, guard) = held(&pair);
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert_released(&pair);
}

#[test]
fn in_a_panic() {
    let pair = Pair::new();
    let (_, guard) = held(&pair);
    let panicked = std::thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert_released(&pair);
}

#[test]
fn in_a_task_that_panics() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let (_, guard) = held(&pair);
        let task = runtime.spawn(async move {
            let _guard = guard;
            tokio::task::yield_now().await;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(runtime.block_on(task).unwrap_err().is_panic());
        assert_released(&pair);
    }
}

#[test]
fn in_a_task_that_is_aborted() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let task = holding(&pair, &runtime);
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        assert_released(&pair);
    }
}

#[test]
fn as_the_last_act_of_block_on() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let mutex = pair.here.mutex("it", ()).unwrap();
        runtime.block_on(async { drop(mutex.lock().await.unwrap()) });
        drop(runtime);
        assert_released(&pair);
    }
}

#[test]
fn while_a_runtime_shuts_down() {
    for runtime in runtimes() {
        let pair = Pair::new();
        // The connection lives on this runtime too, and goes down with it.
        let task = holding(&pair, &runtime);
        drop(runtime);
        assert!(task.is_finished());
        assert_released(&pair);
    }
}

#[test]
fn after_a_runtime_is_gone() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
        // In a task, so that the connection is this runtime's.
        let task = runtime.spawn(Arc::clone(&mutex).lock_owned());
        let guard = runtime.block_on(task).unwrap().unwrap();
        drop(runtime);
        assert!(guard.is_valid());
        drop(guard);
        assert_released(&pair);
    }
}

#[test]
fn in_a_destructor_of_a_thread_local() {
    thread_local! {
        static KEPT: RefCell<Option<OwnedMutexGuard<()>>> = const { RefCell::new(None) };
    }
    let pair = Pair::new();
    let (_, guard) = held(&pair);
    std::thread::spawn(move || KEPT.set(Some(guard))).join().unwrap();
    assert_released(&pair);
}

#[test]
fn after_every_other_handle() {
    let pair = Pair::new();
    let (mutex, guard) = held(&pair);
    let Pair { server, here, there } = pair;
    drop((here, mutex));
    assert_eq!(server.locks(), [LOCK]);
    drop(guard);
    server.assert_all_free();
    drop(there);
}

#[test]
fn a_server_that_stands_still_keeps_nobody_waiting() {
    // Whoever waited for the server would wait for this long.
    const TIMEOUT: Duration = Duration::from_secs(25);
    let pair = Pair::with(|redis| redis.command_timeout(TIMEOUT), |locks| locks);
    let (_, guard) = held(&pair);
    pair.server.stop();
    let begin = Instant::now();
    drop(guard);
    assert!(begin.elapsed() < SOON, "dropping took {:?}", begin.elapsed());
    pair.server.cont();
    assert_released(&pair);
}
