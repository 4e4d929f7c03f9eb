//! Waiters in the queue of the store.

use lock_core::{Kind, Label};
use lock_sync::{
    MutexGuard, OwnedMutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use super::{Pair, Stage, until_waiting, waits, waits_in_line};
use crate::{SOON, eventually_async, soon};

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
    until_waiting(&pair.there, 1).await;
    let reader = tokio::spawn(async move {
        there.read().await.map(|guard| RwLockReadGuard::lease(&guard).fencing_token())
    });
    until_waiting(&pair.here, 2).await;
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
    until_waiting(&third, 1).await;
    let mutex = std::sync::Arc::new(third.mutex("it", ()).unwrap());
    let last = tokio::spawn(mutex.lock_owned());
    until_waiting(&third, 2).await;
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

/// Waits until this client lets no further reader in, because it knows that another client waits.
async fn until_refused<C>(lock: &RwLock<(), C>) {
    let refused = async || matches!(lock.try_read().await, Err(TryLockError::WouldBlock));
    eventually_async("no further reader enters", SOON, refused).await;
}

/// Later readers wait behind a writer, even if their client already reads. Readers in a row enter together.
pub async fn a_waiting_writer_holds_back_later_readers<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let elsewhere = pair.third().await.rwlock("it", ()).unwrap();
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let reading = soon(here.read()).await.unwrap();
    let mut writing = Box::pin(there.write());
    waits_in_line(&mut writing, &pair.here, 1).await;
    assert!(matches!(soon(elsewhere.try_read()).await, Err(TryLockError::WouldBlock)));
    until_refused(&here).await;
    let (mut near, mut far) = (Box::pin(here.read()), Box::pin(elsewhere.read()));
    waits(&mut far).await;
    waits(&mut near).await;
    assert!(RwLockReadGuard::lease(&reading).is_valid());
    let read = RwLockReadGuard::lease(&reading).fencing_token();
    drop(reading);
    let writing = soon(writing).await.unwrap();
    let wrote = RwLockWriteGuard::lease(&writing).fencing_token();
    assert!(wrote > read);
    waits(&mut far).await;
    waits(&mut near).await;
    drop(writing);
    let readers = [soon(far).await.unwrap(), soon(near).await.unwrap()];
    for reader in &readers {
        let lease = RwLockReadGuard::lease(reader);
        assert!(lease.is_valid() && lease.fencing_token() > wrote);
    }
    drop(readers);
    pair.all_free().await;
}

/// Readers of every client that waited behind a writer enter when the writer has given up.
pub async fn a_writer_that_gave_up_holds_back_no_reader<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let elsewhere = pair.third().await.rwlock("it", ()).unwrap();
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let reading = soon(here.read()).await.unwrap();
    let mut writing = Box::pin(there.write());
    waits_in_line(&mut writing, &pair.here, 1).await;
    until_refused(&here).await;
    let (mut near, mut far) = (Box::pin(there.read()), Box::pin(elsewhere.read()));
    waits(&mut far).await;
    waits(&mut near).await;
    drop(writing);
    drop([soon(far).await.unwrap(), soon(near).await.unwrap()]);
    assert!(RwLockReadGuard::lease(&reading).is_valid());
    drop(soon(here.read()).await.unwrap());
    drop(reading);
    pair.all_free().await;
}
