//! The order in which requests get permits, and the closed semaphore.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use lock_core::memory::Verb;
use lock_sync::{AcquireError, TryAcquireError};

use crate::semaphore::becomes_available;
use crate::support::{Pair, poll_once};

#[tokio::test]
async fn tasks_are_served_in_the_order_in_which_they_came() {
    let pair = Pair::local();
    let (here, _) = pair.semaphores(2);
    let held = here.acquire_many(2).await.unwrap();
    let served = Mutex::new(Vec::new());
    let mut waiting: Vec<_> = (0..20)
        .map(|n| {
            let (here, served) = (&here, &served);
            Box::pin(async move {
                let _permit = here.acquire_many(1 + n % 2).await.unwrap();
                served.lock().unwrap().push(n);
            })
        })
        .collect();
    for waiter in &mut waiting {
        assert!(poll_once(waiter.as_mut()).await.is_pending());
    }
    drop(held);
    join_all(waiting).await;
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
    pair.all_released().await;
}

#[tokio::test]
async fn a_large_request_is_not_starved_in_the_process() {
    let pair = Pair::threaded();
    let (here, _) = pair.semaphores(3);
    let (one, two) = (here.acquire().await.unwrap(), here.acquire().await.unwrap());
    let mut large = Box::pin(here.acquire_many(3));
    assert!(poll_once(large.as_mut()).await.is_pending());
    // There is a permit for this request, but another request came before.
    assert_eq!(here.try_acquire().await.err(), Some(TryAcquireError::NoPermits));
    let mut small = Box::pin(here.acquire());
    assert!(poll_once(small.as_mut()).await.is_pending());
    drop(one);
    let limit = Duration::from_millis(50);
    assert!(tokio::time::timeout(limit, small.as_mut()).await.is_err());
    assert!(poll_once(large.as_mut()).await.is_pending());
    drop(two);
    let large = large.await.unwrap();
    assert_eq!(large.num_permits(), 3);
    assert!(poll_once(small.as_mut()).await.is_pending());
    drop(large);
    assert!(small.await.is_ok());
}

#[tokio::test]
async fn a_request_that_times_out_lets_the_next_pass() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(2);
    let _held = there.acquire().await.unwrap();
    let limit = Duration::from_millis(50);
    let (large, small) = tokio::join!(
        here.acquire_many_timeout(2, limit),
        here.acquire_timeout(Duration::from_secs(10)),
    );
    assert_eq!(large.err(), Some(AcquireError::Timeout { source: None }));
    assert!(small.unwrap().lease().is_valid());
}

#[tokio::test]
async fn closing_a_handle_closes_no_other_handle() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(1);
    let (closing, beside) = (Arc::new(here), pair.semaphores(1).0);
    let held = closing.acquire().await.unwrap();
    let mut parked = tokio::spawn(Arc::clone(&closing).acquire_owned());
    let mut unpolled = Box::pin(closing.acquire());
    let (mut beside_waits, mut there_waits) =
        (Box::pin(beside.acquire()), Box::pin(there.acquire()));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut parked).await.is_err());
    assert!(poll_once(beside_waits.as_mut()).await.is_pending());
    assert!(poll_once(there_waits.as_mut()).await.is_pending());

    closing.close();
    assert!(closing.is_closed() && !beside.is_closed() && !there.is_closed());
    assert_eq!(parked.await.unwrap().err(), Some(AcquireError::Closed));
    assert_eq!(unpolled.as_mut().await.err(), Some(AcquireError::Closed));
    assert_eq!(closing.acquire().await.err(), Some(AcquireError::Closed));
    assert_eq!(closing.try_acquire().await.err(), Some(TryAcquireError::Closed));
    assert!(!closing.is_closed_for_all().await.unwrap());
    assert!(held.lease().is_valid(), "what is held stays");
    held.release().await.unwrap();
    let limit = Duration::from_secs(10);
    drop(tokio::time::timeout(limit, beside_waits).await.unwrap().unwrap());
    drop(tokio::time::timeout(limit, there_waits).await.unwrap().unwrap());
    // As tokio's, it can still be given permits.
    closing.add_permits(1).await.unwrap();
    becomes_available(&there, 2).await;
}

/// A caller that begins to wait while the handle is being closed must not miss this.
#[test]
fn closing_at_the_instant_of_waiting_is_heard() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(1);
    let _held = there.blocking_acquire().unwrap();
    for round in 0..1_000_u32 {
        let closing = pair.here.semaphore("permits", 1).unwrap();
        let begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                for _ in 0..round {
                    std::hint::spin_loop();
                }
                closing.close();
            });
            begun.store(true, Ordering::Release);
            // It would wait for ever.
            assert_eq!(closing.blocking_acquire().err(), Some(AcquireError::Closed));
        });
    }
    assert!(!here.is_closed());
}

#[tokio::test]
async fn closing_comes_before_a_grant_that_was_not_picked_up() {
    let pair = Pair::threaded();
    let (here, _) = pair.semaphores(1);
    let beside = pair.semaphores(1).0;
    let held = here.acquire().await.unwrap();
    let mut waiting = Box::pin(here.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    drop(held);
    here.close();
    assert_eq!(waiting.await.err(), Some(AcquireError::Closed));
    assert!(beside.acquire().await.is_ok(), "the permit was passed on");
}

#[tokio::test]
async fn a_shutdown_closes_it() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(1);
    let _held = there.acquire().await.unwrap();
    let mut waiting = Box::pin(here.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert_eq!(waiting.await.err(), Some(AcquireError::Closed));
    assert!(here.is_closed());
    assert_eq!(here.try_acquire().await.err(), Some(TryAcquireError::Closed));
}

#[tokio::test]
async fn a_shutdown_waits_for_questions_under_way() {
    let pair = Pair::threaded();
    let (here, _) = pair.semaphores(3);
    let gate = pair.ours.faults().on(Verb::Count).hold_replies();
    let mut asking = Box::pin(here.add_permits(1));
    assert!(poll_once(asking.as_mut()).await.is_pending());
    let mut ending = Box::pin(pair.here.shutdown());
    let limit = Duration::from_millis(30);
    assert!(tokio::time::timeout(limit, ending.as_mut()).await.is_err());
    gate.open();
    asking.await.unwrap();
    ending.await;
}

#[tokio::test]
async fn a_shutdown_waits_until_what_is_forgotten_is_gone() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(3);
    here.acquire_many(2).await.unwrap().forget();
    pair.here.shutdown().await;
    assert_eq!(there.available_permits().await.unwrap(), 1);
    assert_eq!(pair.store.live_leases(), 0);
}

/// Drops the future after its k-th poll, for every k, while another client comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(3);
    let here = Arc::new(here);
    for round in 0..1_000_u32 {
        let mut held = match round % 3 {
            0 => None,
            take => Some(there.acquire_many(take).await.unwrap()),
        };
        let mut waiting = Box::pin(here.acquire_many(1 + round % 3));
        let mut behind = Box::pin(Arc::clone(&here).acquire_owned());
        for poll in 0..=round % 5 {
            if poll == 1 {
                drop(held.take());
            }
            if poll_once(waiting.as_mut()).await.is_ready() {
                break;
            }
            if poll % 2 == 1 && poll_once(behind.as_mut()).await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(waiting);
        drop(behind);
        drop(held);
    }
    pair.all_released().await;
    let all = tokio::time::timeout(Duration::from_secs(10), there.acquire_many(3)).await;
    all.unwrap().unwrap().release().await.unwrap();
    assert_eq!(here.available_permits().await.unwrap(), 3);
}

#[tokio::test]
async fn dropped_while_the_grant_is_under_way() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(2);
    let _gate = pair.ours.faults().on(Verb::Acquire).hold_replies();
    let mut waiting = Box::pin(here.acquire_many(2));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert_eq!(pair.store.live_leases(), 1, "granted, but the waiter does not know yet");
    drop(waiting);
    pair.ours.faults().heal();
    let limit = Duration::from_secs(10);
    there.acquire_many_timeout(2, limit).await.unwrap().release().await.unwrap();
}
