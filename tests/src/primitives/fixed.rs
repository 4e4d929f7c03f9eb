//! Readers and writers over a store that converts no lease.

use std::sync::Arc;

use lock_sync::{RwLockReadGuard, RwLockWriteGuard, TryLockError};
use tokio::task::JoinSet;

use super::rwlock::Inside;
use super::{Fixing, Pair, waits};
use crate::soon;

/// Until its last reader has gone, a downgraded writer has an exclusive lease.
pub async fn a_downgrade_admits_the_readers_of_its_client_alone<S: Fixing>() {
    let pair = Pair::<S>::new().await;
    let (ours, theirs) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let writing = soon(ours.write()).await.unwrap();
    let mut waiting = Box::pin(ours.read());
    waits(&mut waiting).await;
    let mut reader = Box::pin(theirs.read());
    waits(&mut reader).await;
    let token = RwLockWriteGuard::lease(&writing).fencing_token();
    let reading = writing.downgrade();
    let beside = soon(waiting).await.unwrap();
    assert!(
        RwLockReadGuard::lease(&reading).is_valid() && RwLockReadGuard::lease(&beside).is_valid()
    );
    let mut other = Box::pin(theirs.write());
    waits(&mut other).await;
    RwLockReadGuard::release(reading).await.unwrap();
    waits(&mut reader).await;
    assert!(matches!(theirs.try_read().await, Err(TryLockError::WouldBlock)));
    RwLockReadGuard::release(beside).await.unwrap();
    assert!(RwLockReadGuard::lease(&soon(reader).await.unwrap()).fencing_token() > token);
    RwLockWriteGuard::release(soon(other).await.unwrap()).await.unwrap();
    pair.all_free().await;
}

/// Tasks of both clients read, write, and become readers after they wrote.
pub async fn readers_and_writers_never_meet<S: Fixing>() {
    const ROUNDS: u32 = 24;
    let pair = Pair::<S>::new().await;
    let inside = Arc::new(Inside::default());
    let mut tasks = JoinSet::new();
    for locks in [&pair.here, &pair.there] {
        let lock = Arc::new(locks.rwlock("it", 0).unwrap());
        for task in 0..4 {
            let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    if (task + round) % 2 == 0 {
                        let _guard = lock.read().await.unwrap();
                        inside.read().await;
                        continue;
                    }
                    let mut guard = lock.write().await.unwrap();
                    inside.write().await;
                    *guard += 1;
                    if (task + round) % 4 == 1 {
                        let written = *guard;
                        let guard = guard.downgrade();
                        inside.read().await;
                        assert_eq!(*guard, written, "a writer came in between");
                    }
                }
            });
        }
    }
    tasks.join_all().await;
    pair.all_free().await;
}
