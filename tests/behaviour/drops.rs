//! Guards that are dropped where nothing may block, spawn or panic.
//!
//! The lease is half a minute long: a key that is gone earlier was released.

use std::any::Any;
use std::cell::RefCell;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Excluding, Guard, Leftovers, Pair, SOON, for_all_that_excludes};

for_all_that_excludes! {
    outside_any_runtime
    in_a_panic
    in_a_task_that_panics
    in_a_task_that_is_aborted
    as_the_last_act_of_block_on
    while_a_runtime_shuts_down
    after_a_runtime_is_gone
    in_a_destructor_of_a_thread_local
    after_every_other_handle
    a_drop_does_not_wait_for_a_server_that_stands_still
}

/// A guard of the lock "it", and the handle that it came from.
fn held<X: Excluding>(pair: &Pair) -> (X, X::Guard) {
    let lock = X::of(&pair.here);
    let guard = lock.blocking_take().unwrap();
    assert_eq!(pair.server.locks(), X::KEYS);
    (lock, guard)
}

/// A task of this runtime that has taken the lock "it" and will hold it for ever.
fn holding<X: Excluding>(pair: &Pair, runtime: &Runtime) -> JoinHandle<()> {
    let lock = X::of(&pair.here);
    let (locked, is_locked) = oneshot::channel();
    let task = runtime.spawn(async move {
        let _guard = lock.take().await.unwrap();
        locked.send(()).unwrap();
        std::future::pending().await
    });
    runtime.block_on(is_locked).unwrap();
    assert_eq!(pair.server.locks(), X::KEYS);
    task
}

/// The key is gone, and another client gets the lock.
fn assert_released<X: Excluding>(pair: &Pair) {
    pair.server.assert_all_free();
    let (_, there) = pair.locks::<X>();
    drop(there.blocking_take().unwrap());
}

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ]
}

fn outside_any_runtime<X: Excluding>() {
    let pair = Pair::new();
    let (_, guard) = held::<X>(&pair);
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert_released::<X>(&pair);
}

fn in_a_panic<X: Excluding>() {
    let pair = Pair::new();
    let (_, guard) = held::<X>(&pair);
    let panicked = std::thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert_released::<X>(&pair);
}

fn in_a_task_that_panics<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let (_, guard) = held::<X>(&pair);
        let task = runtime.spawn(async move {
            let _guard = guard;
            tokio::task::yield_now().await;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(runtime.block_on(task).unwrap_err().is_panic());
        assert_released::<X>(&pair);
    }
}

fn in_a_task_that_is_aborted<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let task = holding::<X>(&pair, &runtime);
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        assert_released::<X>(&pair);
    }
}

fn as_the_last_act_of_block_on<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let lock = X::of(&pair.here);
        runtime.block_on(async { drop(lock.take().await.unwrap()) });
        drop(runtime);
        assert_released::<X>(&pair);
    }
}

fn while_a_runtime_shuts_down<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        // The connection lives on this runtime too, and ends with it.
        let task = holding::<X>(&pair, &runtime);
        drop(runtime);
        assert!(task.is_finished());
        assert_released::<X>(&pair);
    }
}

fn after_a_runtime_is_gone<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let lock = X::of(&pair.here);
        // In a task, so that the connection is this runtime's.
        let task = runtime.spawn(lock.take());
        let guard = runtime.block_on(task).unwrap().unwrap();
        drop(runtime);
        assert!(guard.is_valid());
        drop(guard);
        assert_released::<X>(&pair);
    }
}

fn in_a_destructor_of_a_thread_local<X: Excluding>() {
    thread_local! {
        static KEPT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }
    let pair = Pair::new();
    let (_, guard) = held::<X>(&pair);
    std::thread::spawn(move || KEPT.set(Some(Box::new(guard)))).join().unwrap();
    assert_released::<X>(&pair);
}

fn after_every_other_handle<X: Excluding>() {
    let pair = Pair::new();
    let (lock, guard) = held::<X>(&pair);
    let Pair { server, here, there } = pair;
    drop((here, lock));
    assert_eq!(server.locks(), X::KEYS);
    drop(guard);
    server.assert_all_free();
    drop(there);
}

fn a_drop_does_not_wait_for_a_server_that_stands_still<X: Excluding>() {
    // A drop that waits for the server would wait for this long.
    const TIMEOUT: Duration = Duration::from_secs(25);
    let pair = Pair::with(|redis| redis.command_timeout(TIMEOUT), |locks| locks);
    let (_, guard) = held::<X>(&pair);
    pair.server.stop();
    let begin = Instant::now();
    drop(guard);
    assert!(begin.elapsed() < SOON, "dropping took {:?}", begin.elapsed());
    pair.server.cont();
    assert_released::<X>(&pair);
}
