//! A barrier, over two clients.

use std::time::Duration;

use lock_core::memory::{Gate, MemoryBackend, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, ErrorKind, InspectBackend, Key,
    OwnerToken, Stored, Ttl,
};
use lock_sync::{Barrier, BarrierWaitResult, LockError, Locks};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::contract::assert_traits;
use crate::support::{Pair, poll_once};

const TTL: Duration = Duration::from_secs(3);

assert_traits! {
    tokio::sync::Barrier: Send & Sync & Unpin;
    Barrier: Send & Sync & Unpin;
    tokio::sync::BarrierWaitResult: Send & Sync & Unpin;
    BarrierWaitResult: Send & Sync & Unpin;
}

#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let pair = Pair::threaded();
    let (here, _) = pair.barriers(2);
    check(here.wait());
    check(here.wait_timeout(TTL));
}

impl Pair {
    /// One barrier on both sides.
    fn barriers(&self, n: usize) -> (Barrier, Barrier) {
        (self.here.barrier("it", n).unwrap(), self.there.barrier("it", n).unwrap())
    }
}

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

/// The number of arrivals in the first round.
async fn arrived(store: &MemoryBackend) -> u64 {
    store.inspect(&Key::new("it:arrivals:0").unwrap()).await.unwrap().holding
}

async fn has_arrived(store: &MemoryBackend, count: u64) {
    while arrived(store).await != count {
        sleep(Duration::from_millis(1)).await;
    }
}

fn leaders(results: &[BarrierWaitResult]) -> usize {
    results.iter().filter(|result| result.is_leader()).count()
}

#[tokio::test]
async fn one_participant_need_not_wait() {
    let pair = Pair::threaded();
    for n in [0, 1] {
        let barrier = pair.here.barrier("one", n).unwrap();
        assert!(barrier.wait().await.unwrap().is_leader());
        assert!(barrier.wait().await.unwrap().is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_passed_at_once_and_by_a_few_requests() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let begin = Instant::now();
    let (one, other) = tokio::join!(here.wait(), there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
    assert!(begin.elapsed() < TTL / 10, "by hints, not by the clock");
    let stats = pair.ours.stats();
    assert!(stats.total() <= 12, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_participant_does_not_count_beyond_its_lease() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let dead = pair.store.client();
    let locks = Locks::builder(dead.clone()).ttl(TTL).on_runtime(Handle::current()).build();
    let barrier = locks.unwrap().barrier("it", 2).unwrap();
    let mut dying = Box::pin(barrier.wait());
    assert!(timeout(TTL * 2, dying.as_mut()).await.is_err());
    dead.faults().cut();
    assert_eq!(arrived(&pair.store).await, 1);
    sleep(TTL).await;
    assert_eq!(arrived(&pair.store).await, 0);
    let mut waiting = Box::pin(here.wait());
    assert!(timeout(TTL * 5, waiting.as_mut()).await.is_err(), "it is alone now");
    let begin = Instant::now();
    let (one, other) = tokio::join!(waiting, there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
    assert!(begin.elapsed() < TTL, "another one came in its place");
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_loses_its_lease_arrives_again() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let mut waiting = Box::pin(here.wait());
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    let arrivals = Key::new("it:arrivals:0").unwrap();
    assert_eq!(pair.store.force_release(&arrivals).await.unwrap(), 1);
    assert!(timeout(TTL * 2, waiting.as_mut()).await.is_err());
    assert_eq!(arrived(&pair.store).await, 1, "it is there again");
    // The store forgets everything.
    pair.store.forget();
    assert!(timeout(TTL * 2, waiting.as_mut()).await.is_err());
    assert_eq!(arrived(&pair.store).await, 1);
    let (one, other) = tokio::join!(waiting, there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_forgets_the_round_is_no_reason_to_pass() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let (one, other) = tokio::join!(here.wait(), there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
    let mut waiting = Box::pin(here.wait());
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    pair.store.forget();
    assert!(timeout(TTL * 3, waiting.as_mut()).await.is_err(), "it is alone");
    let (one, other) = tokio::join!(waiting, there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_participant_cut_off_for_a_while_arrives_again() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let mut waiting = Box::pin(here.wait_timeout(TTL * 100));
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    pair.ours.faults().cut();
    assert!(timeout(TTL * 2, waiting.as_mut()).await.is_err());
    assert_eq!(arrived(&pair.store).await, 0);
    pair.ours.faults().heal();
    assert!(timeout(TTL * 2, waiting.as_mut()).await.is_err());
    assert_eq!(arrived(&pair.store).await, 1);
    let (one, other) = tokio::join!(waiting, there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_counted_participant_passes_although_it_was_cut_off() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let mut waiting = Box::pin(here.wait_timeout(TTL * 100));
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    pair.ours.faults().cut();
    assert!(there.wait().await.unwrap().is_leader());
    assert!(timeout(TTL * 2, waiting.as_mut()).await.is_err(), "it cannot know");
    pair.ours.faults().heal();
    assert!(!waiting.await.unwrap().is_leader());
}

#[tokio::test(start_paused = true)]
async fn another_takes_the_place_of_a_leader_that_dies_at_the_door() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let dead = pair.store.client();
    let locks = Locks::builder(dead.clone()).ttl(TTL).on_runtime(Handle::current()).build();
    let barrier = locks.unwrap().barrier("it", 2).unwrap();
    let mut waiting = Box::pin(here.wait());
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    // The store counts two, and the client dies before it gets the count.
    let gate = dead.faults().on(Verb::Count).hold_replies();
    let mut dying = Box::pin(barrier.wait());
    until_counted(&gate, &mut dying).await;
    assert_eq!(arrived(&pair.store).await, 2);
    dead.faults().cut();
    let begin = Instant::now();
    let (one, other) = tokio::join!(waiting, there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
    let waited = begin.elapsed();
    assert!(waited >= TTL / 2 && waited < TTL * 2, "as soon as its leases have ended: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_with_an_unconfirmed_write_leads() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let mut waiting = Box::pin(there.wait());
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    // The load before, and the first two tries to store.
    let gate = pair.ours.faults().on(Verb::Count).hold_replies();
    let mut leading = Box::pin(here.wait());
    until_counted(&gate, &mut leading).await;
    pair.ours.faults().on(Verb::Cell).lose_replies(3);
    gate.open();
    let (leading, waiting) = tokio::join!(leading, waiting);
    assert!(leading.unwrap().is_leader() && !waiting.unwrap().is_leader());
}

/// Lets a participant go on until the store has counted it but has not answered yet.
async fn until_counted(gate: &Gate, participant: &mut (impl Future + Unpin)) {
    tokio::select! {
        _ = participant => panic!("it waits for its count"),
        () = gate.arrived(1) => {}
    }
}

/// Writes the value beside the barrier as another client would, or erases it.
async fn meddle(store: &MemoryBackend, value: Option<&[u8]>) {
    let claim = Claim::exclusive(Key::new("it").unwrap(), OwnerToken::generate().unwrap());
    let request = Acquire::new(claim.clone(), Ttl::DEFAULT);
    let Ok(AcquireOutcome::Granted(grant)) = store.try_acquire(&request).await else { panic!() };
    let stored = store.store(&claim, grant.tokens.first(), value).await.unwrap();
    assert_eq!(stored, Stored::Written);
    store.release(&claim).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_late_count_does_not_begin_a_round() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let mut waiting = Box::pin(there.wait());
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    let gate = pair.ours.faults().on(Verb::Count).hold_replies();
    let mut late = Box::pin(here.wait());
    until_counted(&gate, &mut late).await;
    // Another participant, which took it for dead, was faster.
    meddle(&pair.store, Some(b"2")).await;
    assert!(!waiting.await.unwrap().is_leader());
    let mut next = Box::pin(there.wait());
    gate.open();
    assert!(!late.await.unwrap().is_leader(), "it passes, but has not led");
    assert!(timeout(TTL * 2, next.as_mut()).await.is_err(), "the next round is a round of its own");
    assert!(here.wait().await.unwrap().is_leader());
    assert!(!next.await.unwrap().is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_round_that_was_forgotten_is_left() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let (one, other) = tokio::join!(here.wait(), there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
    let mut waiting = Box::pin(here.wait());
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    assert_eq!(arrived(&pair.store).await, 0, "this is another round");
    // The arrivals still exist, but no other participant can know their name any more.
    meddle(&pair.store, None).await;
    assert!(timeout(TTL, waiting.as_mut()).await.is_err());
    assert_eq!(arrived(&pair.store).await, 1);
    let (one, other) = tokio::join!(waiting, there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_finds_its_own_word_in_the_store() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    let mut waiting = Box::pin(there.wait());
    assert!(timeout(TTL / 10, waiting.as_mut()).await.is_err());
    let counted = pair.ours.faults().on(Verb::Count).hold_replies();
    let mut leading = Box::pin(here.wait());
    tokio::select! {
        _ = &mut leading => panic!("it waits for its count"),
        () = counted.arrived(1) => {}
    }
    // The reply to its write is lost, and so is its lease before it can ask again.
    let cells = pair.ours.faults().on(Verb::Cell).hold_replies();
    counted.open();
    tokio::select! {
        _ = &mut leading => panic!("it looks for the round"),
        () = cells.arrived(1) => {}
    }
    pair.ours.faults().on(Verb::Cell).lose_replies(1);
    cells.let_through(1);
    tokio::select! {
        _ = &mut leading => panic!("it stores"),
        () = cells.arrived(2) => {}
    }
    assert!(!waiting.await.unwrap().is_leader());
    pair.store.force_release(&Key::new("it").unwrap()).await.unwrap();
    cells.open();
    assert!(leading.await.unwrap().is_leader());
}

#[tokio::test]
async fn a_withdrawn_arrival_does_not_count() {
    let pair = Pair::threaded();
    let (here, there) = pair.barriers(2);
    let mut waiting = Box::pin(here.wait());
    let arriving = async {
        tokio::select! {
            _ = &mut waiting => panic!("it is alone"),
            () = has_arrived(&pair.store, 1) => {}
        }
    };
    arriving.await;
    drop(waiting);
    has_arrived(&pair.store, 0).await;
    let alone = there.wait_timeout(Duration::from_millis(50)).await;
    assert!(matches!(alone, Err(LockError::Timeout { source: None })), "{alone:?}");
    has_arrived(&pair.store, 0).await;
    let (one, other) = tokio::join!(here.wait(), there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
    pair.all_released().await;
}

#[tokio::test]
async fn another_number_is_an_error_that_names_both() {
    let pair = Pair::threaded();
    let two = pair.here.barrier("it", 2).unwrap();
    let seven = pair.there.barrier("it", 7).unwrap();
    let mut waiting = Box::pin(two.wait());
    let refused = async {
        tokio::select! {
            _ = &mut waiting => panic!("it is alone"),
            error = async { has_arrived(&pair.store, 1).await; seven.wait().await } => error,
        }
    };
    let Err(LockError::Backend(error)) = refused.await else { panic!() };
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let message = error.to_string();
    assert!(message.contains('2') && message.contains('7'), "{message}");
    let (one, other) = tokio::join!(waiting, two.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
}

#[tokio::test]
async fn names_and_numbers_are_checked_before_anything_is_sent() {
    let pair = Pair::threaded();
    let kind = |error: lock_core::Error| error.kind();
    assert_eq!(kind(pair.here.barrier("x".repeat(490), 2).unwrap_err()), ErrorKind::InvalidKey);
    assert!(pair.here.barrier("x".repeat(480), 2).is_ok());
    assert_eq!(kind(pair.here.barrier("x", usize::MAX).unwrap_err()), ErrorKind::InvalidConfig);
    assert_eq!(pair.ours.stats().total(), 0);
    let exact = Key::raw("it").unwrap();
    let prefixed = Locks::builder(pair.ours.clone()).prefix("app/").build().unwrap();
    assert_eq!(prefixed.barrier(&exact, 1).unwrap().key(), &exact);
    assert_eq!(prefixed.barrier("it", 1).unwrap().key().as_bytes(), b"app/it");
    assert!(prefixed.barrier("it", 1).unwrap().wait().await.unwrap().is_leader());
}

#[tokio::test(start_paused = true)]
async fn hints_that_never_come_cost_time_but_nothing_else() {
    let pair = short();
    let (here, there) = pair.barriers(2);
    pair.ours.faults().mute_hints(true);
    let mut waiting = Box::pin(here.wait());
    assert!(timeout(TTL * 2, waiting.as_mut()).await.is_err());
    let begin = Instant::now();
    let (one, other) = tokio::join!(waiting, there.wait());
    assert_eq!(leaders(&[one.unwrap(), other.unwrap()]), 1);
    assert!(begin.elapsed() <= TTL / 3 + Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn the_wait_limit_counts() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).wait_limit(TTL));
    let (here, _) = pair.barriers(2);
    let begin = Instant::now();
    assert!(matches!(here.wait().await, Err(LockError::Timeout { source: None })));
    assert!(begin.elapsed() >= TTL && begin.elapsed() < TTL + Duration::from_millis(50));
    pair.all_released().await;
    pair.ours.faults().cut();
    let error = here.wait().await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: Some(_) }), "it says why: {error:?}");
}

#[tokio::test(start_paused = true)]
async fn out_of_reach_is_an_error_after_a_lease() {
    let pair = short();
    let (here, _) = pair.barriers(2);
    pair.ours.faults().cut();
    let begin = Instant::now();
    let error = here.wait().await.unwrap_err();
    assert!(matches!(&error, LockError::Backend(e) if e.is_retryable()), "{error:?}");
    assert!(begin.elapsed() >= TTL && begin.elapsed() < TTL * 2);
}

#[tokio::test]
async fn a_shutdown_ends_the_wait() {
    let pair = Pair::threaded();
    let (here, _) = pair.barriers(2);
    let mut waiting = Box::pin(here.wait());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert!(matches!(waiting.await, Err(LockError::Closed)));
    assert!(matches!(here.wait().await, Err(LockError::Closed)));
    pair.all_released().await;
}

/// Drops the future after its k-th poll, for every k; afterwards the barrier works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_after_any_poll() {
    let pair = Pair::threaded();
    let (here, there) = pair.barriers(3);
    for round in 0..300_u32 {
        let mut waiting = Box::pin(here.wait());
        for _ in 0..=round % 20 {
            assert!(poll_once(waiting.as_mut()).await.is_pending(), "it is alone");
            tokio::task::yield_now().await;
        }
        drop(waiting);
    }
    pair.all_released().await;
    let all = async { tokio::join!(here.wait(), there.wait(), there.wait()) };
    let (one, two, three) = timeout(Duration::from_secs(10), all).await.unwrap();
    assert_eq!(leaders(&[one.unwrap(), two.unwrap(), three.unwrap()]), 1);
}
