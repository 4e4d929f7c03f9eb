//! The leases behind permits.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{AcquireError, LossReason, ReleaseError, TryAcquireError};
use tokio::time::{Instant, sleep};

use crate::semaphore::becomes_available;
use crate::support::{Pair, poll_once};

const TTL: Duration = Duration::from_secs(3);

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

#[tokio::test(start_paused = true)]
async fn a_permit_outlives_its_ttl() {
    let pair = short();
    let (here, there) = pair.semaphores(2);
    let mut permit = here.acquire().await.unwrap();
    permit.merge(here.acquire().await.unwrap());
    for _ in 0..5 {
        sleep(TTL).await;
        assert!(permit.lease().is_valid() && permit.lease().remaining() > Duration::ZERO);
        assert!(there.try_acquire().await.is_err());
    }
    permit.release().await.unwrap();
    assert_eq!(there.available_permits().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_query_waits_for_a_release_although_an_earlier_return_of_permits_has_failed() {
    let pair = short();
    let (here, _) = pair.semaphores(3);
    let mut permits = here.acquire_many(3).await.unwrap();
    let (faults, asked) = (pair.ours.faults(), pair.ours.stats().acquires);
    faults.on(Verb::Acquire).fail(ErrorKind::NotReady);
    drop(permits.split(1).unwrap());
    while pair.ours.stats().acquires == asked {
        sleep(Duration::from_millis(1)).await;
    }
    let gate = faults.on(Verb::Release).hold_requests();
    drop(permits);
    let mut query = Box::pin(here.available_permits());
    for _ in 0..100 {
        assert!(poll_once(query.as_mut()).await.is_pending());
        tokio::task::yield_now().await;
    }
    drop(gate);
    assert_eq!(query.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_permits_of_a_crashed_holder_come_back() {
    let pair = short();
    let (here, there) = pair.semaphores(3);
    let dead = here.acquire_many(2).await.unwrap();
    let _live = there.acquire().await.unwrap();
    let begin = Instant::now();
    pair.ours.faults().cut();
    let mut waiting = Box::pin(there.acquire_many(2));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let lost = tokio::select! {
        lost = dead.lease().lost() => lost,
        _ = waiting.as_mut() => panic!("granted before the holder knew of its loss"),
    };
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(waiting.await.unwrap().lease().fencing_token() > dead.lease().fencing_token());
    assert!(begin.elapsed() >= TTL * 9 / 10 && begin.elapsed() < TTL * 2);
    assert!(!dead.lease().is_valid() && dead.lease().remaining().is_zero());
    assert_eq!(dead.lease().check(), Err(lost));
    pair.ours.faults().heal();
    assert!(matches!(dead.release().await, Err(ReleaseError::Lost(_))));
    becomes_available(&there, 2).await;
    sleep(TTL).await;
    assert_eq!(there.available_permits().await.unwrap(), 2, "the late release gave nothing back");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_crashes_delays_others_only_for_its_place() {
    let pair = short();
    let (here, there) = pair.semaphores(3);
    let held = there.acquire().await.unwrap();
    let mut dead = Box::pin(here.acquire_many(3));
    assert!(poll_once(dead.as_mut()).await.is_pending());
    becomes_available(&there, 0).await;
    let begin = Instant::now();
    pair.ours.faults().cut();
    // It wants all of them, and no other request may overtake it until then.
    let next = there.acquire_many_timeout(2, TTL * 3).await.unwrap();
    assert!(begin.elapsed() < TTL * 3 / 2, "{:?}", begin.elapsed());
    drop((held, next));
    becomes_available(&there, 3).await;
}

#[tokio::test(start_paused = true)]
async fn without_renewal_a_permit_ends_with_its_ttl() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL).renewal(false));
    let (here, there) = pair.semaphores(1);
    let permit = here.acquire().await.unwrap();
    assert_eq!(permit.lease().lost().await.reason(), LossReason::Expired);
    assert!(there.acquire_timeout(TTL).await.is_ok());
    assert_eq!(permit.lease().while_held(std::future::ready(())).await.unwrap_err().reason(), {
        LossReason::Expired
    });
}

#[tokio::test(start_paused = true)]
async fn a_lost_permit_does_not_hold_up_the_other_permits() {
    let pair = short();
    let (here, _) = pair.semaphores(2);
    let lost = here.acquire_many(2).await.unwrap();
    pair.store.forget();
    assert_eq!(lost.lease().lost().await.reason(), LossReason::Revoked);
    // A permit gives access to no data, so a lost permit does not hold up other holders.
    let next = here.acquire_many_timeout(2, TTL).await.unwrap();
    assert!(next.lease().is_valid() && !lost.lease().is_valid());
    drop(lost);
    sleep(TTL).await;
    assert!(next.lease().is_valid());
}

#[tokio::test(start_paused = true)]
async fn permits_put_together_are_valid_together() {
    let pair = short();
    let (here, _) = pair.semaphores(3);
    let mut permit = here.acquire().await.unwrap();
    pair.store.forget();
    permit.lease().lost().await;
    let later = here.acquire_many(2).await.unwrap();
    let token = permit.lease().fencing_token();
    permit.merge(later);
    assert!(!permit.lease().is_valid() && permit.lease().remaining().is_zero());
    assert_eq!(permit.lease().fencing_token(), token, "the lowest: that of the lost one");
    assert_eq!(permit.lease().lost().await.reason(), LossReason::Revoked);
    assert!(permit.lease().while_held(std::future::pending::<()>()).await.is_err());
    // The permits that were acquired last are split off first.
    let valid = permit.split(2).unwrap();
    assert!(valid.lease().is_valid() && !permit.lease().is_valid());
    assert!(valid.lease().while_held(std::future::ready(7)).await.is_ok());
    let mut permit = {
        let mut valid = valid;
        valid.merge(permit);
        valid
    };
    assert!(!permit.lease().is_valid(), "wherever the lost one is among them");
    permit.merge(here.acquire().await.unwrap());
    assert!(!permit.lease().is_valid());
    assert!(matches!(permit.release().await, Err(ReleaseError::Lost(_))));
    assert_eq!(pair.store.live_leases(), 0, "the others were given back all the same");
}

#[tokio::test(start_paused = true)]
async fn a_permit_has_a_cap() {
    let cap = Duration::from_secs(10);
    let pair = Pair::local_with(|builder| builder.ttl(TTL).max_hold(cap));
    let (here, there) = pair.semaphores(1);
    let permit = here.acquire().await.unwrap();
    let begin = Instant::now();
    let mut waiting = Box::pin(there.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert_eq!(permit.lease().lost().await.reason(), LossReason::HeldTooLong);
    drop(waiting.await.unwrap());
    assert!(begin.elapsed() >= cap && begin.elapsed() < cap + TTL);
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_stays_forgotten_when_its_lease_would_have_ended() {
    let pair = short();
    let (here, there) = pair.semaphores(2);
    here.acquire().await.unwrap().forget();
    sleep(TTL * 3).await;
    assert_eq!(there.available_permits().await.unwrap(), 1);
    assert_eq!(pair.store.live_leases(), 0);
}

/// The permits beside the forgotten ones stay for a moment, and go back before the store forgets.
#[tokio::test(start_paused = true)]
async fn a_part_is_forgotten_although_the_other_part_and_the_semaphore_are_dropped() {
    let pair = short();
    let (here, there) = pair.semaphores(4);
    let mut permit = here.acquire_many(2).await.unwrap();
    permit.split(1).unwrap().forget();
    drop(permit);
    drop(here);
    sleep(TTL / 10).await;
    assert_eq!(there.available_permits().await.unwrap(), 3);
    assert_eq!(pair.store.live_leases(), 0);
    sleep(TTL * 3).await;
    assert_eq!(there.available_permits().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn forgetting_survives_a_short_outage() {
    let pair = short();
    let (here, there) = pair.semaphores(2);
    let permit = here.acquire().await.unwrap();
    pair.ours.faults().on(Verb::Count).fail_next(2, ErrorKind::Unreachable);
    permit.forget();
    sleep(TTL * 3).await;
    assert_eq!(there.available_permits().await.unwrap(), 1);
}

/// The process gives unused permits back before it asks for more, because the request for more may not succeed.
#[tokio::test(start_paused = true)]
async fn a_try_beside_permits_that_cannot_be_given_back_does_not_wait() {
    let pair = short();
    let (here, _) = pair.semaphores(3);
    let mut kept = here.acquire_many(2).await.unwrap();
    let idle = kept.split(1).unwrap();
    pair.ours.faults().cut();
    drop(idle);
    let begin = Instant::now();
    assert!(matches!(here.try_acquire_many(2).await, Err(TryAcquireError::Backend(_))));
    assert!(begin.elapsed() < TTL / 3, "{:?}", begin.elapsed());
    pair.ours.faults().heal();
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn out_of_reach_is_an_error() {
    let pair = short();
    let (here, _) = pair.semaphores(2);
    pair.ours.faults().cut();
    for error in [
        here.available_permits().await.unwrap_err(),
        here.add_permits(1).await.unwrap_err(),
        here.forget_permits(1).await.unwrap_err(),
        here.close_for_all().await.unwrap_err(),
        here.is_closed_for_all().await.unwrap_err(),
    ] {
        assert!(error.is_retryable(), "{error:?}");
    }
    assert!(!here.is_closed());
    assert!(matches!(here.acquire().await, Err(AcquireError::Backend(_))));
    pair.ours.faults().heal();
    assert!(here.acquire().await.is_ok());
}

/// The permits of a holder that kept them for too long may already be with another holder.
#[tokio::test(start_paused = true)]
async fn a_part_of_permits_that_are_lost_cannot_be_forgotten() {
    let cap = Duration::from_secs(1);
    let pair = Pair::local_with(|builder| builder.max_hold(cap));
    let semaphore = pair.here.semaphore("it", 8).unwrap();
    let mut older = semaphore.acquire_many(4).await.unwrap();
    drop(older.split(2).unwrap());
    sleep(Duration::from_millis(2)).await;
    let younger = semaphore.acquire_many(2).await.unwrap();
    sleep(cap - Duration::from_millis(1)).await;
    assert!(!older.lease().is_valid() && younger.lease().is_valid());
    older.split(1).unwrap().forget();
    drop((older, younger));
    pair.all_released().await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 8);
}

/// The permits that the waiter wants go back to the store first, and the store does not take them.
#[tokio::test(start_paused = true)]
async fn a_waiter_hears_of_a_store_that_takes_no_permits_back() {
    let pair = short();
    let (here, _) = pair.semaphores(4);
    let mut permit = here.acquire_many(3).await.unwrap();
    let part = permit.split(1).unwrap();
    pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::NotReady);
    drop(part);
    let waiting = tokio::time::timeout(TTL * 3, here.acquire_many(2)).await.unwrap();
    let Err(AcquireError::Backend(error)) = waiting else { panic!("{waiting:?}") };
    assert_eq!(error.kind(), ErrorKind::NotReady);
    assert!(permit.lease().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_in_the_line_of_the_store_hears_of_no_other_request() {
    let pair = short();
    let (here, there) = pair.semaphores(5);
    let _theirs = there.acquire().await.unwrap();
    let mut permit = here.acquire_many(4).await.unwrap();
    let part = permit.split(1).unwrap();
    let mut waiting = Box::pin(here.acquire_many(2));
    assert!(tokio::time::timeout(TTL / 10, waiting.as_mut()).await.is_err());
    let asked = pair.ours.stats().acquires;
    pair.ours.faults().on(Verb::Acquire).fail_next(1, ErrorKind::Denied);
    drop(part);
    assert!(tokio::time::timeout(TTL / 3, waiting.as_mut()).await.is_err());
    assert!(pair.ours.stats().acquires > asked, "the store has refused the conversion");
    drop(permit);
    assert!(tokio::time::timeout(TTL, waiting).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn forgotten_permits_are_not_renewed_while_the_store_takes_no_idle_ones_back() {
    let pair = short();
    let (here, _) = pair.semaphores(4);
    let mut permit = here.acquire_many(3).await.unwrap();
    let part = permit.split(1).unwrap();
    pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::NotReady);
    part.forget();
    drop(permit);
    sleep(TTL * 3).await;
    assert_eq!(pair.store.live_leases(), 0);
    assert!(pair.here.shutdown_timeout(TTL).await);
}
