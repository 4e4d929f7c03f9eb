//! Futures that are dropped, at every possible point.

use std::time::Duration;

use lock_core::Backend;
use lock_core::memory::Verb;

use lock_sync::{Mutex, MutexGuard};

use crate::support::{Pair, dropped_after, eventually, poll_once};

/// Waits until another client gets the lock: far sooner than a lease would end.
async fn free_again(there: &Mutex<u32>) {
    let limit = Duration::from_secs(10);
    MutexGuard::release(there.lock_timeout(limit).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn dropped_before_the_request_is_applied() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    drop(waiting);
    drop(gate);
    pair.ours.faults().heal();
    // The store may execute the request only now. The grant is then released.
    free_again(&there).await;
}

#[tokio::test]
async fn dropped_while_the_grant_is_under_way() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let _gate = pair.ours.faults().on(Verb::Acquire).hold_replies();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert_eq!(pair.store.live_leases(), 1, "granted, but the waiter does not know yet");
    drop(waiting);
    pair.ours.faults().heal();
    free_again(&there).await;
}

/// The request may have failed because its runtime shut down.
#[tokio::test]
async fn a_try_does_not_inherit_the_error_of_a_request_whose_task_is_gone() {
    let pair = Pair::local();
    let (here, _) = pair.mutexes();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_replies();
    pair.ours.faults().on(Verb::Acquire).lose_replies(1);
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    drop(waiting);
    let mut trying = Box::pin(here.try_lock());
    assert!(poll_once(trying.as_mut()).await.is_pending());
    gate.open();
    assert!(trying.await.is_ok());
    pair.all_released().await;
}

#[tokio::test]
async fn the_next_waiter_inherits_a_request_under_way() {
    let pair = Pair::threaded();
    let (here, _) = pair.mutexes();
    let _gate = pair.ours.faults().on(Verb::Acquire).hold_replies();
    let mut first = Box::pin(here.lock());
    let mut second = Box::pin(here.lock());
    assert!(poll_once(first.as_mut()).await.is_pending());
    assert!(poll_once(second.as_mut()).await.is_pending());
    drop(first);
    pair.ours.faults().heal();
    assert!(second.await.is_ok());
    // The driver asks once more if the answer takes long, but never for another owner.
    assert!(pair.ours.stats().acquires <= 2);
    pair.all_released().await;
}

#[tokio::test]
async fn dropped_after_a_hand_off_that_was_not_picked_up() {
    let pair = Pair::threaded();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let mut first = Box::pin(here.lock());
    let mut second = Box::pin(here.lock());
    assert!(poll_once(first.as_mut()).await.is_pending());
    assert!(poll_once(second.as_mut()).await.is_pending());
    drop(guard);
    // The first waiter now has the lock, but is never polled.
    drop(first);
    assert!(second.await.is_ok());
    pair.all_released().await;
}

#[tokio::test]
async fn dropped_while_waiting_for_another_process() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let held = there.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    eventually("it listens", || pair.ours.stats().watches == 1).await;
    drop(waiting);
    MutexGuard::release(held).await.unwrap();
    free_again(&there).await;
    // The request that followed the watch may have been under way. After it, no request is sent.
    let begin = std::time::Instant::now();
    loop {
        let asked = pair.ours.stats().acquires;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if pair.ours.stats().acquires == asked {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "it goes on asking");
    }
}

#[tokio::test]
async fn a_release_goes_on_without_its_future() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let _gate = pair.ours.faults().on(Verb::Release).hold_requests();
    let mut releasing = Box::pin(MutexGuard::release(guard));
    assert!(poll_once(releasing.as_mut()).await.is_pending());
    drop(releasing);
    assert_eq!(pair.store.live_leases(), 1);
    pair.ours.faults().heal();
    free_again(&there).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_does_not_block_the_key() {
    let ttl = Duration::from_secs(3);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, _) = pair.mutexes();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let mut first = Box::pin(here.lock());
    let mut second = Box::pin(here.lock_timeout(ttl * 2));
    assert!(poll_once(first.as_mut()).await.is_pending());
    assert!(poll_once(second.as_mut()).await.is_pending());
    drop(first);
    tokio::time::sleep(ttl / 2).await;
    // Later requests get through. The one that went to the driver stays where it is.
    pair.ours.faults().on(Verb::Acquire).hold_requests().open();
    let begin = tokio::time::Instant::now();
    assert!(MutexGuard::lease(&second.await.unwrap()).is_valid());
    assert!(begin.elapsed() <= ttl, "it was given up after one lease");
    drop(gate);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_its_request_was_repeated_is_undone() {
    let ttl = Duration::from_secs(3);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, there) = pair.mutexes();
    // The first request is stuck on its way: its runtime is blocked, say.
    let stuck = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.ours.faults().on(Verb::Acquire).hold_requests().open();
    drop(waiting);
    // The driver repeats it, gets the grant and releases it.
    tokio::time::sleep(ttl / 10).await;
    assert_eq!((pair.ours.stats().acquires, pair.ours.stats().releases), (2, 1));
    assert_eq!(pair.store.live_leases(), 0);
    // Only now does the first request arrive, and the store grants it.
    stuck.open();
    tokio::time::sleep(ttl / 10).await;
    assert_eq!(pair.store.live_leases(), 0);
    assert!(there.try_lock().await.is_ok());
}

/// How many claims wait for the lock.
async fn waiting(pair: &Pair) -> u64 {
    pair.there.inspect("it").await.unwrap().waiting
}

#[tokio::test(start_paused = true)]
async fn a_place_that_arrives_after_its_request_was_repeated_is_given_up() {
    let pair = Pair::local();
    let (here, there) = pair.mutexes();
    let _held = there.lock().await.unwrap();
    let _hears = pair.ours.watch(here.key()).await.unwrap();
    let stuck = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let mut leaving = Box::pin(here.lock());
    assert!(poll_once(leaving.as_mut()).await.is_pending());
    pair.ours.faults().on(Verb::Acquire).hold_requests().open();
    drop(leaving);
    // The driver repeats the request, gets a place, and gives the place up.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((pair.ours.stats().acquires, pair.ours.stats().releases), (2, 1));
    assert_eq!(waiting(&pair).await, 0);
    // Now the first request arrives and gets a place.
    stuck.open();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(waiting(&pair).await, 0);
    assert_eq!(pair.ours.stats().releases, 2);
}

/// A client that hears nothing gets no place. So the second answer does not show that the first request has a place.
#[tokio::test(start_paused = true)]
async fn a_place_is_given_up_although_the_repeated_request_got_none() {
    let pair = Pair::local();
    let (here, there) = pair.mutexes();
    let _held = there.lock().await.unwrap();
    let hears = pair.ours.watch(here.key()).await.unwrap();
    let _deaf = pair.ours.faults().on(Verb::Watch).hold_requests();
    let stuck = pair.ours.faults().on(Verb::Acquire).hold_replies();
    let mut leaving = Box::pin(here.lock());
    assert!(poll_once(leaving.as_mut()).await.is_pending());
    assert_eq!(waiting(&pair).await, 1, "it has a place, and does not know yet");
    pair.ours.faults().on(Verb::Acquire).hold_replies().open();
    drop((leaving, hears));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(pair.ours.stats().acquires, 2);
    assert_eq!(waiting(&pair).await, 0);
    drop(stuck);
}

/// Drops the future after its k-th poll, for every k, while another client comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    for round in 0..2_000_u32 {
        let contended = round % 3 == 0;
        let held = if contended { Some(there.lock().await.unwrap()) } else { None };
        let waiting = Box::pin(here.lock());
        dropped_after(waiting, round % 5, held, 1).await;
    }
    pair.all_released().await;
    let guard = tokio::time::timeout(Duration::from_secs(10), there.lock()).await;
    assert!(guard.unwrap().is_ok());
}

/// The limit is reached at the instant of the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_at_the_instant_of_the_grant() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let (mut won, mut lost) = (0, 0);
    for round in 0..1_000_u64 {
        let held = there.lock().await.unwrap();
        let limit = Duration::from_micros(20 + round % 100 * 20);
        let release = async {
            tokio::time::sleep(Duration::from_micros(200)).await;
            drop(held);
        };
        let (locked, ()) = tokio::join!(tokio::time::timeout(limit, here.lock()), release);
        match locked {
            Ok(guard) => {
                won += 1;
                drop(guard.unwrap());
            }
            Err(_) => lost += 1,
        }
    }
    assert!(won > 0 && lost > 0, "both must have happened: {won} and {lost}");
    pair.all_released().await;
}
