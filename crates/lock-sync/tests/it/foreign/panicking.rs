//! Wakers that panic. They stop no other waker, and no drop panics because of them.

use lock_sync::{MutexGuard, OwnedMutexGuard};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use futures::executor::block_on;
use lock_core::ErrorKind;
use lock_core::memory::Verb;
use tokio::time::{sleep, timeout};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_default;
use tracing::{Event, Metadata, Subscriber};

use super::{Flag, in_time, poll, poll_into_line, until};
use crate::support::Pair;

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics on purpose");
    }
}

fn panics() -> Waker {
    Waker::from(Arc::new(Panics))
}

/// Panics when it is dropped, as a waker does that owns a task with a panicking destructor.
struct PanicsInDrop;

impl Wake for PanicsInDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("a waker panics in its drop on purpose");
    }
}

/// Parks a waker that panics, and after it one that does not.
fn park<F: Future + ?Sized>(one: &mut Pin<Box<F>>, two: &mut Pin<Box<F>>) -> Arc<Flag> {
    let (flag, waker) = Flag::new();
    poll_into_line(one);
    poll_into_line(two);
    assert!(poll(one, &panics()).is_pending());
    assert!(poll(two, &waker).is_pending());
    flag
}

#[test]
fn a_guard_that_is_dropped_wakes_all_readers() {
    in_time("drop", || {
        let pair = Pair::threaded();
        let lock = Arc::new(pair.here.rwlock("it", ()).unwrap());
        let guard = block_on(Arc::clone(&lock).write_owned()).unwrap();
        let (mut one, mut two) =
            (Box::pin(Arc::clone(&lock).read_owned()), Box::pin(lock.read_owned()));
        let flag = park(&mut one, &mut two);
        drop(guard);
        // At once, unless the lock goes back to the store first.
        until("the second is woken", || flag.is_up());
        assert!(block_on(one).is_ok() && block_on(two).is_ok());
    });
}

/// A subscriber to traces that panics at each event.
struct PanickingLog;

impl Subscriber for PanickingLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, _: &Event<'_>) {
        panic!("a log panics on purpose");
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_stops_no_renewal_and_no_release() {
    let ttl = Duration::from_secs(3);
    let _logged = set_default(PanickingLog);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let faults = pair.ours.faults();
    faults.on(Verb::Renew).fail_next(1, ErrorKind::Unreachable);
    sleep(2 * ttl).await;
    assert!(MutexGuard::lease(&guard).is_valid());
    faults.on(Verb::Release).fail_next(1, ErrorKind::Unreachable);
    drop(guard);
    drop(timeout(ttl / 3, there.lock()).await.expect("the release is tried again").unwrap());
}

#[test]
fn a_shutdown_wakes_all_waiters() {
    in_time("shutdown", || {
        let pair = Pair::threaded();
        let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
        let guard = block_on(Arc::clone(&mutex).lock_owned()).unwrap();
        let (mut one, mut two) =
            (Box::pin(Arc::clone(&mutex).lock_owned()), Box::pin(mutex.lock_owned()));
        let flag = park(&mut one, &mut two);
        block_on(pair.here.shutdown());
        assert!(flag.is_up());
        assert!(OwnedMutexGuard::lease(&guard).is_valid());
    });
}

#[test]
fn a_shutdown_wakes_all_waiters_of_a_barrier() {
    in_time("shutdown", || {
        let pair = Pair::threaded();
        let barrier = &*Box::leak(Box::new(pair.here.barrier("it", 3).unwrap()));
        let (mut one, mut two) = (Box::pin(barrier.wait()), Box::pin(barrier.wait()));
        let flag = park(&mut one, &mut two);
        block_on(pair.here.shutdown());
        assert!(flag.is_up());
        assert!(block_on(two).is_err());
    });
}

#[test]
fn a_semaphore_that_is_closed_wakes_all_waiters() {
    in_time("close", || {
        let pair = Pair::threaded();
        let semaphore = Arc::new(pair.here.semaphore("it", 1).unwrap());
        let _permit = block_on(Arc::clone(&semaphore).acquire_owned()).unwrap();
        let acquire = || Box::pin(Arc::clone(&semaphore).acquire_owned());
        let (mut one, mut two) = (acquire(), acquire());
        let flag = park(&mut one, &mut two);
        semaphore.close();
        assert!(flag.is_up());
        assert!(block_on(two).is_err());
    });
}

#[test]
fn a_loss_wakes_all_lost_futures() {
    in_time("loss", || {
        let pair = Pair::threaded();
        let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
        let guard = block_on(mutex.lock_owned()).unwrap();
        let (mut one, mut two) = (
            Box::pin(OwnedMutexGuard::lease(&guard).lost()),
            Box::pin(OwnedMutexGuard::lease(&guard).lost()),
        );
        let flag = park(&mut one, &mut two);
        block_on(pair.there.force_release("it")).unwrap();
        // The guard learns of it from a hint or with its next renewal.
        until("it is known", || !OwnedMutexGuard::lease(&guard).is_valid());
        until("the second is woken", || flag.is_up());
        assert!(matches!(poll(&mut two, Waker::noop()), Poll::Ready(_)));
    });
}

#[test]
fn the_last_answer_wakes_all_shutdowns() {
    in_time("shutdown", || {
        let pair = Pair::threaded();
        let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
        let guard = block_on(mutex.lock_owned()).unwrap();
        let gate = pair.ours.faults().on(Verb::Release).hold_requests();
        drop(guard);
        block_on(gate.arrived(1));
        let (mut one, mut two) = (Box::pin(pair.here.shutdown()), Box::pin(pair.here.shutdown()));
        let flag = park(&mut one, &mut two);
        gate.open();
        until("the second is woken", || flag.is_up());
        block_on(two);
    });
}

#[test]
fn a_reader_that_gives_up_its_permit_does_not_panic() {
    in_time("permit", || {
        let pair = Pair::threaded();
        let lock = Arc::new(pair.here.rwlock_with_max_readers("it", (), 1).unwrap());
        let guard = block_on(Arc::clone(&lock).read_owned()).unwrap();
        let mut waiting = Box::pin(Arc::clone(&lock).read_owned());
        assert!(poll(&mut waiting, &panics()).is_pending());
        drop(guard);
        assert!(block_on(waiting).is_ok());
    });
}

#[test]
fn a_wait_that_is_dropped_passes_its_permit_on_to_a_reader() {
    in_time("permit", || {
        let pair = Pair::threaded();
        let lock = Arc::new(pair.here.rwlock_with_max_readers("it", (), 1).unwrap());
        let guard = block_on(Arc::clone(&lock).read_owned()).unwrap();
        let read = || Box::pin(Arc::clone(&lock).read_owned());
        let (mut one, mut two) = (read(), read());
        assert!(poll(&mut one, Waker::noop()).is_pending());
        assert!(poll(&mut two, &panics()).is_pending());
        drop(guard);
        // It has the permit by now, although its task has not polled it again.
        drop(one);
        assert!(block_on(two).is_ok());
    });
}

#[test]
fn a_wait_for_a_permit_drops_a_waker_that_panics() {
    in_time("permit", || {
        let pair = Pair::threaded();
        let lock = Arc::new(pair.here.rwlock_with_max_readers("it", (), 1).unwrap());
        let guard = block_on(Arc::clone(&lock).read_owned()).unwrap();
        let mut waiting = Box::pin(Arc::clone(&lock).read_owned());
        let waker = Waker::from(Arc::new(PanicsInDrop));
        assert!(poll(&mut waiting, &waker).is_pending());
        drop(waker);
        drop(waiting);
        drop(guard);
        assert!(block_on(lock.read()).is_ok());
    });
}

/// Two tasks with these wakers wait for their turn at a once cell. The task that has the turn goes, and then the first
/// of the two.
fn pass_the_turn_on([first, second]: [Waker; 2]) {
    let pair = Pair::threaded();
    let cell = &*Box::leak(Box::new(pair.here.once_cell::<u32, _>("it").unwrap()));
    let mut leader = Box::pin(cell.get_or_init(pending));
    assert!(poll(&mut leader, Waker::noop()).is_pending());
    let initialize = || Box::pin(cell.get_or_init(async || 7));
    let (mut one, mut two) = (initialize(), initialize());
    assert!(poll(&mut one, &first).is_pending());
    assert!(poll(&mut two, &second).is_pending());
    drop(leader);
    drop(one);
    assert_eq!(*block_on(two).unwrap(), 7);
}

#[test]
fn an_initialization_that_is_dropped_passes_its_turn_on() {
    in_time("turn", || pass_the_turn_on([panics(), Waker::noop().clone()]));
}

#[test]
fn a_wait_that_is_dropped_passes_its_turn_on() {
    in_time("turn", || pass_the_turn_on([Waker::noop().clone(), panics()]));
}

#[test]
fn a_question_that_is_dropped_drops_a_waker_that_panics() {
    in_time("question", || {
        let pair = Pair::threaded();
        let cell = pair.here.once_cell::<u32, _>("it").unwrap();
        let _gate = pair.ours.faults().on(Verb::Cell).hold_requests();
        let mut loading = Box::pin(cell.load());
        let waker = Waker::from(Arc::new(PanicsInDrop));
        assert!(poll(&mut loading, &waker).is_pending());
        drop(waker);
        drop(loading);
    });
}

#[test]
fn a_future_that_is_dropped_drops_a_waker_that_panics() {
    in_time("drop", || {
        let pair = Pair::threaded();
        let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
        let guard = block_on(Arc::clone(&mutex).lock_owned()).unwrap();
        let mut waiting = Box::pin(Arc::clone(&mutex).lock_owned());
        let waker = Waker::from(Arc::new(PanicsInDrop));
        assert!(poll(&mut waiting, &waker).is_pending());
        drop(waker);
        drop(waiting);
        drop(guard);
        assert!(block_on(mutex.lock()).is_ok());
    });
}
