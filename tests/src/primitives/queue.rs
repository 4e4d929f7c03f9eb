//! Waiters in the queue of the store.

use lock_core::{Kind, Label};
use lock_sync::{Locks, MutexGuard, OwnedMutexGuard, RwLockReadGuard, RwLockWriteGuard};

use super::{Pair, Stage};
use crate::{SOON, eventually_async, soon};

/// Waits until this many processes wait in the queue of the lock "it".
async fn until_waiting<S: Stage>(locks: &Locks<S::Backend>, count: u64) {
    let waiting = async || locks.inspect("it").await.unwrap().waiting == count;
    eventually_async(&format!("{count} processes wait"), SOON, waiting).await;
}

/// Each client that waits is shown once, with the kind of lock that it waits for.
pub async fn an_inspection_shows_the_waiters<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let holder = pair.third().await.rwlock("it", ()).unwrap();
    let guard = soon(holder.read()).await.unwrap();
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let label = Label::new("the first").unwrap();
    let here = here.with_label(label.clone());
    let writer = tokio::spawn(async move {
        here.write().await.map(|guard| RwLockWriteGuard::lease(&guard).fencing_token())
    });
    until_waiting::<S>(&pair.there, 1).await;
    let reader = tokio::spawn(async move {
        there.read().await.map(|guard| RwLockReadGuard::lease(&guard).fencing_token())
    });
    until_waiting::<S>(&pair.here, 2).await;
    let seen = pair.there.inspect("it").await.unwrap();
    let kinds: Vec<_> = seen.waiters.iter().map(|waiter| waiter.kind).collect();
    assert_eq!((seen.holding, kinds), (1, vec![Kind::Exclusive, Kind::Shared]));
    let labelled = async || {
        let seen = pair.there.inspect("it").await.unwrap();
        let labels: Vec<_> = seen.waiters.into_iter().map(|waiter| waiter.label).collect();
        labels == [Some(label.clone()), Some(Label::of_process())]
    };
    eventually_async("each waiter is shown with its label", SOON, labelled).await;
    drop(guard);
    let wrote = soon(writer).await.unwrap().unwrap();
    assert!(soon(reader).await.unwrap().unwrap() > wrote);
    pair.all_free().await;
}

/// The client that waits first gets the lock of a holder that was forced out, and the other client stays.
pub async fn a_forced_release_lets_the_first_waiter_in<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let third = pair.third().await;
    let (here, there) = pair.both(|locks| locks.mutex("it", ()).unwrap());
    let stuck = soon(here.lock()).await.unwrap();
    let next = tokio::spawn(std::sync::Arc::new(there).lock_owned());
    until_waiting::<S>(&third, 1).await;
    let mutex = std::sync::Arc::new(third.mutex("it", ()).unwrap());
    let last = tokio::spawn(mutex.lock_owned());
    until_waiting::<S>(&third, 2).await;
    let seen = third.inspect("it").await.unwrap();
    assert_eq!((seen.holding, seen.holders.len(), seen.waiters.len()), (1, 1, 2));
    assert!(seen.waiters.iter().all(|waiter| waiter.kind == Kind::Exclusive));

    assert_eq!(third.force_release("it").await.unwrap(), 1);
    let next = soon(next).await.unwrap().unwrap();
    assert!(
        OwnedMutexGuard::lease(&next).fencing_token() > MutexGuard::lease(&stuck).fencing_token()
    );
    drop(stuck);
    let seen = third.inspect("it").await.unwrap();
    assert_eq!(seen.waiting, 1);
    assert!(
        seen.holders[0].token >= Some(OwnedMutexGuard::lease(&next).fencing_token()),
        "{seen:?}"
    );
    drop(next);
    drop(soon(last).await.unwrap().unwrap());
    pair.all_free().await;
}
