//! An election, over two clients.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use futures::StreamExt;
use lock_core::memory::Verb;
use lock_core::{CellBackend, ErrorKind, InspectBackend, Key};
use lock_sync::{
    Election, LeaderInfo, Leadership, LockError, Locks, LossReason, Observer, ReleaseError,
    SaveError, TryLockError,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::contract::assert_traits;
use crate::support::{Pair, dropped_after, eventually, poll_once};

const TTL: Duration = Duration::from_secs(3);

assert_traits! {
    Election: Send & Sync & Unpin;
    Leadership: Send & Sync & Unpin;
    LeaderInfo: Send & Sync & Unpin;
    Observer: Send & Sync & Unpin;
    SaveError: Send & Sync & Unpin & Error;
}

#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let pair = Pair::threaded();
    let (here, _) = pair.elections();
    check(here.campaign("me"));
    check(here.campaign_timeout("me", TTL));
    check(here.try_campaign("me"));
    check(here.leader());
    check(here.observe().next());
    check(here.observe().into_stream());
    let mut leadership = futures::executor::block_on(here.campaign("me")).unwrap();
    check(leadership.lease().while_held(std::future::ready(())));
    check(leadership.update("you"));
    check(leadership.resign());
}

impl Pair {
    /// One election on both sides.
    fn elections(&self) -> (Election, Election) {
        (self.here.election("it").unwrap(), self.there.election("it").unwrap())
    }
}

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

fn key() -> Key {
    Key::new("it").unwrap()
}

/// The value of the leader.
fn value(leader: &Option<LeaderInfo>) -> Option<&[u8]> {
    leader.as_ref().map(|leader| &leader.value[..])
}

async fn leader(election: &Election) -> Option<Vec<u8>> {
    election.leader().await.unwrap().map(|leader| leader.value)
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_the_state_and_then_each_change() {
    let pair = short();
    let (here, there) = pair.elections();
    let mut observer = there.observe();
    assert_eq!(observer.next().await.unwrap(), None);
    let begin = Instant::now();
    let mut leadership = here.campaign("me").await.unwrap();
    let seen = observer.next().await.unwrap();
    assert_eq!(value(&seen), Some(&b"me"[..]));
    leadership.update("still me").await.unwrap();
    assert_eq!(value(&observer.next().await.unwrap()), Some(&b"still me"[..]));
    assert_eq!(value(&there.observe().next().await.unwrap()), Some(&b"still me"[..]));
    leadership.resign().await.unwrap();
    assert_eq!(observer.next().await.unwrap(), None);
    assert!(begin.elapsed() < TTL / 10, "by hints, not by the clock");
    // The same candidate again is a change: it is another term.
    let again = here.campaign("me").await.unwrap();
    let seen_again = observer.next().await.unwrap().unwrap();
    assert!(seen_again.token > seen.unwrap().token);
    assert_eq!(seen_again.token, again.lease().fencing_token());
    // Without a change the observer reports nothing.
    assert!(timeout(TTL * 5, observer.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_death_of_a_leader_is_seen_and_followed() {
    let pair = short();
    let (here, _) = pair.elections();
    let dead = pair.store.client();
    let locks = Locks::builder(dead.clone()).ttl(TTL).on_runtime(Handle::current()).build();
    let election = locks.unwrap().election("it").unwrap();
    let dying = election.campaign("dying").await.unwrap();
    let mut observer = here.observe();
    assert_eq!(value(&observer.next().await.unwrap()), Some(&b"dying"[..]));
    sleep(TTL * 2).await;
    dead.faults().cut();
    let begin = Instant::now();
    assert_eq!(observer.next().await.unwrap(), None);
    assert!(begin.elapsed() <= TTL + TTL / 3 + Duration::from_millis(10));
    let next = here.campaign("next").await.unwrap();
    assert_eq!(value(&observer.next().await.unwrap()), Some(&b"next"[..]));
    assert_eq!(dying.lease().lost().await.reason(), LossReason::Expired);
    assert!(!dying.lease().is_valid() && dying.lease().check().is_err());
    assert!(next.lease().fencing_token() > dying.lease().fencing_token());
    dead.faults().heal();
    assert!(matches!(dying.resign().await, Err(ReleaseError::Lost(_))));
    assert_eq!(leader(&here).await.unwrap(), b"next");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_waits_follows_the_dead() {
    let pair = short();
    let (here, _) = pair.elections();
    let dead = pair.store.client();
    let locks = Locks::builder(dead.clone()).ttl(TTL).on_runtime(Handle::current()).build();
    let election = locks.unwrap().election("it").unwrap();
    let _dying = election.campaign("dying").await.unwrap();
    let mut waiting = Box::pin(here.campaign("next"));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    dead.faults().cut();
    let begin = Instant::now();
    assert!(waiting.await.unwrap().lease().is_valid());
    assert!(begin.elapsed() <= TTL + Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_deposed_changes_nothing_any_more() {
    let pair = short();
    let (here, there) = pair.elections();
    let mut deposed = here.campaign("deposed").await.unwrap();
    pair.store.force_release(&key()).await.unwrap();
    let error = deposed.update("me").await.unwrap_err();
    assert!(matches!(error, SaveError::Lost(_)), "{error:?}");
    let _next = there.campaign("next").await.unwrap();
    assert!(matches!(deposed.update("me").await, Err(SaveError::Lost(_))));
    assert_eq!(
        deposed.lease().while_held(pending::<()>()).await.unwrap_err().reason(),
        LossReason::Revoked
    );
    drop(deposed);
    sleep(TTL).await;
    assert_eq!(leader(&here).await.unwrap(), b"next");
}

#[tokio::test(start_paused = true)]
async fn hints_that_never_come_cost_time_but_nothing_else() {
    let pair = short();
    let (here, there) = pair.elections();
    pair.ours.faults().mute_hints(true);
    let mut observer = here.observe();
    assert_eq!(observer.next().await.unwrap(), None);
    let _leadership = there.campaign("me").await.unwrap();
    let begin = Instant::now();
    assert_eq!(value(&observer.next().await.unwrap()), Some(&b"me"[..]));
    assert!(begin.elapsed() <= TTL / 3 + Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn an_observer_reconnects_by_itself() {
    let pair = short();
    let (here, there) = pair.elections();
    let mut observer = here.observe();
    assert_eq!(observer.next().await.unwrap(), None);
    pair.ours.faults().cut();
    let leadership = there.campaign("1").await.unwrap();
    let error = observer.next().await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    pair.ours.faults().heal();
    assert_eq!(value(&observer.next().await.unwrap()), Some(&b"1"[..]));
    // A short outage is no error.
    pair.ours.faults().cut();
    leadership.resign().await.unwrap();
    let mut next = Box::pin(observer.next());
    assert!(timeout(TTL / 2, next.as_mut()).await.is_err());
    pair.ours.faults().heal();
    assert_eq!(next.await.unwrap(), None);
    pair.ours.faults().on(Verb::Cell).fail_next(1, ErrorKind::Denied);
    assert_eq!(observer.next().await.unwrap_err().kind(), ErrorKind::Denied);
}

/// Drops the future of an observer after each of its polls.
#[tokio::test]
async fn an_observer_that_is_cancelled_misses_nothing() {
    let pair = Pair::threaded();
    let (here, there) = pair.elections();
    let mut observer = here.observe();
    assert_eq!(observer.next().await.unwrap(), None);
    let patient = async |observer: &mut Observer| loop {
        if let std::task::Poll::Ready(seen) = poll_once(Box::pin(observer.next()).as_mut()).await {
            return seen.unwrap();
        }
        tokio::task::yield_now().await;
    };
    for round in 0..100_u32 {
        let name = round.to_string();
        let leadership = there.campaign(&name).await.unwrap();
        let seen = timeout(Duration::from_secs(5), patient(&mut observer)).await.unwrap();
        assert_eq!(value(&seen), Some(name.as_bytes()));
        leadership.resign().await.unwrap();
        assert_eq!(timeout(Duration::from_secs(5), patient(&mut observer)).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_was_cancelled_is_made_again() {
    let pair = short();
    let (here, there) = pair.elections();
    let mut observer = here.observe();
    assert_eq!(observer.next().await.unwrap(), None);
    let gate = pair.ours.faults().on(Verb::Cell).hold_replies();
    let _leadership = there.campaign("me").await.unwrap();
    // It has received the hint, and asks the store.
    tokio::select! {
        _ = observer.next() => panic!("the answer is held"),
        () = gate.arrived(1) => {}
    }
    gate.open();
    let begin = Instant::now();
    assert_eq!(value(&observer.next().await.unwrap()), Some(&b"me"[..]));
    assert!(begin.elapsed() < TTL / 10, "without another hint");
}

#[tokio::test]
async fn an_observer_is_a_stream() {
    let pair = Pair::threaded();
    let (here, there) = pair.elections();
    let mut leaders = Box::pin(here.observe().into_stream());
    assert_eq!(leaders.next().await.unwrap().unwrap(), None);
    let _leadership = there.campaign("me").await.unwrap();
    assert_eq!(value(&leaders.next().await.unwrap().unwrap()), Some(&b"me"[..]));
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_of_the_shutdown() {
    let pair = short();
    let (here, there) = pair.elections();
    let mut observer = here.observe();
    assert_eq!(observer.next().await.unwrap(), None);
    let mut next = Box::pin(observer.next());
    assert!(poll_once(next.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    let ended = timeout(TTL * 5, next).await.expect("it waits for ever");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ShuttingDown);
    // A change comes too late.
    let _leadership = there.campaign("me").await.unwrap();
    for mut observer in [observer, here.observe()] {
        assert_eq!(observer.next().await.unwrap_err().kind(), ErrorKind::ShuttingDown);
    }
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_an_observer_ends_with_its_locks() {
    let pair = short();
    let (here, _) = pair.elections();
    let mut leaders = Box::pin(here.observe().into_stream());
    assert_eq!(leaders.next().await.unwrap().unwrap(), None);
    pair.here.shutdown().await;
    let last = timeout(TTL * 5, leaders.next()).await.expect("it waits for ever");
    assert_eq!(last.unwrap().unwrap_err().kind(), ErrorKind::ShuttingDown);
    for _ in 0..2 {
        assert!(leaders.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_has_a_limit() {
    let pair = short();
    let (here, there) = pair.elections();
    let held = there.campaign("me").await.unwrap();
    let begin = Instant::now();
    let late = here.campaign_timeout("you", TTL * 2).await;
    assert!(matches!(late, Err(LockError::Timeout { source: None })), "{late:?}");
    let waited = begin.elapsed();
    assert!(waited >= TTL * 2 && waited < TTL * 2 + Duration::from_millis(50), "{waited:?}");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_limit_holds_while_the_value_is_stored_too() {
    let pair = short();
    let (here, _) = pair.elections();
    for fails in [true, false] {
        let storing = pair.ours.faults().on(Verb::Cell);
        let gate = (!fails).then(|| storing.hold_requests());
        if fails {
            storing.fail(ErrorKind::Unreachable);
        }
        let (begin, limit) = (Instant::now(), TTL / 3);
        let late = here.campaign_timeout("me", limit).await;
        assert!(matches!(late, Err(LockError::Timeout { .. })), "{late:?}");
        let waited = begin.elapsed();
        let is_in_time = waited >= limit && waited < limit + Duration::from_millis(50);
        assert!(is_in_time, "{waited:?}");
        drop(gate);
        pair.ours.faults().heal();
    }
    assert!(here.campaign("me").await.unwrap().lease().is_valid());
}

#[tokio::test]
async fn a_value_has_a_limit_too() {
    let pair = Pair::threaded();
    let (here, _) = pair.elections();
    let long = vec![b'x'; 100_000];
    let refused = |error: &lock_core::Error| error.kind() == ErrorKind::InvalidConfig;
    assert!(matches!(here.campaign(&long).await, Err(LockError::Backend(e)) if refused(&e)));
    assert!(matches!(here.try_campaign(&long).await, Err(TryLockError::Backend(e)) if refused(&e)));
    assert_eq!(pair.ours.stats().total(), 0, "no request is sent");
    let mut leadership = here.campaign("").await.unwrap();
    assert!(matches!(leadership.update(&long).await, Err(SaveError::Refused(e)) if refused(&e)));
    assert_eq!(leader(&here).await.unwrap(), b"", "the former value stands");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_loses_its_lease_before_its_name_is_stored_campaigns_again() {
    let pair = short();
    let (here, _) = pair.elections();
    let gate = pair.ours.faults().on(Verb::Cell).hold_requests();
    let mut waiting = Box::pin(here.campaign("me"));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    gate.arrived(1).await;
    pair.store.force_release(&key()).await.unwrap();
    gate.open();
    let leadership = waiting.await.unwrap();
    assert!(leadership.lease().is_valid());
    assert_eq!(here.leader().await.unwrap().unwrap().token, leadership.lease().fencing_token());
    assert_eq!(pair.ours.stats().acquires, 2);
}

#[tokio::test(start_paused = true)]
async fn an_update_without_an_answer_is_unknown_when_the_lease_has_ended() {
    let pair = short();
    let (here, _there) = pair.elections();
    let mut leadership = here.campaign("me").await.unwrap();
    pair.ours.faults().on(Verb::Cell).lose_replies(1);
    let mut updating = Box::pin(leadership.update("ready"));
    assert!(poll_once(updating.as_mut()).await.is_pending());
    pair.ours.faults().cut();
    assert!(matches!(updating.await, Err(SaveError::Unknown(_))));
    let stored = pair.store.load(&key()).await.unwrap();
    assert_eq!(stored.map(|cell| cell.value), Some(b"ready".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_put_up_with() {
    let pair = short();
    let (here, _) = pair.elections();
    pair.ours.faults().on(Verb::Cell).lose_replies(2);
    let leadership = here.campaign("me").await.unwrap();
    assert_eq!(leader(&here).await.unwrap(), b"me");
    drop(leadership);
    pair.all_released().await;
    pair.ours.faults().on(Verb::Cell).fail(ErrorKind::Denied);
    assert!(matches!(here.campaign("me").await, Err(LockError::Backend(_))));
    assert!(here.leader().await.is_err());
    pair.all_released().await;
}

#[tokio::test]
async fn a_shutdown_ends_campaigns_but_not_terms() {
    let pair = Pair::threaded();
    let (here, there) = pair.elections();
    let leadership = here.campaign("me").await.unwrap();
    let mut waiting = Box::pin(here.campaign("you"));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert!(matches!(waiting.await, Err(LockError::Closed)));
    assert!(matches!(here.try_campaign("you").await, Err(TryLockError::Closed)));
    assert!(leadership.lease().is_valid());
    assert_eq!(leader(&there).await.unwrap(), b"me");
    drop(leadership);
    pair.all_released().await;
}

/// Drops the campaign after its k-th poll, for every k, while another candidate comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    let (here, there) = pair.elections();
    for round in 0..1_000_u32 {
        let contended = round % 3 == 0;
        let held = if contended { Some(there.campaign("there").await.unwrap()) } else { None };
        let waiting = Box::pin(here.campaign("here"));
        dropped_after(waiting, round % 7, held, 2).await;
    }
    pair.all_released().await;
    let last = timeout(Duration::from_secs(10), there.campaign("last")).await.unwrap().unwrap();
    eventually("one lease", || pair.store.live_leases() == 1).await;
    assert_eq!(leader(&here).await.unwrap(), b"last");
    drop(last);
}

/// The runtime of a leader is gone, and its `Locks` too.
#[test]
fn a_leader_whose_runtime_is_gone_is_followed() {
    let pair = Pair::threaded();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (here, there) = pair.elections();
    runtime.spawn(async move {
        let _leadership = here.campaign("here").await.unwrap();
        pending::<()>().await;
    });
    runtime.block_on(async { tokio::task::yield_now().await });
    assert_eq!(pair.store.live_leases(), 1);
    let mut waiting = Box::pin(there.campaign_timeout("there", Duration::from_secs(10)));
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(other.block_on(poll_once(waiting.as_mut())).is_pending());
    drop(runtime);
    assert!(other.block_on(waiting).unwrap().lease().is_valid());
}
