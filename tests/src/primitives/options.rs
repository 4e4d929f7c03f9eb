//! Options of single locks, explicit leases, and locks by name.

use std::future::pending;

use lock_core::Ttl;
use lock_sync::{
    Lease, LossReason, MutexGuard, OnceCell, OnceCellError, Owner, OwnerGuard, StoredMutexGuard,
    TryLockError,
};

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

/// A lease with options of its own ends when they say so, and the next client does not wait for longer.
async fn ends_by_itself(lease: &Lease) {
    assert!(lease.remaining() <= SHORT);
    assert_eq!(soon(lease.lost()).await.reason(), LossReason::Expired);
}

/// A reentrant mutex, a mutex with a stored value and an election have leases of their own length.
pub async fn locks_of_every_kind_take_options<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let short = Ttl::new(SHORT).unwrap();

    let (here, there) = pair.both(|locks| locks.reentrant_mutex("reentrant", ()).unwrap());
    let here = here.with_ttl(short).with_renewal(false);
    let (mut one, mut other) = (Owner::new().unwrap(), Owner::new().unwrap());
    let guard = soon(here.lock_as(&mut one)).await.unwrap();
    let mut waiting = Box::pin(there.lock_as(&mut other));
    waits(&mut waiting).await;
    ends_by_itself(&OwnerGuard::lease(&guard)).await;
    assert!(OwnerGuard::lease(&soon(waiting).await.unwrap()).is_valid());

    let (here, there) = pair.both(|locks| locks.stored_mutex("stored", 1).unwrap());
    let here = here.with_ttl(short).with_renewal(false);
    let guard = soon(here.lock()).await.unwrap();
    let mut waiting = Box::pin(there.lock());
    waits(&mut waiting).await;
    ends_by_itself(&StoredMutexGuard::lease(&guard)).await;
    assert_eq!(*soon(waiting).await.unwrap(), 1);
    assert!(guard.commit().await.is_err());

    let (here, there) = pair.both(|locks| locks.election("election").unwrap());
    let here = here.with_ttl(short).with_renewal(false);
    let first = soon(here.campaign("first")).await.unwrap();
    let mut candidate = Box::pin(there.campaign("second"));
    waits(&mut candidate).await;
    ends_by_itself(&first.lease()).await;
    assert!(soon(candidate).await.unwrap().lease().is_valid());
}

/// A caller that takes too long to make the value of a cell is followed by another one.
pub async fn a_cell_bounds_its_initialization<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there): (OnceCell<u32>, OnceCell<u32>) =
        pair.both(|locks| locks.once_cell("it").unwrap());
    let here = here.with_max_hold(SHORT).unwrap();
    let slow = here.get_or_init(pending);
    let (slow, next) = soon(async {
        tokio::join!(slow, async {
            super::until_held(&pair.there, "it", 1).await;
            there.get_or_init(async || 2).await.copied()
        })
    })
    .await;
    match slow {
        // The next caller was so fast that its value was there.
        Ok(value) => assert_eq!(*value, 2),
        Err(OnceCellError::Lost(lost)) => assert_eq!(lost.reason(), LossReason::HeldTooLong),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(next.unwrap(), 2);
}

/// A handle gives its options to every lock that it makes, and leaves the locks of its clones as they are.
pub async fn a_handle_gives_its_options_to_its_locks<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let short = pair.here.clone().with_ttl(Ttl::new(SHORT).unwrap()).with_renewal(false);
    let both = soon(short.lock_all(["one", "two"])).await.unwrap();
    let named = soon(short.lock("three")).await.unwrap();
    let long = soon(pair.here.lock("four")).await.unwrap();
    for lease in [both.lease(), named.lease()] {
        ends_by_itself(&lease).await;
    }
    assert!(long.lease().is_valid() && long.lease().remaining() > SHORT);
    let next = soon(pair.there.lock_all(["one", "two", "three"])).await.unwrap();
    assert!(next.lease().is_valid());
    assert!(matches!(pair.there.try_lock("four").await, Err(TryLockError::WouldBlock)));
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
