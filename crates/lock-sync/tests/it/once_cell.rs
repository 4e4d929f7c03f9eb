//! A value that is initialized once, over two clients.

use std::collections::HashMap;
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FusedFuture, FutureExt};
use lock_core::memory::Verb;
use lock_core::{ErrorKind, InspectBackend, Key};
use lock_sync::{Locks, LossReason, OnceCell, OnceCellError, SetError};
use tokio::time::{Instant, sleep};

use crate::contract::assert_traits;
use crate::support::{Pair, eventually, poll_once};

pub(crate) const TTL: Duration = Duration::from_secs(3);

assert_traits! {
    tokio::sync::OnceCell<u8>: Send & Sync & Unpin;
    OnceCell<u8>: Send & Sync & Unpin;
    tokio::sync::OnceCell<std::cell::Cell<u8>>: Send & !Sync & Unpin;
    OnceCell<std::cell::Cell<u8>>: Send & !Sync & Unpin;
    tokio::sync::OnceCell<std::rc::Rc<u8>>: !Send & !Sync & Unpin;
    OnceCell<std::rc::Rc<u8>>: !Send & !Sync & Unpin;
    OnceCellError: Send & Sync & Unpin & Error;
    OnceCellError<std::fmt::Error>: Send & Sync & Unpin & Error;
    SetError<u8>: Send & Sync & Unpin & Error;
}

#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let pair = Pair::threaded();
    let (mut here, there) = pair.cells();
    check(there.load());
    check(there.wait());
    check(there.set(1));
    check(there.get_or_init(async || 1));
    check(there.get_or_try_init(async || Ok::<_, std::fmt::Error>(1)));
    check(here.reset());
}

impl Pair {
    /// One cell on both sides.
    pub(crate) fn cells(&self) -> (OnceCell<u32>, OnceCell<u32>) {
        (self.here.once_cell("cell").unwrap(), self.there.once_cell("cell").unwrap())
    }
}

pub(crate) fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

#[tokio::test]
async fn what_was_read_stays_here() {
    let pair = Pair::threaded();
    let (here, mut there) = pair.cells();
    assert!(!here.initialized() && here.load().await.unwrap().is_none());
    assert_eq!(*there.get_or_init(async || 7).await.unwrap(), 7);
    assert_eq!((here.get(), there.get()), (None, Some(&7)));
    assert_eq!(here.load().await.unwrap(), Some(&7));
    assert!(here.initialized());
    let asked = pair.ours.stats();
    assert_eq!(here.load().await.unwrap(), Some(&7));
    assert_eq!(*here.wait().await.unwrap(), 7);
    assert_eq!(*here.get_or_init(async || 8).await.unwrap(), 7);
    assert_eq!(pair.ours.stats().since(asked).total(), 0, "no request is sent");
    *there.get_mut().unwrap() = 9;
    assert_eq!(there.take(), Some(9));
    assert_eq!(there.get(), None);
    assert_eq!(there.load().await.unwrap(), Some(&7), "the store still has it");
    assert_eq!(there.into_inner(), Some(7));
    assert!(format!("{here:?}").contains('7'));
}

#[tokio::test]
async fn a_failed_attempt_is_followed_by_another() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    let failed = here.get_or_try_init(async || Err("no")).await;
    assert!(matches!(failed, Err(OnceCellError::Init("no"))));
    assert!(here.load().await.unwrap().is_none());
    assert_eq!(there.get_or_try_init(async || Ok::<_, ()>(1)).await.unwrap(), &1);
    assert_eq!(here.get_or_try_init(async || Err("no")).await.unwrap(), &1);
}

#[tokio::test]
async fn a_waiter_follows_a_cancelled_initializer() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    let mut first = Box::pin(here.get_or_init(async || pending().await));
    assert!(poll_once(first.as_mut()).await.is_pending());
    let mut second = Box::pin(there.get_or_init(async || 2));
    let mut local = Box::pin(here.get_or_init(async || 3));
    assert!(poll_once(second.as_mut()).await.is_pending());
    assert!(poll_once(local.as_mut()).await.is_pending());
    sleep(Duration::from_millis(20)).await;
    assert!(poll_once(second.as_mut()).await.is_pending());
    drop(first);
    let (second, local) = tokio::join!(second, local);
    assert_eq!(second.unwrap(), local.unwrap());
    pair.all_released().await;
}

/// If the next attempt shared the lease, the store would accept a late request of the dropped attempt.
#[tokio::test]
async fn the_next_attempt_in_this_process_has_a_lease_of_its_own() {
    let pair = Pair::threaded();
    let (first, _) = pair.cells();
    let (second, _) = pair.cells();
    let mut dropped = Box::pin(first.get_or_init(async || pending().await));
    assert!(poll_once(dropped.as_mut()).await.is_pending());
    eventually("it has the lock", || pair.store.live_leases() == 1).await;
    let before = pair.ours.stats().acquires;
    let mut next = Box::pin(second.get_or_init(async || 2));
    assert!(poll_once(next.as_mut()).await.is_pending());
    drop(dropped);
    assert_eq!(*next.await.unwrap(), 2);
    assert!(pair.ours.stats().acquires > before, "it was handed the lease of the former");
}

#[tokio::test]
async fn an_attempt_that_panics_is_followed_by_another() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    let here = Arc::new(here);
    let panics = tokio::spawn(async move {
        let panicked = here.get_or_init(async || std::panic::resume_unwind(Box::new("on purpose")));
        panicked.await.copied()
    });
    assert!(panics.await.unwrap_err().is_panic());
    assert_eq!(*there.get_or_init(async || 2).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_death_of_the_leader_starts_another_attempt() {
    let pair = short();
    let (here, _) = pair.cells();
    let dead = pair.store.client();
    let locks = Locks::builder(dead.clone()).ttl(TTL).on_runtime(tokio::runtime::Handle::current());
    let locks = locks.build().unwrap();
    let cell: OnceCell<u32> = locks.once_cell("cell").unwrap();
    let mut dying = Box::pin(cell.get_or_init(async || pending().await));
    assert!(poll_once(dying.as_mut()).await.is_pending());
    let mut waiting = Box::pin(here.get_or_init(async || 2));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(TTL * 2).await;
    assert!(poll_once(waiting.as_mut()).await.is_pending(), "it is renewed");
    dead.faults().cut();
    let begin = Instant::now();
    assert_eq!(*waiting.await.unwrap(), 2);
    assert!(begin.elapsed() <= TTL + Duration::from_millis(100));
    // The old holder learns that it was too late, and that there is a value.
    dead.faults().heal();
    assert_eq!(*dying.await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_attempt() {
    let pair = short();
    let (here, there) = pair.cells();
    let key = Key::new("cell").unwrap();
    let mut attempt = Box::pin(here.get_or_init(async || pending().await));
    assert!(poll_once(attempt.as_mut()).await.is_pending());
    pair.store.force_release(&key).await.unwrap();
    let error = attempt.await.unwrap_err();
    assert!(matches!(&error, OnceCellError::Lost(lost) if lost.reason() == LossReason::Revoked));
    assert!(here.load().await.unwrap().is_none());
    // Only the store knows of the loss. It refuses the write under the lost lease.
    let attempt = here.get_or_init(async || {
        pair.store.force_release(&key).await.unwrap();
        4
    });
    assert!(matches!(attempt.await, Err(OnceCellError::Lost(_))));
    assert!(there.load().await.unwrap().is_none());
    // If another cell was faster, its value counts.
    let attempt = here.get_or_init(async || {
        pair.store.force_release(&key).await.unwrap();
        there.set(5).await.unwrap();
        4
    });
    assert_eq!(*attempt.await.unwrap(), 5);
}

#[tokio::test]
async fn setting_tells_what_stands_in_its_way() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    let mut attempt = Box::pin(here.get_or_init(async || pending().await));
    assert!(poll_once(attempt.as_mut()).await.is_pending());
    for cell in [&here, &there] {
        let error = cell.set(2).await.unwrap_err();
        assert!(error.is_initializing_err() && !error.is_already_init_err());
        assert_eq!(error.to_string(), "InitializingError");
        assert_eq!(error.into_value(), 2);
    }
    drop(attempt);
    pair.all_released().await;
    there.set(3).await.unwrap();
    assert_eq!(there.get(), Some(&3));
    for cell in [&here, &there] {
        let error = cell.set(4).await.unwrap_err();
        assert!(error.is_already_init_err() && !error.is_initializing_err());
        assert_eq!(error.into_value(), 4);
        assert_eq!(cell.get(), Some(&3));
    }
}

#[tokio::test]
async fn each_waiter_hears_of_the_value() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    let (mut one, mut other) = (Box::pin(here.wait()), Box::pin(here.wait()));
    assert!(poll_once(one.as_mut()).await.is_pending());
    assert!(poll_once(other.as_mut()).await.is_pending());
    there.set(1).await.unwrap();
    let both = async { (*one.await.unwrap(), *other.await.unwrap()) };
    let both = tokio::time::timeout(Duration::from_secs(5), both).await;
    assert_eq!(both.expect("far sooner than the clock would say"), (1, 1));
    assert_eq!(*there.wait().await.unwrap(), 1);
}

#[tokio::test]
async fn waiters_read_the_value_while_the_lock_is_still_held() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    let gate = pair.ours.faults().on(Verb::Release).hold_requests();
    let (go, ready) = tokio::sync::oneshot::channel::<()>();
    let first = tokio::spawn(async move {
        let init = async || ready.await.map_or(0, |()| 1);
        here.get_or_init(init).await.copied()
    });
    let mut second = Box::pin(there.get_or_init(async || 2));
    while pair.store.live_leases() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(poll_once(second.as_mut()).await.is_pending());
    go.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    gate.arrived(1).await;
    assert_eq!(*second.await.unwrap(), 1);
    assert_eq!(pair.store.live_leases(), 1, "the release has not come through yet");
}

#[tokio::test(start_paused = true)]
async fn the_wait_limit_counts_for_everything_but_the_work() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).wait_limit(TTL / 2));
    let (here, there) = pair.cells();
    let begin = Instant::now();
    assert!(matches!(here.wait().await, Err(OnceCellError::Timeout { .. })));
    let slow = async || {
        sleep(TTL * 2).await;
        1
    };
    let mut attempt = Box::pin(here.get_or_init(slow));
    assert!(poll_once(attempt.as_mut()).await.is_pending());
    let (local, remote) = tokio::join!(here.get_or_init(slow), there.get_or_init(slow));
    assert!(matches!(local, Err(OnceCellError::Timeout { source: None })));
    assert!(matches!(remote, Err(OnceCellError::Timeout { source: None })));
    let waited = begin.elapsed();
    assert!(waited >= TTL && waited < TTL + Duration::from_millis(100), "{waited:?}");
    assert_eq!(*attempt.await.unwrap(), 1);
    let mut reset = here;
    let _gate = pair.ours.faults().on(Verb::Cell).hold_requests();
    let reset = tokio::time::timeout(TTL, reset.reset()).await.expect("it has a limit");
    assert!(matches!(reset, Err(OnceCellError::Timeout { .. })), "{reset:?}");
}

#[tokio::test]
async fn a_reset_holds_for_all_clients() {
    let pair = Pair::threaded();
    let (mut here, there) = pair.cells();
    assert_eq!(*there.get_or_init(async || 1).await.unwrap(), 1);
    here.reset().await.unwrap();
    assert_eq!(there.get(), Some(&1), "what was read stays");
    assert!(pair.there.once_cell::<u32, _>("cell").unwrap().load().await.unwrap().is_none());
    assert_eq!(*here.get_or_init(async || 2).await.unwrap(), 2);
    here.reset().await.unwrap();
    assert!(!here.initialized());
}

#[tokio::test]
async fn a_stored_value_of_another_type_is_an_error() {
    let pair = Pair::threaded();
    let text: OnceCell<String> = pair.here.once_cell("cell").unwrap();
    text.set("seven".into()).await.unwrap();
    let (_, number) = pair.cells();
    for result in [number.load().await.map(|_| &0), number.get_or_init(async || 7).await] {
        let error = result.unwrap_err();
        assert!(matches!(&error, OnceCellError::Value(e) if e.kind() == ErrorKind::Protocol));
    }
    assert!(matches!(number.wait().await, Err(OnceCellError::Value(_))));
    assert!(matches!(number.set(7).await, Err(SetError::Failed(7, OnceCellError::Value(_)))));
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_is_an_error() {
    let pair = Pair::threaded();
    let long: OnceCell<String> = pair.here.once_cell("long").unwrap();
    let error = long.get_or_init(async || "x".repeat(100_000)).await.unwrap_err();
    assert!(matches!(&error, OnceCellError::Value(e) if e.kind() == ErrorKind::InvalidConfig));
    let no_json: OnceCell<HashMap<(u8, u8), u8>> = pair.here.once_cell("map").unwrap();
    let map = HashMap::from([((1, 2), 3)]);
    let error = no_json.get_or_init(async || map.clone()).await.unwrap_err();
    assert!(matches!(&error, OnceCellError::Value(e) if e.kind() == ErrorKind::InvalidConfig));
    assert!(matches!(no_json.set(map).await, Err(SetError::Failed(_, OnceCellError::Value(_)))));
    pair.all_released().await;
}

#[tokio::test]
async fn a_shutdown_ends_the_wait() {
    let pair = Pair::threaded();
    let (here, there) = pair.cells();
    let mut elsewhere = Box::pin(there.get_or_init(async || pending().await));
    assert!(poll_once(elsewhere.as_mut()).await.is_pending());
    let (mut one, mut other) = (Box::pin(here.wait()), Box::pin(here.get_or_init(async || 1)));
    assert!(poll_once(one.as_mut()).await.is_pending());
    assert!(poll_once(other.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert!(matches!(one.await, Err(OnceCellError::Closed)));
    assert!(matches!(other.await, Err(OnceCellError::Closed)));
    assert!(matches!(here.set(1).await, Err(SetError::Failed(1, OnceCellError::Closed))));
}

/// Drops the future after its k-th poll, for every k, while another client comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    for round in 0..600_u32 {
        let (mut here, there) = pair.cells();
        let elsewhere = there.get_or_init(async || {
            tokio::task::yield_now().await;
            round
        });
        let mut elsewhere = Box::pin(elsewhere.fuse());
        if round % 3 == 0 {
            let _ = poll_once(elsewhere.as_mut()).await;
        }
        let mut waiting = Box::pin(here.get_or_init(async || {
            tokio::task::yield_now().await;
            round + 1
        }));
        for poll in 0..=round % 9 {
            if poll == 3 && !elsewhere.is_terminated() {
                let _ = poll_once(elsewhere.as_mut()).await;
            }
            if poll_once(waiting.as_mut()).await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(waiting);
        if !elsewhere.is_terminated() {
            let value = tokio::time::timeout(Duration::from_secs(10), elsewhere).await;
            assert!(value.expect("nothing is left in its way").is_ok());
        }
        assert_eq!(here.load().await.unwrap(), there.get());
        here.reset().await.unwrap();
    }
    pair.all_released().await;
}
