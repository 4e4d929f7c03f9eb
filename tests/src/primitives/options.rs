//! Options of single locks, explicit leases, and locks by name.

use lock_core::Ttl;
use lock_sync::{LossReason, MutexGuard, TryLockError};

use super::{Pair, SHORT, Stage, waits};
use crate::soon;

/// A lease that is not renewed lives as long as its holder extends it, and then another client gets the lock.
pub async fn an_explicit_lease_lives_as_long_as_it_is_extended<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let short = Ttl::new(SHORT).unwrap();
    let mutex = pair.here.mutex("it", ()).unwrap().with_ttl(short).with_renewal(false);
    let guard = soon(mutex.lock()).await.unwrap();
    let lease = MutexGuard::lease(&guard);
    assert!(lease.remaining() <= SHORT);
    lease.extend(Ttl::new(SHORT * 3).unwrap()).await.unwrap();
    assert!(lease.remaining() > SHORT);
    // The store has extended it, too.
    tokio::time::sleep(SHORT * 3 / 2).await;
    let other = pair.there.mutex("it", ()).unwrap();
    assert!(matches!(other.try_lock().await, Err(TryLockError::WouldBlock)));
    assert!(lease.is_valid());

    let mut waiting = Box::pin(other.lock());
    waits(&mut waiting).await;
    assert_eq!(soon(lease.lost()).await.reason(), LossReason::Expired);
    assert!(lease.extend(short).await.is_err());
    let next = soon(waiting).await.unwrap();
    assert!(MutexGuard::lease(&next).fencing_token() > lease.fencing_token());
}

/// Two handles of one client with one name and different options exclude one another, and pass the lock on.
pub async fn handles_with_other_options_are_two_locks_that_exclude<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let plain = pair.here.mutex("it", ()).unwrap();
    let short = pair.here.mutex("it", ()).unwrap().with_ttl(Ttl::new(SHORT).unwrap());
    let mut last = None;
    for _ in 0..3 {
        for (holder, waiter) in [(&plain, &short), (&short, &plain)] {
            let guard = soon(holder.lock()).await.unwrap();
            let token = MutexGuard::lease(&guard).fencing_token();
            assert!(Some(token) > last.replace(token));
            let mut waiting = Box::pin(waiter.lock());
            waits(&mut waiting).await;
            drop(guard);
            let guard = soon(waiting).await.unwrap();
            let token = MutexGuard::lease(&guard).fencing_token();
            assert!(Some(token) > last.replace(token));
            MutexGuard::release(guard).await.unwrap();
        }
    }
    pair.all_free().await;
}

/// A name that is locked without a mutex is the lock of every mutex with that name.
pub async fn a_name_is_a_lock<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let guard = soon(pair.here.lock("it")).await.unwrap();
    let mutex = pair.there.mutex("it", ()).unwrap();
    assert!(matches!(mutex.try_lock().await, Err(TryLockError::WouldBlock)));
    let mut waiting = Box::pin(pair.there.lock("it"));
    waits(&mut waiting).await;
    let first = guard.lease();
    drop(guard);
    let guard = soon(waiting).await.unwrap();
    assert!(guard.lease().fencing_token() > first.fencing_token());
    assert!(matches!(pair.here.try_lock("it").await, Err(TryLockError::WouldBlock)));
    guard.release().await.unwrap();
    assert!(pair.here.try_lock("it").await.is_ok());
    pair.all_free().await;
}
