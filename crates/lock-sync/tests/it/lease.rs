//! The lease of a guard: its renewal, its loss and its maximum.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{LossReason, MutexGuard, OwnedMutexGuard, ReleaseError};
use tokio::time::{Instant, advance, sleep};

use crate::support::{Pair, eventually, poll_once};

const TTL: Duration = Duration::from_secs(3);

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

/// The process watches the key of a guard that lives for a while, and asks the store once. Then it sends nothing more.
async fn settle() {
    sleep(Duration::from_millis(100)).await;
}

#[tokio::test(start_paused = true)]
async fn a_guard_outlives_its_ttl() {
    let pair = short();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    for _ in 0..10 {
        sleep(TTL).await;
        assert!(MutexGuard::lease(&guard).is_valid());
        assert!(there.try_lock().await.is_err());
    }
    MutexGuard::release(guard).await.unwrap();
    let renewals = pair.ours.stats().renewals;
    assert!((25..=35).contains(&renewals), "one every third of the ttl: {renewals}");
    sleep(TTL * 3).await;
    assert_eq!(pair.ours.stats().renewals, renewals, "renewal ends with the guard");
}

#[tokio::test(start_paused = true)]
async fn the_renewals_of_many_leases_travel_together() {
    const LOCKS: u64 = 20;
    let pair = short();
    let mut guards = Vec::new();
    for n in 0..LOCKS {
        let mutex = std::sync::Arc::new(pair.here.mutex(format!("{n}"), ()).unwrap());
        guards.push(mutex.lock_owned().await.unwrap());
        sleep(TTL / 300).await;
    }
    settle().await;
    // Three periods: they are acquired over a fifteenth of the ttl, and the window is half of that.
    let (mut bursts, mut seen) = (0, pair.ours.stats().renewals);
    let before = seen;
    for _ in 0..1_000 {
        sleep(TTL / 1_000).await;
        let renewals = pair.ours.stats().renewals;
        bursts += u64::from(renewals > seen);
        seen = renewals;
    }
    assert!(
        seen - before >= 2 * LOCKS
            && guards.iter().all(|guard| OwnedMutexGuard::lease(guard).is_valid())
    );
    assert!(bursts <= 4 * 3, "{seen} renewals in {bursts} bursts");
}

#[tokio::test(start_paused = true)]
async fn without_renewal_a_guard_ends_with_its_ttl() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).renewal(false));
    let (here, there) = pair.mutexes();
    let begin = Instant::now();
    let guard = here.lock().await.unwrap();
    let lost = MutexGuard::lease(&guard).lost().await;
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(begin.elapsed() < TTL, "before the store gives the lock away");
    assert!(
        !MutexGuard::lease(&guard).is_valid() && MutexGuard::lease(&guard).remaining().is_zero()
    );
    assert_eq!(pair.ours.stats().renewals, 0);
    assert!(there.lock_timeout(TTL).await.is_ok());
    assert!(matches!(MutexGuard::release(guard).await, Err(ReleaseError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_store_forgot_is_lost_at_the_next_renewal() {
    let pair = short();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let begin = Instant::now();
    pair.store.forget();
    let rival = there.lock().await.unwrap();
    let lost = MutexGuard::lease(&guard).lost().await;
    assert_eq!(lost.reason(), LossReason::Revoked);
    assert!(begin.elapsed() <= TTL / 3 + Duration::from_millis(50));
    assert!(MutexGuard::lease(&rival).fencing_token() > MutexGuard::lease(&guard).fencing_token());
    drop(guard);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(
        MutexGuard::lease(&rival).is_valid() && here.try_lock().await.is_err(),
        "the late drop touched nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn out_of_reach_a_guard_is_lost_before_the_store_gives_the_lock_away() {
    let pair = short();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let begin = Instant::now();
    pair.ours.faults().cut();
    assert!(MutexGuard::lease(&guard).is_valid(), "an outage alone is no loss");
    let (mut lost, mut taken) =
        (Box::pin(MutexGuard::lease(&guard).lost()), Box::pin(there.lock()));
    let first = tokio::select! {
        lost = lost.as_mut() => Ok(lost),
        taken = taken.as_mut() => Err(taken.map(|guard| MutexGuard::lease(&guard).fencing_token())),
    };
    assert_eq!(first.unwrap().reason(), LossReason::Expired);
    assert!(begin.elapsed() >= TTL * 9 / 10, "the whole lease was used");
    assert!(
        MutexGuard::lease(&taken.await.unwrap()).fencing_token()
            > MutexGuard::lease(&guard).fencing_token()
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_survived() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    pair.ours.faults().cut();
    sleep(TTL / 2).await;
    pair.ours.faults().heal();
    sleep(TTL).await;
    assert!(MutexGuard::lease(&guard).is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_is_lost_moves_nothing_but_loses_nothing() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    settle().await;
    let (until, before) = (MutexGuard::lease(&guard).valid_until(), pair.ours.stats().renewals);
    pair.ours.faults().on(Verb::Renew).lose_replies(1);
    sleep(TTL / 3 + Duration::from_millis(20)).await;
    assert_eq!(pair.ours.stats().renewals, before + 1);
    assert_eq!(MutexGuard::lease(&guard).valid_until(), until);
    sleep(TTL / 2).await;
    assert!(MutexGuard::lease(&guard).valid_until() > until);
}

#[tokio::test(start_paused = true)]
async fn a_hold_has_a_cap() {
    let cap = Duration::from_secs(10);
    let pair = Pair::local_with(|builder| builder.ttl(TTL).max_hold(cap));
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let begin = Instant::now();
    let mut waiting = Box::pin(there.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert_eq!(MutexGuard::lease(&guard).lost().await.reason(), LossReason::HeldTooLong);
    assert!(!MutexGuard::lease(&guard).is_valid());
    assert!(begin.elapsed() >= cap && begin.elapsed() < cap + TTL);
    let rival = waiting.await.unwrap();
    assert!(begin.elapsed() < cap + TTL, "released at the cap, not left to expire");
    assert!(MutexGuard::lease(&rival).is_valid());
}

#[tokio::test(start_paused = true)]
async fn work_ends_with_the_lease() {
    let pair = short();
    let mutex = pair.here.mutex("it", Vec::new()).unwrap();
    let mut guard = mutex.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard);
    assert_eq!(lease.while_held(async { guard.len() }).await, Ok(0));
    pair.store.forget();
    let working = lease.while_held(async {
        loop {
            guard.push(1);
            sleep(Duration::from_millis(100)).await;
        }
    });
    let result = working.await;
    let lost: lock_sync::LeaseLost = match result {
        Err(lost) => lost,
        Ok(never) => never,
    };
    assert_eq!(lost.reason(), LossReason::Revoked);
    assert!(!guard.is_empty(), "the data is still there to look at");
    assert!(lease.while_held(std::future::ready(())).await.is_err(), "it stays lost");
}

#[tokio::test]
async fn a_scope_can_run_in_a_spawned_task() {
    let pair = Pair::threaded();
    let mutex = std::sync::Arc::new(pair.here.mutex("it", 0).unwrap());
    let task = tokio::spawn(async move {
        let mut guard = mutex.lock_owned().await.unwrap();
        let lease = OwnedMutexGuard::lease(&guard);
        let working = lease.scope(async |lease| {
            tokio::task::yield_now().await;
            *guard += u32::from(lease.is_valid());
            *guard
        });
        working.await
    });
    assert_eq!(task.await.unwrap(), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_successor_waits_for_the_data_of_a_lost_guard() {
    let pair = short();
    let mutex = pair.here.mutex("it", 0).unwrap();
    let mut lost = mutex.lock().await.unwrap();
    pair.store.forget();
    MutexGuard::lease(&lost).lost().await;
    // The lock is free, the data is not: two `&mut` to it must never exist.
    let mut next = Box::pin(mutex.lock());
    assert!(poll_once(next.as_mut()).await.is_pending());
    sleep(TTL * 2).await;
    assert!(poll_once(next.as_mut()).await.is_pending());
    *lost = 7;
    drop(lost);
    let next = next.await.unwrap();
    assert_eq!(*next, 7);
    assert!(MutexGuard::lease(&next).is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_holds_up_its_own_process_only() {
    let pair = short();
    let (here, there) = pair.mutexes();
    let lost = here.lock().await.unwrap();
    pair.store.forget();
    MutexGuard::lease(&lost).lost().await;
    // A waiter of this process keeps to its limit, and keeps the lock from no other client.
    let begin = Instant::now();
    assert!(here.lock_timeout(TTL).await.is_err());
    assert!(begin.elapsed() < TTL * 2);
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    drop(there.lock_timeout(TTL).await.unwrap());
    drop(lost);
    assert!(MutexGuard::lease(&waiting.await.unwrap()).is_valid());
}

#[tokio::test(start_paused = true)]
async fn one_renewal_that_stalls_leaves_time_for_another() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    settle().await;
    let before = pair.ours.stats().renewals;
    let stalled = pair.ours.faults().on(Verb::Renew).hold_requests();
    sleep(TTL / 3 + Duration::from_millis(50)).await;
    assert_eq!(pair.ours.stats().renewals, before + 1);
    pair.ours.faults().on(Verb::Renew).hold_requests().open();
    sleep(TTL).await;
    assert!(MutexGuard::lease(&guard).is_valid());
    drop(stalled);
}

#[test]
fn work_that_blocks_past_the_deadline_is_not_well_done() {
    let pair = Pair::build(|b| b.ttl(Duration::from_millis(100)).renewal(false));
    let mutex = pair.here.mutex("it", 0).unwrap();
    let guard = mutex.blocking_lock().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let done = runtime.block_on(MutexGuard::lease(&guard).while_held(async {
        std::thread::sleep(Duration::from_millis(300));
    }));
    assert_eq!(done.unwrap_err().reason(), LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_slept_past_the_deadline_sees_it_at_once() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    // As after SIGCONT: time has passed, and nothing has run yet.
    pair.ours.faults().on(Verb::Renew).fail(ErrorKind::Unreachable);
    advance(TTL * 5).await;
    assert!(!MutexGuard::lease(&guard).is_valid());
    assert_eq!(MutexGuard::lease(&guard).check().unwrap_err().reason(), LossReason::Expired);
    eventually("the driver noticed as well", || {
        futures::FutureExt::now_or_never(MutexGuard::lease(&guard).lost()).is_some()
    })
    .await;
}

#[test]
fn a_blocked_executor_loses_nothing() {
    // A machine that stands still may delay one renewal, but not one in each attempt.
    let is_kept = (0..3).any(|_| keeps_its_lease_while_blocked());
    assert!(is_kept, "the driver has a thread of its own");
}

fn keeps_its_lease_while_blocked() -> bool {
    let pair = Pair::build(|builder| builder.ttl(Duration::from_millis(500)));
    let (here, there) = pair.mutexes();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let guard = here.lock().await.unwrap();
        std::thread::sleep(Duration::from_millis(1_500));
        let is_valid = MutexGuard::lease(&guard).is_valid();
        is_valid && there.try_lock().await.is_err()
    })
}

#[tokio::test(start_paused = true)]
async fn work_and_extensions_run_in_tasks_that_do_not_have_the_handle() {
    let pair = short();
    let mutex = pair.here.mutex("it", ()).unwrap().with_renewal(false);
    let guard = mutex.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard);
    let long = lock_core::Ttl::new(TTL * 10).unwrap();
    tokio::spawn(lease.extend(long)).await.unwrap().unwrap();
    assert!(lease.remaining() > TTL * 9);
    let working = tokio::spawn(lease.while_held(sleep(TTL)));
    assert_eq!(working.await.unwrap(), Ok(()));
    let working = tokio::spawn(lease.while_held(std::future::pending::<()>()));
    drop(lease);
    settle().await;
    drop(guard);
    assert_eq!(working.await.unwrap().unwrap_err().reason(), LossReason::Released);
}
