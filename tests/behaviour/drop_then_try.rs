//! A caller that drops a guard gets the lock again at once, although the release is still on its
//! way.

use tokio::runtime::{Builder, Runtime};

use crate::support::{Excluding, Guard, Leftovers, Pair, for_all_that_excludes};

for_all_that_excludes! {
    in_a_task
    in_block_on
    between_one_block_on_and_the_next
    on_a_plain_thread
    on_many_plain_threads_each_with_a_lock_of_its_own
}

const ROUNDS: usize = 1_000;

/// Takes the lock, drops the guard and takes the lock again, without waiting for another task.
async fn rounds<X: Excluding>(lock: &X, rounds: usize) {
    let mut last = None;
    for round in 0..rounds {
        let guard = lock.take().await.unwrap();
        drop(guard);
        let again = match lock.try_take().await {
            Ok(guard) => guard,
            Err(error) => panic!("round {round}: {error:?}"),
        };
        assert!(again.is_valid());
        assert!(last < Some(again.fencing_token()), "round {round}");
        last = Some(again.fencing_token());
    }
}

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ]
}

/// The lock is free for all clients again.
fn assert_free<X: Excluding>(pair: &Pair) {
    let (_, there) = pair.locks::<X>();
    drop(there.blocking_take().unwrap());
    pair.server.assert_all_free();
}

fn in_a_task<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let (here, _) = pair.locks::<X>();
        runtime.block_on(runtime.spawn(async move { rounds(&here, ROUNDS).await })).unwrap();
        assert_free::<X>(&pair);
    }
}

fn in_block_on<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let (here, _) = pair.locks::<X>();
        runtime.block_on(rounds(&here, ROUNDS));
        assert_free::<X>(&pair);
    }
}

fn between_one_block_on_and_the_next<X: Excluding>() {
    for runtime in runtimes() {
        let pair = Pair::new();
        let (here, _) = pair.locks::<X>();
        for round in 0..ROUNDS {
            drop(runtime.block_on(here.take()).unwrap());
            let again = runtime.block_on(here.try_take());
            assert!(again.is_ok(), "round {round}: {again:?}");
        }
        assert_free::<X>(&pair);
    }
}

fn on_a_plain_thread<X: Excluding>() {
    let pair = Pair::new();
    let (here, _) = pair.locks::<X>();
    for round in 0..ROUNDS {
        drop(here.blocking_take().unwrap());
        let again = futures::executor::block_on(here.try_take());
        assert!(again.is_ok(), "round {round}: {again:?}");
    }
    assert_free::<X>(&pair);
}

fn on_many_plain_threads_each_with_a_lock_of_its_own<X: Excluding>() {
    let pair = Pair::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let lock = X::named(&pair.here, &format!("thread {thread}"));
            scope.spawn(move || futures::executor::block_on(rounds(&lock, ROUNDS / 4)));
        }
    });
    assert_free::<X>(&pair);
}
