//! Permits that are locks, at the limits of a wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{ErrorKind, Key};
use lock_sync::{AcquireError, SlotSemaphore};
use tokio::time::timeout;

use crate::slots::{TTL, all, in_time, over};
use crate::support::{Basic, Pair};

#[tokio::test(start_paused = true)]
async fn an_outage_may_last_for_ever() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).outage_limit(Duration::MAX));
    let (here, there) = pair.slots(2);
    let held = all(&there).await;
    let mut waiting = Box::pin(here.acquire());
    assert!(timeout(TTL, waiting.as_mut()).await.is_err());
    pair.ours.faults().cut();
    assert!(timeout(TTL * 100, waiting.as_mut()).await.is_err());
    pair.ours.faults().heal();
    drop(held);
    assert!(in_time(waiting).await.unwrap().lease().is_valid());
}

/// Also with a slot that the store refuses for ever: the wait for it begins again in the far future.
#[tokio::test(start_paused = true)]
async fn a_refused_slot_does_not_end_a_wait_that_bears_every_outage() {
    let refuses = |key: &Key| key.as_bytes().ends_with(b"#1").then_some(ErrorKind::ForeignKey);
    let semaphore = over(Basic::without(MemoryBackend::new(), refuses));
    let semaphore = semaphore.with_outage_limit(Duration::MAX);
    let first = semaphore.acquire().await.unwrap();
    let _second = semaphore.acquire().await.unwrap();
    let mut third = Box::pin(semaphore.acquire());
    assert!(timeout(TTL * 100, third.as_mut()).await.is_err());
    drop(first);
    assert!(in_time(third).await.unwrap().lease().is_valid());
}

/// Three slots that another process has, and this process: the store refuses it the second slot while this says so.
async fn taken(is_refused: fn(&Key) -> Option<ErrorKind>) -> (SlotSemaphore, SlotSemaphore) {
    let store = MemoryBackend::new();
    let theirs = over(Basic::over(store.client()));
    all(&theirs).await.into_iter().for_each(std::mem::forget);
    (theirs, over(Basic::without(store.client(), is_refused)))
}

fn is_second(key: &Key) -> bool {
    key.as_bytes().ends_with(b"#1")
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_reached_although_the_store_refuses_a_slot() {
    let refuses = |key: &Key| is_second(key).then_some(ErrorKind::ForeignKey);
    let (_theirs, ours) = taken(refuses).await;
    // The wait for the refused slot fails once, or again and again.
    for limit in [TTL / 2, TTL * 5] {
        match ours.acquire_timeout(limit).await {
            Err(AcquireError::Timeout { source: Some(error) }) => {
                assert_eq!(error.kind(), ErrorKind::ForeignKey);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_answers_again_is_held_like_the_others() {
    static IS_BACK: AtomicBool = AtomicBool::new(false);
    let refuses = |key: &Key| {
        let is_out = is_second(key) && !IS_BACK.load(Ordering::Relaxed);
        is_out.then_some(ErrorKind::ForeignKey)
    };
    let (_theirs, ours) = taken(refuses).await;
    let mut waiting = Box::pin(ours.acquire_timeout(TTL * 5));
    assert!(timeout(TTL / 2, waiting.as_mut()).await.is_err());
    IS_BACK.store(true, Ordering::Relaxed);
    assert_eq!(waiting.await.err(), Some(AcquireError::Timeout { source: None }));
}
