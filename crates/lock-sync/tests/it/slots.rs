//! Permits that are locks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{ErrorKind, Key};
use lock_sync::{
    AcquireError, AcquireSlot, AcquireSlotOwned, Locks, LossReason, OwnedSlotPermit, ReleaseError,
    SlotPermit, SlotSemaphore, TryAcquireError,
};
use tokio::time::Instant;

use crate::contract::assert_traits;
use crate::support::{Basic, Pair, assert_refuses_to_block, eventually, poll_once};

pub(crate) const TTL: Duration = Duration::from_secs(3);

assert_traits! {
    SlotSemaphore: Send & Sync & Unpin;
    SlotPermit<'static>: Send & Sync & Unpin;
    OwnedSlotPermit: Send & Sync & Unpin;
    AcquireSlot<'static>: Send & Sync & !Unpin;
    AcquireSlotOwned: Send & Sync & !Unpin;
}

impl Pair {
    /// One semaphore on both sides.
    pub(crate) fn slots(&self, permits: usize) -> (SlotSemaphore, SlotSemaphore) {
        let slots = |locks: &Locks<_>| locks.slot_semaphore("slots", permits).unwrap();
        (slots(&self.here), slots(&self.there))
    }
}

/// All permits of a semaphore without holders.
pub(crate) async fn all(semaphore: &SlotSemaphore) -> Vec<SlotPermit<'_>> {
    let permits = (0..semaphore.permits()).map(|_| semaphore.try_acquire());
    // One after the other: two concurrent attempts may both find the last slot.
    let mut all = Vec::new();
    for permit in permits {
        all.push(permit.await.unwrap());
    }
    all
}

pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), future).await.unwrap()
}

#[tokio::test]
async fn a_free_semaphore_costs_one_request_and_a_full_one_of_our_own_none() {
    let pair = Pair::threaded();
    let (here, _) = pair.slots(8);
    let permit = here.acquire().await.unwrap();
    assert_eq!(pair.ours.stats().acquires, 1);
    drop(permit);
    pair.all_released().await;
    let all = all(&here).await;
    let before = pair.ours.stats();
    assert_eq!(here.try_acquire().await.err(), Some(TryAcquireError::NoPermits));
    assert_eq!(pair.ours.stats().acquires, before.acquires);
    drop(all);
}

#[tokio::test]
async fn any_slot_that_is_freed_ends_a_wait() {
    for freed in 0..4 {
        let pair = Pair::threaded();
        let (here, there) = pair.slots(4);
        let mut held = all(&there).await;
        let mut waiting = Box::pin(here.acquire());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        let at = held.iter().position(|permit| permit.slot() == freed).unwrap();
        drop(held.swap_remove(at));
        let permit = in_time(waiting).await.unwrap();
        assert_eq!(permit.slot(), freed);
        drop((permit, held));
        pair.all_released().await;
    }
}

/// Also a permit that another task of the process frees, without a request.
#[tokio::test]
async fn a_slot_that_is_freed_here_passes_on_here() {
    let pair = Pair::threaded();
    let (here, _) = pair.slots(2);
    let mut held = all(&here).await;
    let before = pair.ours.stats();
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(here.acquire())).collect();
    for wait in &mut waiting {
        assert!(poll_once(wait.as_mut()).await.is_pending());
    }
    drop(held.pop());
    drop(held.pop());
    let permits = in_time(try_join_all(waiting)).await.unwrap();
    assert_ne!(permits[0].slot(), permits[1].slot());
    assert_eq!(pair.ours.stats().acquires, before.acquires);
}

/// A waiter may be granted two slots at once, and needs one.
#[tokio::test]
async fn what_is_given_beyond_need_goes_back() {
    let pair = Pair::threaded();
    let (here, there) = pair.slots(3);
    let held = all(&there).await;
    let mut waiting = Box::pin(here.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    eventually("it stands in every line", || pair.ours.stats().watches == 3).await;
    // Its task does not run until all of them are free.
    drop(held);
    let permit = in_time(waiting).await.unwrap();
    let others = in_time(join_all((0..2).map(|_| there.acquire()))).await;
    let slots: HashSet<_> =
        others.iter().map(|other| other.as_ref().unwrap().slot()).chain([permit.slot()]).collect();
    assert_eq!(slots.len(), 3);
    drop((permit, others));
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_sends_only_renewals_of_its_places() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = pair.slots(2);
    let held = all(&there).await;
    let mut waiting = Box::pin(here.acquire());
    assert!(tokio::time::timeout(TTL, waiting.as_mut()).await.is_err());
    let before = pair.ours.stats();
    assert!(tokio::time::timeout(TTL * 4, waiting.as_mut()).await.is_err());
    // Each place is renewed once in a third of its time.
    let asked = pair.ours.stats().since(before).total();
    assert!((8..=40).contains(&asked), "{asked} requests in four leases");
    drop(held);
    assert!(waiting.await.unwrap().lease().is_valid());
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_crashed_holder_comes_back() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = pair.slots(2);
    let dead = here.acquire().await.unwrap();
    let _live = there.acquire().await.unwrap();
    let begin = Instant::now();
    pair.ours.faults().cut();
    let mut waiting = Box::pin(there.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let lost = tokio::select! {
        lost = dead.lease().lost() => lost,
        _ = waiting.as_mut() => panic!("granted before the holder knew of its loss"),
    };
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(!dead.lease().is_valid() && dead.lease().remaining().is_zero());
    assert_eq!(dead.lease().check(), Err(lost));
    let next = waiting.await.unwrap();
    assert_eq!(next.slot(), dead.slot());
    assert!(next.lease().fencing_token() > dead.lease().fencing_token());
    assert!(begin.elapsed() < TTL * 2, "{:?}", begin.elapsed());
    pair.ours.faults().heal();
    assert!(matches!(dead.release().await, Err(ReleaseError::Lost(_))));
    assert!(next.lease().is_valid());
}

/// Drops the future after its k-th poll, for every k, while another client comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll_it_leaves_nothing() {
    let pair = Pair::threaded();
    let (here, there) = pair.slots(3);
    for round in 0..300_usize {
        let mut held = Vec::new();
        for _ in 0..round % 4 {
            held.extend(there.try_acquire().await);
        }
        let mut waiting = Box::pin(here.acquire());
        for poll in 0..=round % 7 {
            if poll == 1 {
                held.pop();
            }
            if poll_once(waiting.as_mut()).await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(waiting);
    }
    pair.all_released().await;
    assert_eq!(all(&there).await.len(), 3);
}

/// In every phase: while it tries, while the answer is under way, and in the lines.
#[tokio::test]
async fn dropped_with_a_request_under_way_it_leaves_nothing() {
    let pair = Pair::threaded();
    let (here, there) = pair.slots(2);
    for replies in [false, true] {
        for full in [false, true] {
            // The request of the previous round may still be granted for a moment, so a single try is not enough.
            let permits = (0..if full { 2 } else { 0 }).map(|_| there.acquire());
            let held = in_time(join_all(permits)).await;
            let held: Vec<_> = held.into_iter().map(Result::unwrap).collect();
            let faults = pair.ours.faults();
            let on = faults.on(Verb::Acquire);
            let gate = if replies { on.hold_replies() } else { on.hold_requests() };
            let mut waiting = Box::pin(here.acquire());
            assert!(poll_once(waiting.as_mut()).await.is_pending());
            drop((waiting, held));
            faults.heal();
            drop(gate);
            pair.all_released().await;
            assert_eq!(in_time(join_all((0..2).map(|_| there.acquire()))).await.len(), 2);
            pair.all_released().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_every_kind_of_wait() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = pair.slots(2);
    let here = Arc::new(here);
    let limit = Duration::from_secs(1);
    let begin = Instant::now();
    let held = all(&there).await;
    let late = here.acquire_timeout(limit).await.err();
    assert_eq!(late, Some(AcquireError::Timeout { source: None }));
    assert_eq!(begin.elapsed().as_secs(), 1);
    drop(held);
    pair.all_released().await;
    // A slot without an answer is not a held slot.
    let _gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    match Arc::clone(&here).acquire_owned_timeout(limit).await {
        Err(AcquireError::Timeout { source: Some(error) }) => {
            assert_eq!(error.kind(), ErrorKind::Timeout);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(begin.elapsed().as_secs(), 2);
    pair.ours.faults().heal();
    assert!(here.acquire_timeout(limit).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_borne_as_by_a_mutex() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, _) = pair.slots(2);
    pair.ours.faults().cut();
    assert!(matches!(here.try_acquire().await, Err(TryAcquireError::Backend(_))));
    let mut waiting = Box::pin(here.acquire());
    assert!(tokio::time::timeout(TTL / 2, waiting.as_mut()).await.is_err());
    pair.ours.faults().heal();
    drop(in_time(waiting).await.unwrap());
    pair.all_released().await;
    pair.ours.faults().cut();
    assert!(matches!(here.acquire().await, Err(AcquireError::Backend(_))), "it gives up at last");
}

#[tokio::test]
async fn shutting_down_ends_waits() {
    let pair = Pair::threaded();
    let (here, there) = pair.slots(2);
    let held = all(&there).await;
    let mut waiting = Box::pin(here.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert_eq!(waiting.await.err(), Some(AcquireError::Closed));
    assert_eq!(here.try_acquire().await.err(), Some(TryAcquireError::Closed));
    drop(held);
    pair.all_released().await;
}

#[test]
fn without_a_runtime_it_blocks() {
    let pair = Pair::threaded();
    let (here, there) = pair.slots(1);
    let there = Arc::new(there);
    let permit = here.blocking_acquire().unwrap();
    let other = std::thread::spawn({
        let there = Arc::clone(&there);
        move || there.blocking_acquire_owned().unwrap().lease().fencing_token()
    });
    let token = permit.lease().fencing_token();
    drop(permit);
    assert!(other.join().unwrap() > token);
    type Blocking = fn(&Arc<SlotSemaphore>);
    let panics: [(&str, Blocking); 2] = [
        ("blocking_acquire", |slots| drop(slots.blocking_acquire())),
        ("blocking_acquire_owned", |slots| drop(Arc::clone(slots).blocking_acquire_owned())),
    ];
    for (name, blocking) in panics {
        assert_refuses_to_block(name, file!(), || blocking(&there));
    }
}

/// The futures of an `async fn` have no name, so they are checked where they are made.
#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let pair = Pair::threaded();
    let semaphore = Arc::new(pair.slots(2).0);
    check(semaphore.try_acquire());
    check(Arc::clone(&semaphore).try_acquire_owned());
    let permit = semaphore.blocking_acquire().unwrap();
    check(permit.lease().while_held(std::future::ready(())));
    check(permit.release());
}

#[tokio::test]
async fn slots_are_locks_with_names() {
    let backend = MemoryBackend::new();
    let locks = Locks::builder(backend.clone()).prefix("app/").build().unwrap();
    let semaphore = locks.slot_semaphore("seats", 2).unwrap();
    assert_eq!(semaphore.key().as_bytes(), b"app/seats");
    let permit = Arc::new(semaphore).try_acquire_owned().await.unwrap();
    let name = format!("seats#{}", permit.slot());
    assert_eq!(permit.lease().key().to_string(), format!("app/{name}"));
    assert_eq!(permit.semaphore().permits(), 2);
    assert!(locks.mutex(name, ()).unwrap().try_lock().await.is_err());

    let exact = locks.slot_semaphore(Key::raw("seats").unwrap(), 2).unwrap();
    assert_eq!(exact.key(), &Key::raw("seats").unwrap());
    let permit = exact.acquire().await.unwrap();
    assert!(
        permit.lease().key().is_as_is() && permit.lease().key().as_bytes().starts_with(b"seats#")
    );
}

#[test]
fn numbers_and_names_that_cannot_be_are_refused() {
    let backend = MemoryBackend::new();
    let locks = Locks::new(backend.clone());
    for permits in [0, 65, usize::MAX] {
        let error = locks.slot_semaphore("slots", permits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(&permits.to_string()), "{error}");
    }
    assert_eq!(locks.slot_semaphore("slots", 64).unwrap().permits(), 64);
    // The last slot has the longest name.
    let long = "x".repeat(Key::MAX_LEN - 2);
    assert!(locks.slot_semaphore(&long, 10).is_ok());
    assert_eq!(locks.slot_semaphore(&long, 11).unwrap_err().kind(), ErrorKind::InvalidKey);
    assert_eq!(backend.stats().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_cannot_be_reached_is_left_out() {
    let is_away = |key: &Key| key.as_bytes().ends_with(b"#1").then_some(ErrorKind::Unreachable);
    one_slot_is_left_out(is_away).await;
}

/// The search begins at a random slot.
#[tokio::test(start_paused = true)]
async fn a_slot_that_the_store_refuses_is_left_out() {
    for _ in 0..10 {
        let is_foreign =
            |key: &Key| key.as_bytes().ends_with(b"#1").then_some(ErrorKind::ForeignKey);
        one_slot_is_left_out(is_foreign).await;
    }
}

/// The other slots stay taken, so only the slot that failed can come free.
#[tokio::test(start_paused = true)]
async fn a_slot_that_the_store_refused_is_asked_for_again() {
    static REFUSALS: AtomicU32 = AtomicU32::new(0);
    static IS_BACK: AtomicBool = AtomicBool::new(false);
    let refuses = |key: &Key| {
        let is_out = key.as_bytes().ends_with(b"#1") && !IS_BACK.load(Ordering::Relaxed);
        REFUSALS.fetch_add(is_out.into(), Ordering::Relaxed);
        is_out.then_some(ErrorKind::ForeignKey)
    };
    let semaphore = over(Basic::without(MemoryBackend::new(), refuses));
    let _taken = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let mut third = Box::pin(semaphore.acquire());
    assert!(tokio::time::timeout(TTL * 100, third.as_mut()).await.is_err());
    let refusals = REFUSALS.load(Ordering::Relaxed);
    assert!((6..20).contains(&refusals), "{refusals} refusals");
    IS_BACK.store(true, Ordering::Relaxed);
    let found = tokio::time::timeout(TTL * 17, third).await.expect("it is not asked for again");
    assert_eq!(found.unwrap().slot(), 1);
}

/// The waits for the slots begin and fail at different times.
#[tokio::test(start_paused = true)]
async fn an_endless_wait_ends_if_the_whole_store_is_silent() {
    static IS_OUT: AtomicBool = AtomicBool::new(false);
    fn is_second(key: &Key) -> bool {
        key.as_bytes().ends_with(b"#1")
    }
    let store = MemoryBackend::new();
    let refuses = |key: &Key| is_second(key).then_some(ErrorKind::ForeignKey);
    let theirs = over(Basic::without(store.client(), refuses));
    let _taken = (theirs.acquire().await.unwrap(), theirs.acquire().await.unwrap());
    let fails = |key: &Key| {
        let fails = is_second(key) || IS_OUT.load(Ordering::Relaxed);
        fails.then_some(ErrorKind::Unreachable)
    };
    let ours = over(Basic::without(store.client(), fails));
    let mut waiting = Box::pin(ours.acquire());
    // By then, the second wait for the second slot is under way.
    assert!(tokio::time::timeout(TTL / 2 * 5, waiting.as_mut()).await.is_err());
    IS_OUT.store(true, Ordering::Relaxed);
    let ended = tokio::time::timeout(TTL * 40, waiting).await.expect("it waits for ever");
    assert!(matches!(ended, Err(AcquireError::Backend(_))), "{ended:?}");
}

/// Three slots.
pub(crate) fn over(backend: Basic) -> SlotSemaphore {
    let locks = Locks::builder(backend).ttl(TTL).on_runtime(tokio::runtime::Handle::current());
    locks.build().unwrap().slot_semaphore("slots", 3).unwrap()
}

async fn one_slot_is_left_out(refuses: fn(&Key) -> Option<ErrorKind>) {
    let semaphore = over(Basic::without(MemoryBackend::new(), refuses));
    let first = semaphore.acquire().await.unwrap();
    let second = semaphore.acquire().await.unwrap();
    assert_eq!(HashSet::from([first.slot(), second.slot()]), HashSet::from([0, 2]));
    let mut third = Box::pin(semaphore.acquire());
    assert!(tokio::time::timeout(TTL * 4, third.as_mut()).await.is_err(), "others may come free");
    let slot = first.slot();
    drop(first);
    assert_eq!(in_time(third).await.unwrap().slot(), slot);
}
