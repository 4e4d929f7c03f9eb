//! A process sees what it did itself: its queries come after its own releases.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{AcquireError, Semaphore, TryAcquireError};
use tokio::time::Instant;

use crate::support::{Pair, poll_once};

/// The delay with which requests reach the store.
const WAY: Duration = Duration::from_millis(50);
/// A query waits no longer than this for a release.
const PATIENCE: Duration = Duration::from_secs(1);

/// Three permits, whose releases reach the store late.
fn three(pair: &Pair) -> Semaphore {
    pair.ours.faults().on(Verb::Release).delay_requests(WAY);
    pair.here.semaphore("permits", 3).unwrap()
}

async fn available(semaphore: &Semaphore) -> usize {
    semaphore.available_permits().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_was_dropped_is_available() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    let permit = semaphore.acquire().await.unwrap();
    assert_eq!(available(&semaphore).await, 2);
    drop(permit);
    assert_eq!(available(&semaphore).await, 3);
}

#[tokio::test(start_paused = true)]
async fn permits_that_were_merged_and_dropped_are_available() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    let mut permit = semaphore.acquire().await.unwrap();
    permit.merge(semaphore.acquire().await.unwrap());
    drop(permit);
    assert_eq!(available(&semaphore).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_was_dropped_is_available() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    let mut permit = semaphore.acquire_many(3).await.unwrap();
    let part = permit.split(2).unwrap();
    pair.ours.faults().on(Verb::Acquire).delay_requests(WAY);
    drop(part);
    assert_eq!(available(&semaphore).await, 2);
    // While one part is on its way back, another one follows.
    let part = semaphore.acquire().await.unwrap();
    drop(part);
    assert!(!semaphore.is_closed_for_all().await.unwrap());
    assert_eq!(available(&semaphore).await, 2);
}

#[tokio::test(start_paused = true)]
async fn permits_that_were_forgotten_are_gone() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    semaphore.acquire_many(2).await.unwrap().forget();
    assert_eq!(pair.here.inspect("permits").await.unwrap().holding, 0);
    assert_eq!(available(&semaphore).await, 1);
}

#[tokio::test(start_paused = true)]
async fn permits_that_were_dropped_can_be_forgotten() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    drop(semaphore.acquire_many(2).await.unwrap());
    assert_eq!(semaphore.forget_permits(3).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_future_was_granted_is_available() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    pair.ours.faults().on(Verb::Acquire).delay_replies(WAY);
    let mut waiting = Box::pin(semaphore.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert_eq!(pair.store.live_leases(), 1, "granted, but the waiter has no answer");
    drop(waiting);
    assert_eq!(available(&semaphore).await, 3);
}

#[tokio::test(start_paused = true)]
async fn an_inspection_shows_no_guard_that_was_dropped() {
    let pair = Pair::local();
    pair.ours.faults().on(Verb::Release).delay_requests(WAY);
    let (here, _) = pair.mutexes();
    drop(here.lock().await.unwrap());
    assert_eq!(pair.here.inspect("it").await.unwrap().holding, 0);
    drop(here.lock().await.unwrap());
    assert_eq!(pair.here.force_release("it").await.unwrap(), 0);
    let lock = pair.here.rwlock("shared", ()).unwrap();
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    drop((one, two));
    assert_eq!(pair.here.inspect("shared").await.unwrap().holding, 0);
}

/// The lease of the first handle is on its way back, or about to be.
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_handle_that_was_dropped_can_be_had_at_once() {
    let pair = Pair::local();
    pair.ours.faults().on(Verb::Release).delay_requests(WAY);
    let cached = || pair.here.mutex("it", ()).unwrap().with_cache(PATIENCE);
    for is_sent in [false, true] {
        drop(cached().lock().await.unwrap());
        if is_sent {
            tokio::time::sleep(WAY / 2).await;
        }
        drop(cached().try_lock().await.unwrap());
        // The driver learns that no handle is left.
        tokio::time::sleep(WAY / 50).await;
        assert_eq!(pair.here.inspect("it").await.unwrap().holding, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_resigned_leads_no_more() {
    let pair = Pair::local();
    pair.ours.faults().on(Verb::Release).delay_requests(WAY);
    let election = pair.here.election("it").unwrap();
    drop(election.campaign("me").await.unwrap());
    assert_eq!(election.leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_holds_a_query_up_for_a_moment() {
    let pair = Pair::local();
    let semaphore = pair.here.semaphore("permits", 3).unwrap();
    let gate = pair.ours.faults().on(Verb::Release).hold_requests();
    drop(semaphore.acquire().await.unwrap());
    let begin = Instant::now();
    assert_eq!(available(&semaphore).await, 2, "the store does not know");
    assert!((PATIENCE..PATIENCE + WAY).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    gate.open();
    assert_eq!(available(&semaphore).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_failed_holds_no_query_up() {
    let pair = Pair::local();
    let semaphore = pair.here.semaphore("permits", 3).unwrap();
    let permit = semaphore.acquire().await.unwrap();
    pair.ours.faults().cut();
    drop(permit);
    let begin = Instant::now();
    let refused = semaphore.available_permits().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable);
    assert!(begin.elapsed() < WAY, "{:?}", begin.elapsed());
    pair.ours.faults().heal();
}

#[tokio::test(start_paused = true)]
async fn a_query_waits_for_no_request_of_a_waiter() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    let gate = pair.ours.faults().on(Verb::Acquire).hold_replies();
    let mut waiting = Box::pin(semaphore.acquire_many(2));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let begin = Instant::now();
    assert_eq!(available(&semaphore).await, 1, "granted, but the waiter has no answer");
    assert!(begin.elapsed() < WAY, "{:?}", begin.elapsed());
    gate.open();
    assert_eq!(waiting.await.unwrap().num_permits(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_inspection_leaves_a_lease_that_is_cached() {
    let pair = Pair::local();
    let mutex = pair.here.mutex("it", ()).unwrap().with_cache(Duration::from_secs(60));
    drop(mutex.lock().await.unwrap());
    assert_eq!(pair.here.inspect("it").await.unwrap().holding, 1);
    assert!(mutex.is_cached());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_what_was_saved_while_the_lease_of_the_writer_is_on_its_way_back() {
    let pair = Pair::local();
    pair.ours.faults().on(Verb::Release).delay_requests(WAY);
    let stored = pair.here.stored_mutex("it", 0).unwrap();
    let mut guard = stored.lock().await.unwrap();
    *guard = 7;
    let version = guard.save().await.unwrap();
    *guard = 8;
    drop(guard);
    let shown = stored.snapshot().await.unwrap();
    assert_eq!((shown.value, shown.version), (7, Some(version)), "8 was not saved");
    assert_eq!(*stored.lock().await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_next_holder_sees_what_a_cancelled_commit_has_written() {
    let pair = Pair::local();
    let stored = pair.here.stored_mutex("it", 0).unwrap();
    let mut guard = stored.lock().await.unwrap();
    *guard = 7;
    let gate = pair.ours.faults().on(Verb::Cell).hold_replies();
    let mut commit = Box::pin(guard.commit());
    assert!(poll_once(commit.as_mut()).await.is_pending());
    drop(commit);
    gate.open();
    assert_eq!(*stored.lock().await.unwrap(), 7, "written, but the writer has no answer");
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_that_was_closed_for_all_is_closed_at_once() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    drop(semaphore.acquire().await.unwrap());
    semaphore.close_for_all().await.unwrap();
    assert!(semaphore.is_closed());
    assert!(semaphore.is_closed_for_all().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn every_handle_of_this_process_knows_that_the_semaphore_is_closed_for_all() {
    let pair = Pair::local();
    let semaphore = three(&pair);
    let idle = pair.here.semaphore("permits", 3).unwrap();
    let other = pair.here.semaphore("permits", 3).unwrap().with_renewal(false);
    let elsewhere = pair.there.semaphore("permits", 3).unwrap();
    assert!(!idle.is_closed() && !other.is_closed());
    semaphore.close_for_all().await.unwrap();
    assert!(idle.is_closed() && other.is_closed());
    assert!(pair.here.semaphore("permits", 3).unwrap().is_closed());
    for closed in [&idle, &other, &elsewhere] {
        assert_eq!(closed.try_acquire().await.err(), Some(TryAcquireError::Closed));
        assert_eq!(closed.acquire().await.err(), Some(AcquireError::Closed));
    }
    assert!(elsewhere.is_closed(), "the refusal says so");
}

#[tokio::test(start_paused = true)]
async fn what_the_store_tells_one_handle_of_a_semaphore_every_handle_of_this_process_knows() {
    let pair = Pair::local();
    let (semaphore, idle) = (three(&pair), three(&pair));
    let elsewhere = pair.there.semaphore("permits", 3).unwrap();
    elsewhere.close_for_all().await.unwrap();
    assert!(!idle.is_closed(), "the process has not heard of it");
    assert_eq!(available(&semaphore).await, 0);
    assert!(idle.is_closed() && semaphore.is_closed());
}
