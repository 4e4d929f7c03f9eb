//! A once cell over a store that fails, or that sends no hints.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{OnceCell, OnceCellError, SetError};
use tokio::time::{Instant, sleep};

use crate::once_cell::{TTL, short};
use crate::support::{Pair, poll_once};

#[tokio::test]
async fn setting_gives_the_value_back_if_the_store_fails() {
    let pair = Pair::threaded();
    let (here, _) = pair.cells();
    pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::Denied);
    let error = here.set(2).await.unwrap_err();
    assert!(matches!(&error, SetError::Failed(2, OnceCellError::Backend(_))), "{error:?}");
    pair.ours.faults().heal();
    pair.ours.faults().on(Verb::Cell).fail(ErrorKind::Denied);
    let error = here.set(2).await.unwrap_err();
    assert!(matches!(&error, SetError::Failed(2, OnceCellError::Backend(_))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn hints_that_never_come_cost_time_but_nothing_else() {
    let pair = short();
    let (here, there) = pair.cells();
    pair.ours.faults().mute_hints(true);
    let mut waiting = Box::pin(here.wait());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    there.set(1).await.unwrap();
    let begin = Instant::now();
    assert_eq!(*waiting.await.unwrap(), 1);
    assert!(begin.elapsed() <= TTL / 3 + Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_store_without_hints_is_asked_by_the_clock() {
    let pair = short();
    let (here, there) = pair.cells();
    pair.ours.faults().on(Verb::Watch).fail(ErrorKind::Unsupported);
    let mut waiting = Box::pin(here.wait());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    tokio::select! {
        _ = &mut waiting => panic!("there is nothing"),
        () = sleep(TTL * 10) => {}
    }
    let stats = pair.ours.stats();
    assert_eq!(stats.watches, 1);
    assert!(stats.cells <= 32, "no polling: {} requests in ten leases", stats.cells);
    there.set(1).await.unwrap();
    assert_eq!(*waiting.await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_cut_is_put_in_place_again() {
    let pair = short();
    let (here, there) = pair.cells();
    let mut waiting = Box::pin(here.wait());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.ours.faults().cut();
    let cut = sleep(TTL / 2);
    tokio::select! {
        _ = &mut waiting => panic!("there is nothing"),
        () = cut => pair.ours.faults().heal(),
    }
    tokio::select! {
        _ = &mut waiting => panic!("there is nothing"),
        () = sleep(TTL) => {}
    }
    there.set(1).await.unwrap();
    let begin = Instant::now();
    assert_eq!(*waiting.await.unwrap(), 1);
    assert!(begin.elapsed() < TTL / 10, "woken by the new watch");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_put_up_with_for_a_lease() {
    let pair = short();
    let (here, there) = pair.cells();
    pair.ours.faults().on(Verb::Cell).lose_replies(2);
    assert_eq!(*here.get_or_init(async || 1).await.unwrap(), 1);
    pair.ours.faults().cut();
    let fresh: OnceCell<u32> = pair.here.once_cell("cell").unwrap();
    let begin = Instant::now();
    assert!(matches!(fresh.load().await, Err(OnceCellError::Backend(e)) if e.is_retryable()));
    assert!(begin.elapsed() >= TTL && begin.elapsed() < TTL * 2);
    assert!(matches!(fresh.get_or_init(async || 2).await, Err(OnceCellError::Backend(_))));
    assert!(matches!(fresh.wait().await, Err(OnceCellError::Backend(_))));
    pair.ours.faults().heal();
    assert_eq!(*fresh.get_or_init(async || 2).await.unwrap(), 1);
    assert_eq!(*there.get_or_init(async || 2).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_gone_before_the_value_is_there_ends_with_the_lease() {
    let pair = short();
    let (here, there) = pair.cells();
    let attempt = here.get_or_init(async || {
        pair.ours.faults().cut();
        1
    });
    assert!(matches!(attempt.await, Err(OnceCellError::Lost(_) | OnceCellError::Backend(_))));
    assert_eq!(*there.get_or_init(async || 2).await.unwrap(), 2);
    pair.ours.faults().heal();
    assert_eq!(*here.get_or_init(async || 3).await.unwrap(), 2);
}
