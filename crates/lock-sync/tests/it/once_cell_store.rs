//! A once cell over a store that fails, or that sends no hints.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{LockError, OnceCell, OnceCellError, SetError};
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

/// `set` finds a stored value, even while another task of the cell loads this value.
#[tokio::test]
async fn setting_finds_a_value_that_another_task_is_loading() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    there.set(1).await.unwrap();
    let cells = pair.ours.faults().on(Verb::Cell);
    let held = cells.hold_requests();
    let mut loading = Box::pin(here.get_or_init(async || 2));
    tokio::select! {
        _ = &mut loading => panic!("the store has not answered"),
        () = held.arrived(1) => {}
    }
    // Later requests pass.
    drop(cells.hold_requests());
    assert!(here.set(3).await.unwrap_err().is_already_init_err());
    drop(held);
    assert_eq!(*loading.await.unwrap(), 1);
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
    assert!(matches!(attempt.await, Err(OnceCellError::Unknown(_))));
    assert_eq!(*there.get_or_init(async || 2).await.unwrap(), 2);
    pair.ours.faults().heal();
    assert_eq!(*here.get_or_init(async || 3).await.unwrap(), 2);
}

/// The store carries a write out, and its reply is lost.
#[tokio::test(start_paused = true)]
async fn without_an_answer_the_outcome_is_unknown() {
    let pair = short();
    let (mut here, there) = pair.cells();
    let replies = pair.ours.faults().on(Verb::Cell).hold_replies();
    // The first request loads the value, and the second writes it.
    replies.let_through(1);
    let mut setting = Box::pin(here.set(1));
    tokio::select! {
        _ = setting.as_mut() => panic!("the reply is held"),
        () = replies.arrived(2) => pair.ours.faults().cut(),
    }
    replies.open();
    let error = setting.await.unwrap_err();
    assert_eq!(error.to_string(), "it is unknown whether the value was set");
    let SetError::Failed(1, error @ OnceCellError::Unknown(_)) = error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), "it is unknown whether the value was stored or erased");
    assert!(matches!(LockError::from(error), LockError::Backend(e) if e.is_retryable()));
    assert_eq!(here.get(), None);
    assert_eq!(there.load().await.unwrap(), Some(&1), "it is stored");

    pair.ours.faults().heal();
    assert_eq!(here.load().await.unwrap(), Some(&1));
    let replies = pair.ours.faults().on(Verb::Cell).hold_replies();
    let mut erasing = Box::pin(here.reset());
    tokio::select! {
        _ = erasing.as_mut() => panic!("the reply is held"),
        () = replies.arrived(1) => pair.ours.faults().cut(),
    }
    replies.open();
    assert!(matches!(erasing.await, Err(OnceCellError::Unknown(_))));
    assert_eq!(here.get(), Some(&1), "the erasure is not confirmed");
    let fresh: OnceCell<u32> = pair.there.once_cell("cell").unwrap();
    assert_eq!(fresh.load().await.unwrap(), None, "it is erased");
}

/// The store carries the first write out, and refuses the second.
#[tokio::test(start_paused = true)]
async fn an_attempt_whose_outcome_is_unknown_looks_for_the_value() {
    let pair = short();
    let (here, _there) = pair.cells();
    let cells = pair.ours.faults().on(Verb::Cell);
    let requests = cells.hold_requests();
    // Two requests load the value, and the third writes it.
    requests.let_through(2);
    let mut attempt = Box::pin(here.get_or_init(async || {
        cells.lose_replies(1);
        1
    }));
    tokio::select! {
        _ = attempt.as_mut() => panic!("the request is held"),
        () = requests.arrived(3) => cells.fail_next(1, ErrorKind::Denied),
    }
    requests.open();
    assert_eq!(*attempt.await.unwrap(), 1);
}
