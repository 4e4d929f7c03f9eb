//! The lease that readers share.

use std::time::Duration;

use lock_core::memory::Verb;
use lock_sync::{
    LockError, LossReason, ReleaseError, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
use tokio::time::{Instant, sleep};

use super::{begin, rwlocks, soon, still_waits};
use crate::support::{Pair, poll_once};

const TTL: Duration = Duration::from_secs(3);

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

#[tokio::test(start_paused = true)]
async fn many_readers_renew_one_lease() {
    let pair = short();
    let (here, there) = rwlocks(&pair);
    let mut readers = Vec::new();
    for _ in 0..100 {
        readers.push(here.read().await.unwrap());
    }
    sleep(TTL * 10).await;
    assert!(readers.iter().all(|guard| RwLockReadGuard::lease(guard).is_valid()));
    assert!(there.try_write().await.is_err());
    let renewals = pair.ours.stats().renewals;
    assert!((25..=40).contains(&renewals), "one every third of the ttl: {renewals}");
    drop(readers);
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn readers_share_a_lease_until_another_process_waits() {
    let pair = short();
    let (here, there) = rwlocks(&pair);
    let first = here.read().await.unwrap();
    for _ in 0..20 {
        sleep(TTL / 2).await;
        assert!(RwLockReadGuard::lease(&here.read().await.unwrap()).is_valid());
    }
    assert!(RwLockReadGuard::lease(&first).is_valid());
    assert_eq!(pair.store.live_leases(), 1);
    let stats = pair.ours.stats();
    assert!(stats.acquires <= 2, "one to have it, perhaps one to hear who wants it: {stats:?}");
    // When another process waits, sharing ends, even after a long time.
    let mut writing = Box::pin(there.write());
    begin(writing.as_mut()).await;
    super::refuses_readers(&here).await;
    drop(first);
    drop(soon(writing).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_writer_and_those_after_it_outlive_the_ttl() {
    let pair = short();
    let (here, there) = rwlocks(&pair);
    let writing = here.write().await.unwrap();
    sleep(TTL * 3).await;
    assert!(RwLockWriteGuard::lease(&writing).is_valid() && there.try_read().await.is_err());
    let reading = writing.downgrade_to_upgradable();
    sleep(TTL * 3).await;
    assert!(
        RwLockUpgradableReadGuard::lease(&reading).is_valid() && there.try_write().await.is_err()
    );
    assert!(soon(there.read()).await.is_ok());
    let writing = soon(reading.upgrade()).await.unwrap();
    sleep(TTL * 3).await;
    assert!(RwLockWriteGuard::lease(&writing).is_valid() && there.try_read().await.is_err());
    let reading = writing.downgrade();
    sleep(TTL * 3).await;
    assert!(RwLockReadGuard::lease(&reading).is_valid() && there.try_write().await.is_err());
    RwLockReadGuard::release(reading).await.unwrap();
    assert!(there.try_write().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_is_lost_to_every_reader() {
    let pair = short();
    let (here, there) = rwlocks(&pair);
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(here.read().await.unwrap());
    }
    let lost: Vec<_> = readers.iter().map(|guard| RwLockReadGuard::lease(guard).lost()).collect();
    pair.store.forget();
    for lost in futures::future::join_all(lost).await {
        assert_eq!(lost.reason(), LossReason::Revoked);
    }
    assert!(readers.iter().all(|guard| !RwLockReadGuard::lease(guard).is_valid()
        && RwLockReadGuard::lease(guard).remaining().is_zero()));
    assert!(there.try_write().await.is_ok());
    for reader in readers {
        assert!(matches!(RwLockReadGuard::release(reader).await, Err(ReleaseError::Lost(_))));
    }
    assert!(soon(here.write()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_writer_here_waits_for_the_data_of_lost_readers() {
    let pair = short();
    let (here, there) = rwlocks(&pair);
    let lost = [here.read().await.unwrap(), here.read().await.unwrap()];
    pair.store.forget();
    RwLockReadGuard::lease(&lost[1]).lost().await;
    // The lock is free, the data is not: a `&mut` to it must not exist beside a `&`.
    assert!(there.try_write().await.is_ok());
    let mut writing = Box::pin(here.write());
    begin(writing.as_mut()).await;
    sleep(TTL * 2).await;
    assert!(poll_once(writing.as_mut()).await.is_pending());
    let [first, second] = lost;
    drop(first);
    still_waits(writing.as_mut()).await;
    drop(second);
    assert!(RwLockWriteGuard::lease(&soon(writing).await.unwrap()).is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_reader_here_need_not_wait_for_the_data_of_lost_readers() {
    let pair = short();
    let (here, _) = rwlocks(&pair);
    let lost = here.read().await.unwrap();
    pair.store.forget();
    RwLockReadGuard::lease(&lost).lost().await;
    let reading = soon(here.read()).await.unwrap();
    assert!(
        RwLockReadGuard::lease(&reading).is_valid() && !RwLockReadGuard::lease(&lost).is_valid()
    );
    assert!(
        RwLockReadGuard::lease(&reading).fencing_token()
            > RwLockReadGuard::lease(&lost).fencing_token()
    );
    drop(lost);
    assert!(RwLockReadGuard::lease(&reading).is_valid(), "it is another lease");
}

#[tokio::test(start_paused = true)]
async fn a_reader_here_waits_for_the_data_of_a_lost_writer() {
    let pair = short();
    let (here, there) = rwlocks(&pair);
    let mut lost = here.write().await.unwrap();
    pair.store.forget();
    RwLockWriteGuard::lease(&lost).lost().await;
    assert!(there.try_read().await.is_ok());
    let mut reading = Box::pin(here.read());
    begin(reading.as_mut()).await;
    sleep(TTL * 2).await;
    assert!(poll_once(reading.as_mut()).await.is_pending());
    *lost = 7;
    drop(lost);
    assert_eq!(*soon(reading).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn out_of_reach_readers_are_lost_before_the_store_gives_the_lock_away() {
    let pair = short();
    let (here, there) = rwlocks(&pair);
    let readers = [here.read().await.unwrap(), here.read().await.unwrap()];
    let begin = Instant::now();
    pair.ours.faults().cut();
    let mut writing = Box::pin(there.write());
    let (mut first, mut second) = (
        Box::pin(RwLockReadGuard::lease(&readers[0]).lost()),
        Box::pin(RwLockReadGuard::lease(&readers[1]).lost()),
    );
    let both = async { (first.as_mut().await, second.as_mut().await) };
    tokio::select! {
        biased;
        (first, second) = both => {
            assert_eq!((first.reason(), second.reason()), (LossReason::Expired, LossReason::Expired));
        }
        _ = writing.as_mut() => panic!("the readers do not know yet"),
    }
    assert!(begin.elapsed() >= TTL * 9 / 10, "the whole lease was used");
    assert!(soon(writing).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn each_reader_has_a_cap_of_its_own() {
    let cap = Duration::from_secs(10);
    let pair = Pair::local_with(|builder| builder.ttl(TTL).max_hold(cap));
    let (here, there) = rwlocks(&pair);
    let first = here.read().await.unwrap();
    sleep(cap / 2).await;
    let second = here.read().await.unwrap();
    assert_eq!(RwLockReadGuard::lease(&first).lost().await.reason(), LossReason::HeldTooLong);
    assert!(RwLockReadGuard::lease(&second).is_valid() && there.try_write().await.is_err());
    assert_eq!(RwLockReadGuard::lease(&second).lost().await.reason(), LossReason::HeldTooLong);
    assert!(soon(there.write()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn reading_what_is_kept_costs_no_request() {
    let pair = short();
    let lock = pair.here.rwlock("it", 0).unwrap().with_cache(Duration::from_secs(60));
    let there = pair.there.rwlock("it", 0).unwrap();
    drop(lock.read().await.unwrap());
    sleep(Duration::from_millis(10)).await;
    assert!(lock.is_cached() && !lock.is_held());
    let before = pair.ours.stats();
    for _ in 0..100 {
        let guard = lock.read().await.unwrap();
        assert!(lock.is_held() && RwLockReadGuard::lease(&guard).is_valid());
    }
    let since = pair.ours.stats().since(before);
    assert_eq!((since.acquires, since.releases), (0, 0));
    // Another reader does not mind. A writer does.
    assert!(there.try_read().await.is_ok());
    let begin = Instant::now();
    assert!(soon(there.write()).await.is_ok());
    assert!(begin.elapsed() < TTL / 10, "it is given up as soon as another process wants it");
    assert!(!lock.is_cached());
}

#[tokio::test(start_paused = true)]
async fn what_a_writer_left_serves_readers() {
    let pair = short();
    let lock = pair.here.rwlock("it", 0).unwrap().with_cache(Duration::from_secs(60));
    drop(lock.write().await.unwrap());
    sleep(Duration::from_millis(10)).await;
    assert!(lock.is_cached());
    let before = pair.ours.stats();
    drop([lock.read().await.unwrap(), lock.read().await.unwrap()]);
    drop(lock.write().await.unwrap());
    let since = pair.ours.stats().since(before);
    assert_eq!((since.acquires, since.releases), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn work_ends_with_the_lease() {
    let pair = short();
    let (here, _) = rwlocks(&pair);
    let reading = here.read().await.unwrap();
    assert_eq!(RwLockReadGuard::lease(&reading).while_held(async { *reading }).await, Ok(0));
    let mut writing = {
        drop(reading);
        soon(here.write()).await.unwrap()
    };
    assert_eq!(RwLockWriteGuard::lease(&writing).while_held(async { *writing = 5 }).await, Ok(()));
    let reading = writing.downgrade();
    pair.store.forget();
    let lease = RwLockReadGuard::lease(&reading);
    let lost = lease.while_held(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(lost.reason(), LossReason::Revoked);
    assert!(lease.while_held(std::future::ready(())).await.is_err());
}

#[tokio::test]
async fn a_reader_that_is_released_waits_for_the_store_only_if_it_is_the_last() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let (first, last) = (here.read().await.unwrap(), here.read().await.unwrap());
    let _gate = pair.ours.faults().on(Verb::Release).hold_requests();
    soon(RwLockReadGuard::release(first)).await.unwrap();
    let mut releasing = Box::pin(RwLockReadGuard::release(last));
    begin(releasing.as_mut()).await;
    pair.ours.faults().heal();
    soon(releasing).await.unwrap();
    assert!(there.try_write().await.is_ok());
}

#[tokio::test]
async fn a_shutdown_keeps_readers_and_ends_waits() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let reading = here.upgradable_read().await.unwrap();
    let remote = there.read().await.unwrap();
    let mut waiting = Box::pin(here.write());
    begin(waiting.as_mut()).await;
    pair.here.shutdown().await;
    assert!(matches!(soon(waiting).await, Err(LockError::Closed)));
    assert!(here.try_read().await.is_err());
    assert!(RwLockUpgradableReadGuard::lease(&reading).is_valid());
    let error = soon(reading.upgrade()).await.unwrap_err();
    assert!(matches!(error.error(), LockError::Closed), "{error:?}");
    drop((error, remote));
    drop(soon(there.write()).await.unwrap());
}
