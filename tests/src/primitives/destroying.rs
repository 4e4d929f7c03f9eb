//! The end of what a lock keeps in the store.

use lock_core::{CellBackend, InspectBackend};
use lock_sync::{DestroyError, Locks, StoredMutexGuard};

use super::{Pair, Stage, waits};
use crate::{SOON, eventually_async, soon};

/// A value that one client stored is gone for both after the other one destroys the lock, and tokens go on increasing.
pub async fn a_destroyed_value_begins_anew<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.stored_mutex("it", 1).unwrap());
    let mut guard = soon(here.lock()).await.unwrap();
    *guard = 7;
    let token = soon(StoredMutexGuard::commit(guard)).await.unwrap();
    assert_eq!(*soon(there.lock()).await.unwrap(), 7);
    until_destroyed(&pair.there).await;
    for mutex in [&here, &there] {
        let guard = soon(mutex.lock()).await.unwrap();
        assert_eq!(*guard, 1);
        assert!(StoredMutexGuard::lease(&guard).fencing_token() > token);
    }
    until_destroyed(&pair.here).await;
    pair.all_free().await;
}

/// While one client holds a lock or waits for it, the other one cannot destroy the lock.
pub async fn a_lock_in_use_is_not_destroyed<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let third = pair.third().await;
    let (here, there) = pair.both(|locks| locks.stored_mutex("it", 1).unwrap());
    soon(here.update(|value| *value = 7)).await.unwrap();
    let guard = soon(here.lock()).await.unwrap();
    let in_use = async |locks: &Locks<S::Backend>| {
        let error = soon(locks.destroy("it")).await.unwrap_err();
        assert!(
            matches!(&error, DestroyError::InUse(Some(seen)) if seen.holding == 1),
            "{error:?}"
        );
    };
    in_use(&pair.there).await;
    let mut waiting = Box::pin(there.lock());
    waits(&mut waiting).await;
    in_use(&third).await;
    drop(guard);
    assert_eq!(*soon(waiting).await.unwrap(), 7);
    until_destroyed(&third).await;
    pair.all_free().await;
}

/// Destroys the lock "it", once the releases of guards that were dropped have arrived.
async fn until_destroyed<B: CellBackend + InspectBackend>(locks: &Locks<B>) {
    let destroyed = async || match soon(locks.destroy("it")).await {
        Ok(()) => true,
        Err(DestroyError::InUse(_)) => false,
        Err(error) => panic!("{error:?}"),
    };
    eventually_async("the lock is destroyed", SOON, destroyed).await;
}
