//! Locks that an owner enters again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_sync::{
    LockError, MutexGuard, Owner, OwnerGuard, ReentrantGuard, TryLockError, owner_scope,
};
use tokio::task::JoinSet;

use super::{LIMIT, Pair, Stage, waits};
use crate::soon;

/// An owner waits while another owner is inside, whichever client the two use.
pub async fn owners_exclude_each_other<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.reentrant_mutex("it", ()).unwrap());
    let (mut one, mut other) = (Owner::new().unwrap(), Owner::new().unwrap());
    let guard = soon(here.lock_as(&mut one)).await.unwrap();
    for mutex in [&here, &there] {
        let refused = mutex.try_lock_as(&mut other).await;
        assert!(matches!(refused, Err(TryLockError::WouldBlock)));
        let late = mutex.lock_as_timeout(&mut other, LIMIT).await;
        assert!(matches!(late, Err(LockError::Timeout { source: None })));
    }
    let token = OwnerGuard::lease(&guard).fencing_token();
    let mut waiting = Box::pin(there.lock_as(&mut other));
    waits(&mut waiting).await;
    drop(guard);
    let next = soon(waiting).await.unwrap();
    assert!(OwnerGuard::lease(&next).fencing_token() > token);
    drop(next);
    pair.all_free().await;
}

/// Four owners of each client go in three deep.
pub async fn no_two_owners_are_inside_at_once<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for locks in [&pair.here, &pair.there] {
        let mutex = Arc::new(locks.reentrant_mutex("it", ()).unwrap());
        for _ in 0..4 {
            let (mutex, inside) = (Arc::clone(&mutex), Arc::clone(&inside));
            tasks.spawn(async move {
                let mut owner = Owner::new().unwrap();
                for _ in 0..25 {
                    let mut outer = mutex.lock_as(&mut owner).await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two owners");
                    let token = OwnerGuard::lease(&outer).fencing_token();
                    let mut inner = mutex.lock_as(outer.split().1).await.unwrap();
                    tokio::task::yield_now().await;
                    let innermost = mutex.lock_as(inner.split().1).await.unwrap();
                    assert_eq!(OwnerGuard::lease(&innermost).fencing_token(), token);
                    assert!(OwnerGuard::lease(&innermost).is_valid());
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    }
    tasks.join_all().await;
    pair.all_free().await;
}

/// An owner that holds the lock enters again at once, also before an owner of another client that waits. The lock is
/// free when the last of its guards is gone.
pub async fn an_owner_enters_again<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.reentrant_mutex("it", ()).unwrap());
    let mut stranger = Owner::new().unwrap();
    let (innermost, mut waiting) = owner_scope(async {
        let outer = soon(here.lock()).await.unwrap();
        let mut waiting = Box::pin(there.lock_as(&mut stranger));
        waits(&mut waiting).await;
        let inner = soon(here.lock()).await.unwrap();
        let innermost = here.try_lock().await.unwrap();
        let token = ReentrantGuard::lease(&outer).fencing_token();
        for guard in [&inner, &innermost] {
            assert_eq!(ReentrantGuard::lease(guard).fencing_token(), token, "they are one turn");
        }
        ReentrantGuard::release(outer).await.unwrap();
        drop(inner);
        (innermost, waiting)
    })
    .await;
    waits(&mut waiting).await;
    assert!(ReentrantGuard::lease(&innermost).is_valid());
    let token = ReentrantGuard::lease(&innermost).fencing_token();
    drop(innermost);
    let next = soon(waiting).await.unwrap();
    assert!(OwnerGuard::lease(&next).fencing_token() > token);
    drop(next);
    pair.all_free().await;
}

/// A mutex excludes the owners of a reentrant mutex of that name, and they exclude the mutex.
pub async fn an_owner_excludes_a_mutex_of_that_name<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let reentrant = pair.here.reentrant_mutex("it", ()).unwrap();
    let mutex = pair.there.mutex("it", ()).unwrap();
    let mut owner = Owner::new().unwrap();
    let entered = soon(reentrant.lock_as(&mut owner)).await.unwrap();
    assert!(mutex.try_lock().await.is_err());
    OwnerGuard::release(entered).await.unwrap();
    let locked = soon(mutex.lock()).await.unwrap();
    assert!(reentrant.try_lock_as(&mut owner).await.is_err());
    MutexGuard::release(locked).await.unwrap();
    pair.all_free().await;
}
