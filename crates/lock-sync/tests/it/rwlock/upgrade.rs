//! Upgrades from reading to writing, with no other writer in between.

use std::sync::Arc;
use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{
    LockError, LossReason, OwnedRwLockReadGuard, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, TryLockError,
};
use tokio::time::timeout;

use super::{begin, fair, refuses_readers, rwlocks, soon, still_waits};
use crate::support::{Pair, poll_once};

#[tokio::test]
async fn later_readers_wait_behind_an_upgrade() {
    let pair = fair();
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    let reading = there.read().await.unwrap();
    let mut upgrade = Box::pin(upgradable.upgrade());
    begin(upgrade.as_mut()).await;
    let mut local = Box::pin(here.read());
    begin(local.as_mut()).await;
    still_waits(local.as_mut()).await;
    refuses_readers(&there).await;
    let mut remote = Box::pin(there.read());
    begin(remote.as_mut()).await;
    still_waits(remote.as_mut()).await;

    drop(reading);
    let writing = soon(upgrade).await.unwrap();
    still_waits(local.as_mut()).await;
    still_waits(remote.as_mut()).await;
    drop(writing);
    assert!(soon(local).await.is_ok() && soon(remote).await.is_ok());
}

#[tokio::test]
async fn a_later_reader_enters_no_lease_that_an_upgrade_waits_for() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let reading = here.read().await.unwrap();
    let upgradable = soon(here.upgradable_read()).await.unwrap();
    let mut upgrade = Box::pin(upgradable.upgrade());
    begin(upgrade.as_mut()).await;
    let mut later = Box::pin(here.read());
    begin(later.as_mut()).await;
    still_waits(later.as_mut()).await;

    drop(reading);
    let writing = soon(upgrade).await.unwrap();
    still_waits(later.as_mut()).await;
    RwLockWriteGuard::release(writing).await.unwrap();
    assert!(soon(later).await.is_ok() && soon(there.read()).await.is_ok());
}

#[tokio::test]
async fn it_need_not_wait() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let here = Arc::new(here);
    for reader in [&*here, &there] {
        let upgradable = soon(here.upgradable_read()).await.unwrap();
        let reading = reader.read().await.unwrap();
        let (upgradable, error) = upgradable.try_upgrade().await.unwrap_err().into_parts();
        assert!(matches!(error, TryLockError::WouldBlock), "{error:?}");
        assert!(RwLockUpgradableReadGuard::lease(&upgradable).is_valid());
        assert!(soon(reader.read()).await.is_ok(), "it holds up no reader");
        RwLockReadGuard::release(reading).await.unwrap();
        assert!(upgradable.try_upgrade().await.is_ok());

        let upgradable = soon(Arc::clone(&here).upgradable_read_owned()).await.unwrap();
        let reading = reader.read().await.unwrap();
        let error = upgradable.try_upgrade().await.unwrap_err();
        assert!(matches!(error.error(), TryLockError::WouldBlock));
        RwLockReadGuard::release(reading).await.unwrap();
        assert!(error.into_guard().try_upgrade().await.is_ok());
    }
    pair.all_released().await;
}

#[tokio::test]
async fn a_writer_can_go_back_and_forth() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let here = Arc::new(here);
    let mut writing = here.write().await.unwrap();
    let mut remote = Box::pin(there.write());
    begin(remote.as_mut()).await;
    for round in 0..10 {
        *writing += 1;
        let reading = writing.downgrade_to_upgradable();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(poll_once(remote.as_mut()).await.is_pending());
        writing = soon(reading.upgrade()).await.unwrap();
        assert_eq!(*writing, round + 1);
    }
    drop(writing);
    RwLockWriteGuard::release(soon(remote).await.unwrap()).await.unwrap();

    let writing = soon(Arc::clone(&here).write_owned()).await.unwrap();
    let writing = soon(writing.downgrade_to_upgradable().upgrade()).await.unwrap();
    let reading = writing.downgrade_to_upgradable().downgrade();
    assert!(
        soon(there.upgradable_read()).await.is_ok()
            && OwnedRwLockReadGuard::lease(&reading).is_valid()
    );
    drop(reading);
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_cannot_be_upgraded() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    pair.store.forget();
    RwLockUpgradableReadGuard::lease(&upgradable).lost().await;
    let error = soon(upgradable.upgrade()).await.unwrap_err();
    assert!(matches!(error.error(), LockError::Lost(_)), "{error:?}");
    let upgradable = error.into_guard();
    assert_eq!(
        RwLockUpgradableReadGuard::lease(&upgradable).check().unwrap_err().reason(),
        LossReason::Revoked
    );
    assert!(soon(there.write()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_while_it_waits_is_given_back_as_such() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    let reading = there.read().await.unwrap();
    let mut upgrade = Box::pin(upgradable.upgrade());
    begin(upgrade.as_mut()).await;
    pair.store.forget();
    let error = tokio::time::timeout(Duration::from_secs(60), upgrade).await.unwrap().unwrap_err();
    assert!(matches!(error.error(), LockError::Lost(_) | LockError::Backend(_)), "{error:?}");
    assert!(!RwLockUpgradableReadGuard::lease(&error.into_guard()).is_valid());
    drop(reading);
}

/// The first request makes the lease exclusive, and its answer is lost. The store refuses the second request.
#[tokio::test(start_paused = true)]
async fn an_upgrade_without_an_answer_whose_repetition_is_refused_is_undone() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    let (asking, asked) = (pair.ours.faults().on(Verb::Acquire), pair.ours.stats().acquires);
    asking.lose_replies(1);
    let mut upgrade = Box::pin(upgradable.upgrade());
    while pair.ours.stats().acquires == asked {
        begin(upgrade.as_mut()).await;
        tokio::task::yield_now().await;
    }
    asking.fail_next(1, ErrorKind::Denied);
    let error = soon(upgrade).await.unwrap_err();
    assert!(matches!(error.error(), LockError::Backend(e) if e.kind() == ErrorKind::Denied));
    let upgradable = error.into_guard();
    assert!(soon(there.read()).await.is_ok());
    assert!(RwLockUpgradableReadGuard::lease(&upgradable).is_valid());
}

/// The store gives the upgrade a place, refuses its repetition, and grants it after that.
#[tokio::test(start_paused = true)]
async fn an_upgrade_with_a_place_whose_repetition_is_refused_is_undone() {
    let pair = fair();
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    let reading = there.read().await.unwrap();
    let mut upgrade = Box::pin(upgradable.upgrade());
    let short = Duration::from_secs(1);
    assert!(tokio::time::timeout(short, upgrade.as_mut()).await.is_err());
    assert!(matches!(there.try_read().await, Err(TryLockError::WouldBlock)), "it has a place");
    pair.ours.faults().on(Verb::Acquire).fail_next(1, ErrorKind::Denied);
    let error = tokio::time::timeout(Duration::from_secs(60), upgrade).await.unwrap().unwrap_err();
    assert!(matches!(error.error(), LockError::Backend(e) if e.kind() == ErrorKind::Denied));
    let upgradable = error.into_guard();
    drop(reading);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(RwLockUpgradableReadGuard::lease(&upgradable).is_valid());
    assert!(soon(there.read()).await.is_ok());
}

/// A store may renew a lease although it refuses to convert the lease, for example a full etcd.
#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_no_longer_for_a_store_than_any_other_waiter() {
    let ttl = Duration::from_secs(6);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, _) = rwlocks(&pair);
    let asking = pair.ours.faults().on(Verb::Acquire);
    for writes in [false, true] {
        let upgradable = match writes {
            true => here.write().await.unwrap().downgrade_to_upgradable(),
            false => here.upgradable_read().await.unwrap(),
        };
        asking.fail(ErrorKind::NotReady);
        let begin = tokio::time::Instant::now();
        let error = tokio::time::timeout(ttl * 3, upgradable.upgrade()).await.unwrap().unwrap_err();
        assert!(matches!(error.error(), LockError::Backend(e) if e.kind() == ErrorKind::NotReady));
        assert!(begin.elapsed() >= ttl / 2, "it waited for {:?}", begin.elapsed());
        let upgradable = error.into_guard();
        assert!(RwLockUpgradableReadGuard::lease(&upgradable).is_valid());
        let begin = tokio::time::Instant::now();
        soon(RwLockUpgradableReadGuard::release(upgradable)).await.unwrap();
        assert!(begin.elapsed() < ttl / 10, "it took {:?}", begin.elapsed());
        asking.heal();
    }
    assert!(soon(here.write()).await.is_ok());
}

/// The renewal tells that the lease has its former mode. It takes longer than the pause before the upgrade is repeated.
#[tokio::test(start_paused = true)]
async fn a_release_after_a_failed_upgrade_waits_for_one_renewal() {
    let ttl = Duration::from_secs(6);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::NotReady);
    pair.ours.faults().on(Verb::Renew).delay_replies(ttl / 8);
    let (upgradable, error) = upgradable.try_upgrade().await.unwrap_err().into_parts();
    assert!(matches!(error, TryLockError::Backend(_)), "{error:?}");
    let begin = tokio::time::Instant::now();
    soon(RwLockUpgradableReadGuard::release(upgradable)).await.unwrap();
    assert!(begin.elapsed() < ttl / 2, "it took {:?}", begin.elapsed());
    assert!(soon(there.write()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_with_a_limit_waits_for_a_store_until_the_limit_of_outages() {
    let (limit, long) = (Duration::from_secs(3), Duration::from_secs(60));
    for outages in [Some(limit), None] {
        let pair = Pair::local_with(|builder| match outages {
            Some(limit) => builder.outage_limit(limit),
            None => builder,
        });
        let (here, _) = rwlocks(&pair);
        let upgradable = here.upgradable_read().await.unwrap();
        pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::NotReady);
        let begin = tokio::time::Instant::now();
        let error = upgradable.upgrade_timeout(long).await.unwrap_err();
        let (waited, error) = (begin.elapsed(), error.error());
        match outages {
            Some(_) => assert!(
                matches!(error, LockError::Backend(_)) && waited >= limit && waited < limit * 2,
                "{error:?} after {waited:?}"
            ),
            None => assert!(matches!(error, LockError::Timeout { .. }) && waited >= long),
        }
    }
}

/// The store makes the lease exclusive after the holder has given the upgrade up. No answer says so.
#[tokio::test(start_paused = true)]
async fn a_lease_that_an_abandoned_upgrade_made_exclusive_is_released() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    let reading = there.read().await.unwrap();
    let mut upgrade = Box::pin(upgradable.upgrade_timeout(Duration::from_secs(2)));
    // By then it has a place in the queue.
    assert!(timeout(Duration::from_secs(1), upgrade.as_mut()).await.is_err());
    for verb in [Verb::Acquire, Verb::Renew] {
        pair.ours.faults().on(verb).fail(ErrorKind::NotReady);
    }
    let upgradable = upgrade.await.unwrap_err().into_guard();
    RwLockReadGuard::release(reading).await.unwrap();
    assert!(there.try_read().await.is_err(), "the store has carried out the upgrade");
    soon(RwLockUpgradableReadGuard::release(upgradable)).await.unwrap();
    RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_request_that_undoes_an_upgrade_does_not_delay_the_release() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let upgradable = here.upgradable_read().await.unwrap();
    let reading = there.read().await.unwrap();
    let mut upgrade = Box::pin(upgradable.upgrade());
    // By then it has a place in the queue.
    assert!(timeout(Duration::from_secs(1), upgrade.as_mut()).await.is_err());
    let _gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    drop(upgrade);
    RwLockReadGuard::release(reading).await.unwrap();
    RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_error_becomes_the_one_that_the_caller_returns() {
    async fn write(lock: &lock_sync::RwLock<u32>) -> Result<(), LockError> {
        let reading = lock.upgradable_read().await?;
        *reading.upgrade_timeout(Duration::from_millis(1)).await? += 1;
        Ok(())
    }
    async fn try_write(lock: &lock_sync::RwLock<u32>) -> Result<(), TryLockError> {
        let reading = lock.try_upgradable_read().await?;
        *reading.try_upgrade().await? += 1;
        Ok(())
    }
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let reading = there.read().await.unwrap();
    assert!(matches!(write(&here).await, Err(LockError::Timeout { .. })));
    assert!(matches!(try_write(&here).await, Err(TryLockError::WouldBlock)));
    RwLockReadGuard::release(reading).await.unwrap();
    write(&here).await.unwrap_or_else(|error| assert!(matches!(error, LockError::Timeout { .. })));
    try_write(&here).await.unwrap();
    pair.all_released().await;
}
