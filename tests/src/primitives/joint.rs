//! Locks that an owner enters again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_sync::{Owner, OwnerGuard, ReentrantLockError, TryReentrantLockError};
use tokio::task::JoinSet;

use super::{Joining, MEANWHILE, Pair, until_held, waits};
use crate::soon;

/// An owner waits while another owner is inside, whichever client the two use.
pub async fn owners_exclude_each_other<S: Joining>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.reentrant_mutex("it", ()).unwrap());
    let (mut one, mut other) = (Owner::new().unwrap(), Owner::new().unwrap());
    let guard = soon(here.lock_as(&mut one)).await.unwrap();
    for mutex in [&here, &there] {
        let refused = mutex.try_lock_as(&mut other).await;
        assert!(matches!(refused, Err(TryReentrantLockError::WouldBlock)));
        let late = mutex.lock_as_timeout(&mut other, MEANWHILE).await;
        assert!(matches!(late, Err(ReentrantLockError::Timeout { source: None })));
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

/// Two clients of one owner are one holder, and either of them may leave first.
pub async fn an_owner_that_was_sent_to_another_client_enters_there<S: Joining>() {
    for first_leaves in [true, false] {
        let pair = Pair::<S>::new().await;
        let (here, there) = pair.both(|locks| locks.reentrant_mutex("it", ()).unwrap());
        let (mut owner, mut stranger) = (Owner::new().unwrap(), Owner::new().unwrap());
        let mut copy = Owner::parse(&owner.expose()).unwrap();
        let first = soon(here.lock_as(&mut owner)).await.unwrap();
        let mut waiting = Box::pin(there.lock_as(&mut stranger));
        waits(&mut waiting).await;
        let second = soon(there.lock_as(&mut copy)).await.unwrap();
        assert_eq!(
            OwnerGuard::lease(&second).fencing_token(),
            OwnerGuard::lease(&first).fencing_token(),
            "they are one holder"
        );
        assert!(OwnerGuard::lease(&first).is_valid() && OwnerGuard::lease(&second).is_valid());
        until_held(&pair.there, "it", 2).await;

        let (leaves, stays) = if first_leaves { (first, second) } else { (second, first) };
        OwnerGuard::release(leaves).await.unwrap();
        waits(&mut waiting).await;
        assert!(OwnerGuard::lease(&stays).is_valid());
        let token = OwnerGuard::lease(&stays).fencing_token();
        drop(stays);
        let next = soon(waiting).await.unwrap();
        assert!(OwnerGuard::lease(&next).fencing_token() > token);
        drop(next);
        pair.all_free().await;
    }
}

/// Four owners of each client go in three deep.
pub async fn no_two_owners_are_inside_at_once<S: Joining>() {
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
