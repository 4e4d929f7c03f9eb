//! Permits that several processes share.

use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks, Semaphore, TryAcquireError};
use lock_tests::{RedisServer, Worker, eventually_async, lock_worker};

use crate::support::{AT_ONCE, Mixers, Pair, SOON, TTL, line_up, options, soon, workers};

fn semaphore(locks: &Locks<RedisBackend>, permits: usize) -> Semaphore {
    locks.semaphore("it", permits).unwrap()
}

/// Two handles of one semaphore, in two clients.
fn semaphores(pair: &Pair, permits: usize) -> (Semaphore, Semaphore) {
    (semaphore(&pair.here, permits), semaphore(&pair.there, permits))
}

fn worker(pair: &Pair) -> Worker {
    Worker::spawn(lock_worker!(), &pair.server.url())
}

#[test]
fn requests_for_one_permit_do_not_starve_a_request_for_many() {
    for fair in [true, false] {
        let server = RedisServer::start();
        let small = (0..3).map(|_| options(TTL).fair(fair).spawn(&server.url())).collect();
        let [large] = workers(&server, TTL);
        let mixers = Mixers::start(small, 3, "permits 1 4");
        for _ in 0..10 {
            large.send("lock it permits 4 4");
            large.locked("it", AT_ONCE);
            large.unlock("it");
            mixers.goes_on(SOON);
        }
        mixers.until_all_are_held(4);
        mixers.rest().assert_permits(4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_permits_serve_waiters_of_other_processes() {
    let pair = Pair::new();
    let (here, _) = semaphores(&pair, 2);
    let other = worker(&pair);
    let _held = soon(here.acquire_many(2)).await.unwrap();
    line_up(&pair.server, &[&other], "lock it permits 2 2");
    soon(here.add_permits(1)).await.unwrap();
    assert!(other.poll("locked").is_none(), "there is but one");
    soon(here.add_permits(1)).await.unwrap();
    other.locked("it", AT_ONCE);
    // More permits than are free, and more than were declared.
    other.send("lock it#2 permits 3 2");
    soon(here.add_permits(3)).await.unwrap();
    other.locked("it#2", AT_ONCE);
    assert_eq!(soon(here.try_acquire()).await.err(), Some(TryAcquireError::NoPermits));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_all_declared_permits_queues_for_added_ones() {
    let pair = Pair::new();
    let (here, _) = semaphores(&pair, 2);
    let [first, second] = [worker(&pair), worker(&pair)];
    soon(here.add_permits(1)).await.unwrap();
    first.lock("it permits 2 2");
    let held = soon(here.acquire()).await.unwrap();
    line_up(&pair.server, &[&first], "lock it#2 permits 1 2");
    line_up(&pair.server, &[&second], "lock it permits 1 2");
    soon(held.release()).await.unwrap();
    first.locked("it#2", AT_ONCE);
    assert!(second.poll("locked").is_none(), "a fourth permit");
    first.unlock("it");
    second.locked("it", AT_ONCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_are_taken_out_are_gone_for_all_clients() {
    let pair = Pair::with(|redis| redis, |locks| locks.handoff(Handoff::Fair));
    let (here, there) = semaphores(&pair, 5);
    let other = worker(&pair);
    // Some of the free permits.
    other.lock("it permits 1 5");
    assert_eq!(soon(here.forget_permits(2)).await.unwrap(), 2);
    assert_eq!(soon(there.available_permits()).await.unwrap(), 2);
    assert_eq!(other.try_lock("it#2 permits 3 5"), None);
    // Then some of the held ones.
    soon(here.acquire()).await.unwrap().forget();
    let gone = async || soon(there.available_permits()).await.unwrap() == 1;
    eventually_async("it is forgotten", SOON, gone).await;
    // The forgotten permit is free for no moment.
    other.unlock("it");
    drop(soon(there.try_acquire_many(2)).await.unwrap());
    assert_eq!(soon(there.try_acquire_many(3)).await.err(), Some(TryAcquireError::NoPermits));
    assert_eq!(soon(here.forget_permits(10)).await.unwrap(), 2);
    assert_eq!(other.try_lock("it permits 1 5"), None);
}
