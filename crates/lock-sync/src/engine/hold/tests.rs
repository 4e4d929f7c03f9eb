//! What a hold costs, and what remembers it.

use std::task::{Context, Wake, Waker};
use std::time::Duration;

use lock_core::Ttl;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::observer::Observer;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::super::gate::Way;
use super::*;
use crate::engine::{Acquiring, Wait};
use crate::locks::{Builder, Locks};
use crate::mutex::{MutexGuard, OwnedMutexGuard};
use crate::semaphore::{OwnedSemaphorePermit, SemaphorePermit};
use crate::sync::READ;
use crate::sync::atomic::Ordering;

fn entry_of(locks: &Locks<MemoryBackend>) -> Arc<Entry> {
    locks.shared.named("it".try_into().unwrap(), None, locks.shared.policy.clone())
}

async fn enter(entry: &Arc<Entry>, mode: Mode) -> Hold {
    let manner = entry.shared().manner;
    let mut acquiring = Acquiring::new(Arc::clone(entry), mode, Wait::Forever, manner);
    poll_fn(|context| acquiring.poll(context)).await.unwrap()
}

/// Compilers copy larger values by calling `memcpy`.
#[test]
fn a_hold_fits_into_128_bytes_in_the_guard_of_a_mutex_and_in_a_permit() {
    let sizes = [
        size_of::<MutexGuard<'_, u8>>(),
        size_of::<OwnedMutexGuard<u8>>(),
        size_of::<SemaphorePermit<'_>>(),
        size_of::<OwnedSemaphorePermit>(),
    ];
    assert!(sizes.iter().all(|size| *size <= 128), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_remembers_no_reader_that_has_gone() {
    // A renewal comes before the first limit. It says that no other process waits.
    let limit = Duration::from_secs(3);
    let locks = Locks::builder(MemoryBackend::new()).on_runtime(Handle::current());
    let locks = locks.ttl(limit).max_hold(limit).build().unwrap();
    let entry = entry_of(&locks);
    let read = async || enter(&entry, Mode::Shared).await;
    let (mut oldest, mut older) = (None, read().await);
    let lease = Arc::clone(older.lease());
    for _ in 0..100 {
        sleep(limit * 2 / 3).await;
        let next = read().await;
        assert!(Arc::ptr_eq(next.lease(), &lease), "one lease for all of them");
        let gone: Option<Hold> = oldest.replace(std::mem::replace(&mut older, next));
        let lost = gone.map(|hold| hold.check().map_err(|lost| lost.reason()));
        assert!(lost.is_none_or(|lost| lost == Err(LossReason::HeldTooLong)));
    }
    drop(oldest);
    assert_eq!(lease.known_losses(), 0);
}

#[tokio::test(start_paused = true)]
async fn readers_that_share_a_lease_do_not_lock_the_entry() {
    let locks = Locks::builder(MemoryBackend::new()).on_runtime(Handle::current());
    let locks = locks.build().unwrap();
    let entry = entry_of(&locks);
    let count = || entry.locked.load(Ordering::Relaxed);
    let read = async || enter(&entry, Mode::Shared).await;
    let first = read().await;
    // A renewal says that no other process waits.
    sleep(locks.shared.policy.ttl.duration() / 2).await;
    // The second reader looks whether there is a line, and the third opens the gate.
    let (second, third) = (read().await, read().await);
    let before = count();
    for _ in 0..100 {
        let (one, other) = (read().await, read().await);
        assert_eq!(one.fencing_token(), first.fencing_token());
        assert!(one.check().is_ok() && other.view().check().is_ok());
    }
    assert_eq!(count(), before);
    let (reader, handle) = (read().await, Arc::clone(third.view()));
    drop((first, second, third));
    assert!(count() > before && entry.is_held() && handle.check().is_err());
    assert!(reader.release().await.is_ok());
    assert!(!entry.is_held());
}

#[tokio::test]
async fn a_handle_that_is_kept_does_not_keep_its_lease_from_the_gate() {
    let locks = Locks::new(MemoryBackend::new());
    let entry = entry_of(&locks);
    let read = async || enter(&entry, Mode::Shared).await;
    let first = read().await;
    let handle = Arc::clone(first.view());
    assert!(handle.check().is_ok() && handle.valid_until() > first.lease().now());
    first.release().await.unwrap();
    let until = handle.valid_until();
    let next = read().await;
    assert!(Arc::ptr_eq(next.lease(), entry.gate.lease()), "the next lease has no gate");
    assert!(next.check().is_ok() && next.view().check().is_ok());
    let ended = handle.check().map_err(|lost| lost.reason());
    assert_eq!(ended, Err(LossReason::Released));
    assert_eq!(handle.over().await.reason(), LossReason::Released);
    assert!(handle.valid_until() == until && handle.remaining().is_zero());
}

/// Two readers overlap, and the gate is open.
async fn open_gate(entry: &Arc<Entry>) -> (Hold, Hold) {
    let read = async || enter(entry, Mode::Shared).await;
    let begin = Instant::now();
    let overlapping = (read().await, read().await);
    // The paused clock stands still while a task is ready. So no timer opens the gate.
    while !read().await.came_through_gate() {
        assert!(begin.elapsed().is_zero());
        yield_now().await;
    }
    overlapping
}

#[tokio::test(start_paused = true)]
async fn the_gate_opens_as_soon_as_readers_overlap() {
    let locks = Locks::builder(MemoryBackend::new()).on_runtime(Handle::current());
    let locks = locks.build().unwrap();
    let _overlapping = open_gate(&entry_of(&locks)).await;
}

/// If each of two readers closed the gate for the other one, it would stay closed.
#[tokio::test(start_paused = true)]
async fn a_reader_that_waited_for_the_lock_leaves_an_open_gate_open() {
    let locks = Locks::builder(MemoryBackend::new()).on_runtime(Handle::current());
    let locks = locks.build().unwrap();
    let entry = entry_of(&locks);
    let _overlapping = open_gate(&entry).await;
    let manner = entry.shared().manner;
    let locked = || entry.locked.load(Ordering::Relaxed);
    let uses_gate = async || {
        let before = locked();
        drop(enter(&entry, Mode::Shared).await);
        locked() == before
    };
    assert!(uses_gate().await);
    let Some(Way::Gate(reader)) = entry.share_by_lock(Mode::Shared, manner, true) else {
        panic!("the gate was closed")
    };
    assert!(uses_gate().await);
    entry.leave_by_lock(reader.hold, manner);
    assert!(uses_gate().await);
    assert_eq!(entry.gate.close().map(|(inside, _)| inside), Some(0));
}

/// A waker that shows by its count whether the entry has a clone of it.
struct Counted;

impl Wake for Counted {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_news_leaves_its_last_waker_and_takes_it_along_when_it_ends() {
    let store = MemoryBackend::new();
    let locks = Locks::builder(store.clone()).on_runtime(Handle::current()).build().unwrap();
    let entry = entry_of(&locks);
    let _overlapping = open_gate(&entry).await;
    let gate = store.faults().on(Verb::Renew).hold_requests();
    let reader = enter(&entry, Mode::Shared).await;
    let handle = Arc::clone(reader.view());
    let has_short_way = || Hold::share(&entry, Mode::Shared, entry.shared().manner).is_some();
    assert!(has_short_way());
    let mut extending = Box::pin(handle.extend(Ttl::new(Duration::from_secs(900)).unwrap()));
    let wakers = [(); 2].map(|()| Arc::new(Counted));
    for waker in &wakers {
        let waker = Waker::from(Arc::clone(waker));
        for _ in 0..2 {
            assert!(extending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert_eq!(wakers.each_ref().map(Arc::strong_count), [1, 2]);
    assert!(!has_short_way(), "the event of the next holder wakes the future");
    drop(extending);
    assert_eq!(wakers.each_ref().map(Arc::strong_count), [1, 1]);
    assert!(has_short_way());
    gate.open();
}

struct Deaf;

impl Observer for Deaf {}

/// How often a pass of a key for which another task waits looks at the clock, and locks the entry.
async fn looks_and_locks(locks: Builder<MemoryBackend>) -> (u32, u32) {
    const PASSES: u32 = 100;
    let locks = locks.on_runtime(Handle::current()).build().unwrap();
    let entry = entry_of(&locks);
    let wait = || {
        let manner = entry.shared().manner;
        Acquiring::new(Arc::clone(&entry), Mode::Exclusive, Wait::Forever, manner)
    };
    let mut hold = enter(&entry, Mode::Exclusive).await;
    let mut counts = (0, 0);
    // The first task that has to wait brings no waker along.
    for pass in 0..=PASSES {
        if pass == 1 {
            // A renewal says that no other process waits, and brings tokens.
            sleep(locks.shared.policy.ttl.duration() / 2).await;
            counts = (READ.get(), entry.locked.load(Ordering::Relaxed));
        }
        let mut waits = wait();
        let waker = std::task::Waker::noop();
        assert!(waits.poll(&mut Context::from_waker(waker)).is_pending());
        drop(hold);
        hold = poll_fn(|context| waits.poll(context)).await.unwrap();
    }
    let (read, locked) = (READ.get() - counts.0, entry.locked.load(Ordering::Relaxed) - counts.1);
    // The driver looks and locks now and then.
    let rounded = |count: u32| (count + PASSES / 2) / PASSES;
    (rounded(read), rounded(locked))
}

#[tokio::test(start_paused = true)]
async fn a_pass_among_waiters_looks_at_the_clock_once_and_two_more_times_for_observers() {
    let plain = looks_and_locks(Locks::builder(MemoryBackend::new())).await;
    let observed = Locks::builder(MemoryBackend::new()).observer(Arc::new(Deaf));
    let observed = looks_and_locks(observed).await;
    // The begin of the hold. With observers, the begin of the wait, and the end of the hold.
    assert_eq!((plain, observed), ((1, 3), (3, 3)));
}

/// A store in this process answers when it is asked. Every other store answers later.
#[tokio::test(start_paused = true)]
async fn a_pass_without_contention_locks_the_entry_three_times() {
    for delay in [Duration::ZERO, Duration::from_millis(1)] {
        let store = MemoryBackend::new();
        store.faults().delay_replies(delay);
        let locks = Locks::new(store);
        let entry = entry_of(&locks);
        let count = || entry.locked.load(Ordering::Relaxed);
        let mut locked = Vec::new();
        for _ in 0..100 {
            let before = count();
            enter(&entry, Mode::Exclusive).await.release().await.unwrap();
            locked.push(count() - before);
        }
        // The first pass starts the timer. The driver, whose time goes on, locks the entry in a pass or two.
        locked.sort_unstable();
        assert!(locked[90] <= 3, "{locked:?}, after {delay:?}");
        assert!(!entry.is_held() && !entry.is_cached());
        assert!(entry.lock().machine.is_idle(), "the last release is noted");
    }
}
