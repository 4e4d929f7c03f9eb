//! How often this process allocates when it locks and releases a lock over a Redis server.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::alloc::System;

use lock_redis::RedisBackend;
use lock_sync::{Locks, Mutex, MutexGuard};
use lock_tests::RedisServer;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// For the lock and its release together.
const MOST: usize = 20;
/// The pairs before counting begins: in them, buffers grow.
const WARM_UP: usize = 200;
const ROUNDS: usize = 20;
/// In each round. Some buffers are allocated once for many requests.
const PAIRS: usize = 50;

async fn pairs(mutex: &Mutex<()>, count: usize) {
    for _ in 0..count {
        MutexGuard::release(mutex.lock().await.unwrap()).await.unwrap();
    }
}

/// The allocations of a pair in the cheapest round, rounded up. Other work of this process disturbs single rounds.
fn fewest(runtime: &Runtime, url: String) -> usize {
    runtime.block_on(async {
        let locks = Locks::new(RedisBackend::open(url).unwrap());
        let mutex = locks.mutex("it", ()).unwrap();
        pairs(&mutex, WARM_UP).await;
        let mut fewest = usize::MAX;
        for _ in 0..ROUNDS {
            let region = Region::new(HEAP);
            pairs(&mutex, PAIRS).await;
            let change = region.change();
            fewest = fewest.min(change.allocations + change.reallocations);
        }
        fewest.div_ceil(PAIRS)
    })
}

/// One test for both runtimes: two tests at once would count each other's allocations.
#[test]
fn a_lock_and_its_release_without_contention_allocate_twenty_times_at_most() {
    let server = RedisServer::start();
    let one = Builder::new_current_thread().enable_all().build().unwrap();
    let two = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let [one, two] = [one, two].map(|runtime| fewest(&runtime, server.url()));
    println!("a lock and its release allocate {one} times on one thread, and {two} times on two");
    assert!(
        one.max(two) <= MOST,
        "a lock and its release allocate {one} times on one thread and {two} times on two, and not {MOST} at most"
    );
}
