//! A lock with one holder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_sync::{LockError, LossReason, MutexGuard, TryLockError};
use tokio::task::JoinSet;

use super::{LIMIT, Pair, Stage, waits};
use crate::soon;

/// The lock passes on when its guard is released, and when its guard is dropped.
pub async fn a_lock_passes_from_client_to_client<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.mutex("it", ()).unwrap());
    let guard = soon(here.lock()).await.unwrap();
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    let limited = there.lock_timeout(LIMIT).await;
    assert!(matches!(limited, Err(LockError::Timeout { source: None })), "{limited:?}");

    let mut waiting = Box::pin(there.lock());
    waits(&mut waiting).await;
    let first = MutexGuard::lease(&guard).fencing_token();
    MutexGuard::release(guard).await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert!(
        MutexGuard::lease(&guard).fencing_token() > first && MutexGuard::lease(&guard).is_valid()
    );
    assert!(matches!(here.try_lock().await, Err(TryLockError::WouldBlock)));

    let mut waiting = Box::pin(here.lock());
    waits(&mut waiting).await;
    let second = MutexGuard::lease(&guard).fencing_token();
    drop(guard);
    let guard = soon(waiting).await.unwrap();
    assert!(MutexGuard::lease(&guard).fencing_token() > second);
    MutexGuard::release(guard).await.unwrap();
    assert!(there.try_lock().await.is_ok());
    pair.all_free().await;
}

/// A handle to a lease outlives its guard, keeps the lock from no other client, and says how the lease ended.
pub async fn a_handle_says_how_its_lease_ended<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.mutex("it", ()).unwrap());
    let guard = soon(here.lock()).await.unwrap();
    let given_up = MutexGuard::lease(&guard);
    let watch = tokio::spawn(given_up.lost());
    assert!(given_up.is_valid() && !given_up.remaining().is_zero());
    let mut waiting = Box::pin(there.lock());
    waits(&mut waiting).await;
    assert!(!watch.is_finished() && given_up.is_valid());
    drop(guard);
    let guard = soon(waiting).await.unwrap();
    assert_eq!(soon(watch).await.unwrap().reason(), LossReason::Released);
    assert!(MutexGuard::lease(&guard).fencing_token() > given_up.fencing_token());

    let taken = MutexGuard::lease(&guard);
    let working = tokio::spawn({
        let taken = taken.clone();
        async move { taken.while_held(std::future::pending::<()>()).await }
    });
    pair.here.force_release("it").await.unwrap();
    assert_eq!(soon(working).await.unwrap().unwrap_err().reason(), LossReason::Revoked);
    drop(guard);
    let next = soon(there.lock()).await.unwrap();
    assert!(MutexGuard::lease(&next).is_valid());
    assert_eq!(taken.check().unwrap_err().reason(), LossReason::Revoked);
    assert_eq!(given_up.check().unwrap_err().reason(), LossReason::Released);
}

/// A waiter that goes away keeps neither the lock nor a place.
pub async fn a_wait_that_is_dropped_leaves_nothing_behind<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.mutex("it", ()).unwrap());
    let guard = soon(here.lock()).await.unwrap();
    let mut given_up = Box::pin(there.lock());
    waits(&mut given_up).await;
    drop(given_up);
    MutexGuard::release(guard).await.unwrap();
    MutexGuard::release(soon(here.lock()).await.unwrap()).await.unwrap();
    MutexGuard::release(soon(there.lock()).await.unwrap()).await.unwrap();
    pair.all_free().await;
}

/// The client that dropped a guard gets the lock by a try, although the release is still under way.
pub async fn a_lock_that_was_dropped_is_free_for_a_try<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.mutex("it", ()).unwrap());
    for _ in 0..1_000 {
        drop(here.try_lock().await.unwrap());
    }
    drop(soon(there.lock()).await.unwrap());
    pair.all_free().await;
}

/// Tasks of both clients read, wait and write a value that the lock alone protects.
pub async fn no_update_is_lost<S: Stage>() {
    const ROUNDS: u32 = 50;
    let pair = Pair::<S>::new().await;
    let (row, inside) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for locks in [&pair.here, &pair.there] {
        let mutex = Arc::new(locks.mutex("it", ()).unwrap());
        for _ in 0..8 {
            let (mutex, row, inside) = (Arc::clone(&mutex), Arc::clone(&row), Arc::clone(&inside));
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = mutex.lock().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    let read = row.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    row.store(read + 1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert!(MutexGuard::lease(&guard).is_valid());
                }
            });
        }
    }
    tasks.join_all().await;
    assert_eq!(row.load(Ordering::SeqCst), 2 * 8 * ROUNDS);
    pair.all_free().await;
}
