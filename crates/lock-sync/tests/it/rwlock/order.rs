//! The order in which waiters get the lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::{FutureExt, LocalBoxFuture, join_all};
use lock_core::Ttl;
use lock_sync::{Handoff, LockError, LossReason, RwLockReadGuard};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{begin, refuses_readers, rwlocks, soon, still_waits, third};
use crate::support::{Pair, eventually};

const TTL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_waiting_writer_holds_back_later_readers() {
    let pair = Pair::local();
    let (here, _) = rwlocks(&pair);
    let (first, second) = (here.read().await.unwrap(), here.read().await.unwrap());
    let mut writing = Box::pin(here.write());
    begin(writing.as_mut()).await;
    let mut later = Box::pin(here.read());
    begin(later.as_mut()).await;
    assert!(here.try_read().await.is_err(), "a try overtakes the waiting writer");
    still_waits(later.as_mut()).await;
    drop((first, second));
    let writing = soon(writing).await.unwrap();
    still_waits(later.as_mut()).await;
    drop(writing);
    drop(soon(later).await.unwrap());
}

#[tokio::test]
async fn a_writer_that_gave_up_holds_back_no_reader() {
    let pair = Pair::local();
    let (here, _) = rwlocks(&pair);
    let reading = here.read().await.unwrap();
    let mut writing = Box::pin(here.write());
    begin(writing.as_mut()).await;
    let mut later = Box::pin(here.read());
    begin(later.as_mut()).await;
    drop(writing);
    drop(soon(later).await.unwrap());
    assert!(RwLockReadGuard::lease(&reading).is_valid());
}

/// Otherwise the budget of a process would end at the first reader between two writers.
#[tokio::test(start_paused = true)]
async fn a_reader_between_two_writers_does_not_end_the_turn_of_their_process() {
    let budget = Handoff::Budget { handoffs: 5, time: Duration::from_secs(3600) };
    let pair = Pair::local_with(|builder| builder.handoff(budget));
    let (here, there) = rwlocks(&pair);
    let elsewhere = third(&pair).rwlock("it", 0).unwrap();
    let held = there.write().await.unwrap();
    let (mut first, mut between, mut last) =
        (Box::pin(here.write()), Box::pin(here.read()), Box::pin(here.write()));
    begin(first.as_mut()).await;
    begin(between.as_mut()).await;
    begin(last.as_mut()).await;
    let mut other = Box::pin(elsewhere.write());
    begin(other.as_mut()).await;
    drop(held);
    let first = soon(first).await.unwrap();
    let before = pair.ours.stats();
    drop(first);
    drop(soon(between).await.unwrap());
    let last = soon(last).await.unwrap();
    let now = pair.ours.stats();
    assert_eq!((now.acquires, now.releases), (before.acquires, before.releases));
    still_waits(other.as_mut()).await;
    drop(last);
    drop(soon(other).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_died_waiting_delays_readers_only_for_its_place() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = rwlocks(&pair);
    let reading = there.read().await.unwrap();
    let mut writing = Box::pin(here.write());
    begin(writing.as_mut()).await;
    refuses_readers(&there).await;
    pair.ours.faults().cut();
    let begin = Instant::now();
    drop(soon(there.read()).await.unwrap());
    let place = Ttl::new(TTL).unwrap().for_place().duration();
    let elapsed = begin.elapsed();
    assert!(elapsed <= place + Duration::from_millis(100), "{elapsed:?} of {place:?}");
    assert!(RwLockReadGuard::lease(&reading).is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_died_delays_a_writer_only_for_its_lease() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = rwlocks(&pair);
    let elsewhere = third(&pair).rwlock("it", 0).unwrap();
    let dead = here.read().await.unwrap();
    let alive = elsewhere.read().await.unwrap();
    pair.ours.faults().cut();
    let begin = Instant::now();
    let mut writing = Box::pin(there.write());
    assert_eq!(RwLockReadGuard::lease(&dead).lost().await.reason(), LossReason::Expired);
    tokio::time::sleep(TTL).await;
    assert!(RwLockReadGuard::lease(&alive).is_valid(), "one reader's end is not another's");
    still_waits(writing.as_mut()).await;
    RwLockReadGuard::release(alive).await.unwrap();
    drop(soon(writing).await.unwrap());
    assert!(begin.elapsed() < TTL * 3);
}

#[tokio::test(start_paused = true)]
async fn a_writer_elsewhere_enters_when_the_last_reader_here_died() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, there) = rwlocks(&pair);
    let _dead = (here.read().await.unwrap(), here.read().await.unwrap());
    pair.ours.faults().cut();
    let begin = Instant::now();
    drop(soon(there.write()).await.unwrap());
    assert!(begin.elapsed() <= TTL + Duration::from_millis(100), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn readers_and_writers_are_served_in_the_order_in_which_they_came() {
    let pair = Pair::local();
    let (here, _) = rwlocks(&pair);
    let guard = here.write().await.unwrap();
    let served = Mutex::new(String::new());
    let waiter = |name: char| -> LocalBoxFuture<'_, ()> {
        let (here, served) = (&here, &served);
        async move {
            if name.is_uppercase() {
                let _guard = here.write().await.unwrap();
                served.lock().unwrap().push(name);
                yield_now().await;
            } else {
                let _guard = here.read().await.unwrap();
                served.lock().unwrap().push(name);
                yield_now().await;
            }
        }
        .boxed_local()
    };
    let mut waiting: Vec<_> = "abCDefGhI".chars().map(waiter).collect();
    for waiter in &mut waiting {
        begin(Pin::new(waiter)).await;
    }
    drop(guard);
    soon(join_all(waiting)).await;
    assert_eq!(*served.lock().unwrap(), "abCDefGhI");
}

#[tokio::test]
async fn readers_in_line_enter_together() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let writing = there.write().await.unwrap();
    let mut readers: Vec<_> = (0..8).map(|_| Box::pin(here.read())).collect();
    for reader in &mut readers {
        begin(reader.as_mut()).await;
    }
    drop(writing);
    let guards = soon(join_all(readers)).await;
    assert!(guards.iter().all(|guard| RwLockReadGuard::lease(guard.as_ref().unwrap()).is_valid()));
    assert_eq!(pair.store.live_leases(), 1);
}

#[tokio::test]
async fn the_next_waiter_is_woken() {
    let pair = Pair::local();
    let (here, _) = rwlocks(&pair);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let context = &mut Context::from_waker(&waker);

    let writing = here.write().await.unwrap();
    let mut reading = Box::pin(here.read());
    assert!(reading.as_mut().poll(context).is_pending());
    assert_eq!(woken.times(), 0);
    drop(writing);
    assert_eq!(woken.times(), 1, "by the drop of the guard");
    let Poll::Ready(reading) = reading.as_mut().poll(context) else { panic!("it is its turn") };

    // Between readers and a writer, the lock goes through the store.
    let mut writing = Box::pin(here.write());
    assert!(writing.as_mut().poll(context).is_pending());
    drop(reading);
    eventually("the writer is woken", || woken.times() > 1).await;
    assert!(soon(writing).await.is_ok());
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Woken {
    fn times(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that was never polled has no position in the line.
#[tokio::test]
async fn the_first_poll_decides() {
    let pair = Pair::local();
    let lock = pair.here.rwlock("it", Vec::new()).unwrap();
    let second = lock.write().map(|guard| guard.unwrap().push(2));
    let first = lock.write().map(|guard| guard.unwrap().push(1));
    first.await;
    second.await;
    assert_eq!(*lock.read().await.unwrap(), [1, 2]);
}

#[tokio::test]
async fn processes_take_turns() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let reading = here.read().await.unwrap();
    let mut remote = Box::pin(there.write());
    begin(remote.as_mut()).await;
    refuses_readers(&here).await;
    let mut local = Box::pin(here.write());
    begin(local.as_mut()).await;
    drop(reading);
    let remote = soon(remote).await.unwrap();
    still_waits(local.as_mut()).await;
    drop(remote);
    assert!(soon(local).await.is_ok());
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_a_limit() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let reading = there.read().await.unwrap();
    let begin = Instant::now();
    let limit = Duration::from_millis(1_500);
    let error = here.write_timeout(limit).await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: None }));
    assert!(begin.elapsed() >= limit && begin.elapsed() < limit * 2);
    let upgradable = soon(here.upgradable_read()).await.unwrap();
    let begin = Instant::now();
    let error = upgradable.upgrade_timeout(limit).await.unwrap_err();
    assert!(matches!(error.error(), LockError::Timeout { .. }));
    assert!(begin.elapsed() >= limit && begin.elapsed() < limit * 2);
    // It holds up no other waiter.
    drop(soon(there.read()).await.unwrap());
    assert!(RwLockReadGuard::lease(&reading).is_valid());
}
