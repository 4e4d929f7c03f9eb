//! A wait for several locks that is dropped gives back everything.

use std::time::Duration;

use lock_core::memory::Verb;

use crate::support::{Pair, dropped_after, poll_once};

#[tokio::test]
async fn dropped_before_the_request_is_applied() {
    let pair = Pair::threaded();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let mut waiting = Box::pin(pair.here.lock_all(["a", "b"]));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    gate.arrived(1).await;
    drop(waiting);
    pair.ours.faults().heal();
    let limit = Duration::from_secs(10);
    drop(pair.there.lock_all_timeout(["a", "b"], limit).await.unwrap());
    pair.all_released().await;
}

#[tokio::test]
async fn dropped_while_the_grant_is_under_way() {
    let pair = Pair::threaded();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_replies();
    let mut waiting = Box::pin(pair.here.lock_all(["a", "b"]));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    gate.arrived(1).await;
    assert_eq!(pair.store.live_leases(), 2, "granted, but the waiter does not know yet");
    drop(waiting);
    pair.ours.faults().heal();
    pair.all_released().await;
}

/// Drops the future after its k-th poll, for every k, while another client comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    for round in 0..1_000_u32 {
        let name = ["a", "b", "c"][round as usize % 3];
        let there = pair.there.mutex(name, ()).unwrap();
        let held = if round % 4 == 0 { None } else { Some(there.lock().await.unwrap()) };
        let waiting = Box::pin(pair.here.lock_all(["a", "b", "c"]));
        dropped_after(waiting, round % 7, held, 3).await;
    }
    pair.all_released().await;
    let limit = Duration::from_secs(10);
    assert!(pair.there.lock_all_timeout(["a", "b", "c"], limit).await.is_ok());
}
