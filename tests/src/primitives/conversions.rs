//! Readers and writers over a store that converts leases.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::Convertible;
use lock_sync::{
    LockError, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, TryLockError,
};
use tokio::task::JoinSet;

use super::rwlock::Inside;
use super::{Converting, Pair, waits, waits_in_line};
use crate::soon;

/// Waiting readers of both clients enter, and no writer does.
pub async fn a_downgrade_admits_readers_of_both_clients<S: Converting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let writing = soon(here.write()).await.unwrap();
    let token = RwLockWriteGuard::lease(&writing).fencing_token();
    let (mut local, mut remote) = (Box::pin(here.read()), Box::pin(there.read()));
    waits(&mut local).await;
    waits(&mut remote).await;
    let reading = writing.downgrade();
    assert_eq!(RwLockReadGuard::lease(&reading).fencing_token(), token);
    let (local, remote) = (soon(local).await.unwrap(), soon(remote).await.unwrap());
    assert!(
        RwLockReadGuard::lease(&local).fencing_token() >= token
            && RwLockReadGuard::lease(&remote).fencing_token() > token
    );
    assert!(
        RwLockReadGuard::lease(&reading).is_valid()
            && RwLockReadGuard::lease(&local).is_valid()
            && RwLockReadGuard::lease(&remote).is_valid()
    );
    assert!(matches!(there.try_write().await, Err(TryLockError::WouldBlock)));
    drop((reading, local, remote));
    pair.all_free().await;
}

/// Of all readers, only one is upgradable.
pub async fn one_reader_can_upgrade_beside_others<S: Converting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let upgradable = soon(here.upgradable_read()).await.unwrap();
    let others = [soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap()];
    for lock in [&here, &there] {
        let refused = lock.try_upgradable_read().await;
        assert!(matches!(refused, Err(TryLockError::WouldBlock)));
    }
    assert!(matches!(there.try_write().await, Err(TryLockError::WouldBlock)));
    drop(others);

    let mut local = Box::pin(here.upgradable_read());
    waits(&mut local).await;
    let reading = upgradable.downgrade();
    let local = soon(local).await.unwrap();
    assert!(
        RwLockReadGuard::lease(&reading).is_valid()
            && RwLockUpgradableReadGuard::lease(&local).fencing_token()
                >= RwLockReadGuard::lease(&reading).fencing_token()
    );
    let mut remote = Box::pin(there.upgradable_read());
    waits(&mut remote).await;
    drop(local);
    let remote = soon(remote).await.unwrap();
    assert!(
        RwLockReadGuard::lease(&reading).is_valid()
            && RwLockUpgradableReadGuard::lease(&remote).is_valid()
    );
    drop((reading, remote));
    pair.all_free().await;
}

/// An upgrade brings a higher token, and keeps all other callers out.
pub async fn a_reader_that_is_alone_upgrades_at_once<S: Converting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", 0).unwrap());
    let reading = soon(here.upgradable_read()).await.unwrap();
    let token = RwLockUpgradableReadGuard::lease(&reading).fencing_token();
    let mut writing = soon(reading.upgrade()).await.unwrap();
    assert!(
        RwLockWriteGuard::lease(&writing).fencing_token() > token
            && RwLockWriteGuard::lease(&writing).is_valid()
    );
    for lock in [&here, &there] {
        assert!(matches!(lock.try_read().await, Err(TryLockError::WouldBlock)));
    }
    *writing += 1;
    RwLockWriteGuard::release(writing).await.unwrap();
    assert_eq!(*soon(here.read()).await.unwrap(), 1);
    let reading = soon(here.upgradable_read()).await.unwrap();
    assert!(reading.try_upgrade().await.is_ok());
    pair.all_free().await;
}

/// The upgrade is granted when the last other reader has gone, and not before.
pub async fn an_upgrade_waits_for_readers_of_both_clients<S: Converting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let upgradable = soon(here.upgradable_read()).await.unwrap();
    let (local, remote) = (soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap());
    let highest = RwLockReadGuard::lease(&local)
        .fencing_token()
        .max(RwLockReadGuard::lease(&remote).fencing_token());
    let mut upgrade = Box::pin(upgradable.upgrade());
    waits(&mut upgrade).await;
    drop(local);
    waits(&mut upgrade).await;
    drop(remote);
    let writing = soon(upgrade).await.unwrap();
    assert!(RwLockWriteGuard::lease(&writing).fencing_token() > highest);
    drop(writing);
    pair.all_free().await;
}

/// An upgrade is granted before the claims that wait already, and they wait until the writer has gone.
pub async fn an_upgrade_goes_before_all_waiters<S: Converting>() {
    let pair = Pair::<S>::new().await;
    let third = pair.third().await.rwlock("it", ()).unwrap();
    let fourth = pair.third().await.rwlock("it", ()).unwrap();
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let climbing = soon(here.upgradable_read()).await.unwrap();
    let reading = soon(third.read()).await.unwrap();
    let (mut remote, mut local) = (Box::pin(there.write()), Box::pin(here.write()));
    waits_in_line(&mut remote, &pair.there, 1).await;
    waits(&mut local).await;
    let (climbing, error) = soon(climbing.try_upgrade()).await.unwrap_err().into_parts();
    assert!(matches!(error, TryLockError::WouldBlock));
    let read = RwLockUpgradableReadGuard::lease(&climbing).fencing_token();
    let (mut upgrade, mut late) = (Box::pin(climbing.upgrade()), Box::pin(fourth.read()));
    waits(&mut upgrade).await;
    waits(&mut late).await;
    drop(reading);
    let writing = soon(upgrade).await.unwrap();
    let wrote = RwLockWriteGuard::lease(&writing).fencing_token();
    assert!(wrote > read);
    assert!(matches!(soon(third.try_read()).await, Err(TryLockError::WouldBlock)));
    waits(&mut remote).await;
    waits(&mut local).await;
    waits(&mut late).await;
    drop(writing);
    // The two writers may enter in any order.
    let (remote, local, late) = tokio::join!(
        async { RwLockWriteGuard::lease(&soon(remote).await.unwrap()).fencing_token() },
        async { RwLockWriteGuard::lease(&soon(local).await.unwrap()).fencing_token() },
        async { RwLockReadGuard::lease(&soon(late).await.unwrap()).fencing_token() },
    );
    assert!(remote > wrote && local > wrote && late > remote);
    pair.all_free().await;
}

/// An upgrade that is dropped leaves the lock: another reader becomes upgradable, and is alone when all other holders have left.
pub async fn an_upgrade_that_is_dropped_lets_go_of_the_lock<S: Converting>() {
    let pair = Pair::<S>::new().await;
    let third = pair.third().await.rwlock("it", ()).unwrap();
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let climbing = soon(here.upgradable_read()).await.unwrap();
    let reading = soon(there.read()).await.unwrap();
    let mut upgrade = Box::pin(climbing.upgrade());
    waits(&mut upgrade).await;
    let mut late = Box::pin(third.upgradable_read());
    waits(&mut late).await;
    drop(upgrade);
    let late = soon(late).await.unwrap();
    assert!(RwLockReadGuard::lease(&reading).is_valid());
    drop(reading);
    drop(soon(late.upgrade()).await.unwrap());
    drop(soon(there.write()).await.unwrap());
    pair.all_free().await;
}

/// A failed upgrade leaves the reader unchanged, and blocks no other reader.
pub async fn an_upgrade_that_takes_too_long_gives_the_guard_back<S: Converting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", 7).unwrap());
    let climbing = soon(here.upgradable_read()).await.unwrap();
    let token = RwLockUpgradableReadGuard::lease(&climbing).fencing_token();
    let reading = soon(there.read()).await.unwrap();
    let (begin, limit) = (Instant::now(), Duration::from_millis(200));
    let error = soon(climbing.upgrade_timeout(limit)).await.unwrap_err();
    assert!(begin.elapsed() >= limit);
    assert!(matches!(error.error(), LockError::Timeout { .. }));
    assert_eq!(error.to_string(), "the lock is still held to read alone");
    assert!(error.source().is_some());
    let climbing = error.into_guard();
    assert!(RwLockUpgradableReadGuard::lease(&climbing).is_valid());
    assert_eq!(
        (*climbing, RwLockUpgradableReadGuard::lease(&climbing).fencing_token()),
        (7, token)
    );
    assert!(matches!(soon(there.try_write()).await, Err(TryLockError::WouldBlock)));
    for lock in [&here, &there] {
        drop(soon(lock.read()).await.unwrap());
    }
    let refused = soon(there.try_upgradable_read()).await;
    assert!(matches!(refused, Err(TryLockError::WouldBlock)));
    drop(reading);
    let wrote = soon(climbing.upgrade()).await.unwrap();
    assert!(matches!(soon(there.try_read()).await, Err(TryLockError::WouldBlock)));
    drop(wrote);
    drop(soon(there.write()).await.unwrap());
    pair.all_free().await;
}

/// Tasks of both clients read, write, upgrade and downgrade.
pub async fn readers_and_writers_never_meet<S: Converting>() {
    const ROUNDS: u32 = 60;
    let pair = Pair::<S>::new().await;
    let inside = Arc::new(Inside::default());
    let (here, there) = pair.both(|locks| Arc::new(locks.rwlock("it", 0).unwrap()));
    let mut tasks = JoinSet::new();
    for lock in [&here, &there] {
        for task in 0..6 {
            let (lock, inside) = (Arc::clone(lock), Arc::clone(&inside));
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    in_some_way(&lock, &inside, task + round).await;
                }
            });
        }
    }
    tasks.join_all().await;
    let writes = *soon(here.read()).await.unwrap() + *soon(there.read()).await.unwrap();
    // Four of every six rounds write.
    assert_eq!(writes, 2 * 6 * ROUNDS * 4 / 6);
    pair.all_free().await;
}

/// Holds the lock in the way with this number.
async fn in_some_way(lock: &Arc<RwLock<u32, Convertible>>, inside: &Inside, way: u32) {
    match way % 6 {
        0 | 1 => drop(written(lock, inside).await),
        2 => {
            let guard = lock.upgradable_read().await.unwrap();
            inside.read().await;
            let before = *guard;
            let mut guard = guard.upgrade().await.unwrap();
            inside.write().await;
            assert_eq!(*guard, before, "a writer came in between");
            *guard += 1;
        }
        3 => {
            let guard = written(lock, inside).await;
            let value = *guard;
            let guard = guard.downgrade();
            inside.read().await;
            assert_eq!(*guard, value, "a writer came in between");
        }
        _ => {
            let guard = lock.read().await.unwrap();
            inside.read().await;
            assert!(RwLockReadGuard::lease(&guard).is_valid());
        }
    }
}

async fn written(
    lock: &Arc<RwLock<u32, Convertible>>,
    inside: &Inside,
) -> OwnedRwLockWriteGuard<u32> {
    let mut guard = Arc::clone(lock).write_owned().await.unwrap();
    inside.write().await;
    *guard += 1;
    assert!(OwnedRwLockWriteGuard::lease(&guard).is_valid());
    guard
}
