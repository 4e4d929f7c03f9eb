//! Readers and writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use lock_sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use tokio::task::yield_now;

use super::{Pair, Stage, waits};
use crate::soon;

/// Counts the callers that are inside, like a resource that both clients use.
#[derive(Default)]
pub(super) struct Inside(AtomicI32);

impl Inside {
    const WRITER: i32 = 1_000;

    pub(super) async fn read(&self) {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        assert!((0..Self::WRITER).contains(&before), "a writer is inside");
        yield_now().await;
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) async fn write(&self) {
        assert_eq!(self.0.fetch_add(Self::WRITER, Ordering::SeqCst), 0, "another caller is inside");
        yield_now().await;
        self.0.fetch_sub(Self::WRITER, Ordering::SeqCst);
    }
}

/// Readers of both clients read at once. A writer waits for all of them, and keeps all out.
pub async fn readers_share_and_a_writer_does_not<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let (read, second) = (soon(here.read()).await.unwrap(), soon(here.read()).await.unwrap());
    let beside = soon(there.read()).await.unwrap();
    assert!(
        RwLockReadGuard::lease(&read).is_valid()
            && RwLockReadGuard::lease(&second).is_valid()
            && RwLockReadGuard::lease(&beside).is_valid()
    );
    for lock in [&here, &there] {
        assert!(matches!(lock.try_write().await, Err(TryLockError::WouldBlock)));
    }
    drop(second);
    let mut writing = Box::pin(there.write());
    waits(&mut writing).await;
    RwLockReadGuard::release(read).await.unwrap();
    waits(&mut writing).await;
    RwLockReadGuard::release(beside).await.unwrap();
    let write = soon(writing).await.unwrap();
    for lock in [&here, &there] {
        assert!(matches!(lock.try_read().await, Err(TryLockError::WouldBlock)));
        assert!(matches!(lock.try_write().await, Err(TryLockError::WouldBlock)));
    }
    RwLockWriteGuard::release(write).await.unwrap();
    assert!(here.try_read().await.is_ok());
    pair.all_free().await;
}

/// A name is one lock, whatever kind of lock a client takes it for.
pub async fn a_writer_excludes_a_mutex_of_that_name<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let rwlock = pair.here.rwlock("it", 0).unwrap();
    let mutex = pair.there.mutex("it", 0).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    assert!(matches!(rwlock.try_read().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(rwlock.try_write().await, Err(TryLockError::WouldBlock)));
    MutexGuard::release(guard).await.unwrap();
    let guard = soon(rwlock.write()).await.unwrap();
    assert!(matches!(mutex.try_lock().await, Err(TryLockError::WouldBlock)));
    RwLockWriteGuard::release(guard).await.unwrap();
    let guard = soon(rwlock.read()).await.unwrap();
    assert!(matches!(mutex.try_lock().await, Err(TryLockError::WouldBlock)));
    drop(guard);
    drop(soon(mutex.lock()).await.unwrap());
    pair.all_free().await;
}

/// Each writer's token is higher than every earlier one, and readers have a higher token than the writer before
/// them.
pub async fn tokens_of_readers_and_writers_increase<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let mut floor = None;
    for lock in [&here, &there, &here, &here, &there] {
        let writing = soon(lock.write()).await.unwrap();
        assert!(Some(RwLockWriteGuard::lease(&writing).fencing_token()) > floor);
        floor = Some(RwLockWriteGuard::lease(&writing).fencing_token());
        RwLockWriteGuard::release(writing).await.unwrap();
        let readers = [soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap()];
        assert!(
            readers
                .iter()
                .all(|reader| Some(RwLockReadGuard::lease(reader).fencing_token()) > floor)
        );
        floor = readers.iter().map(|reader| RwLockReadGuard::lease(reader).fencing_token()).max();
        for reader in readers {
            RwLockReadGuard::release(reader).await.unwrap();
        }
    }
    pair.all_free().await;
}

/// While a writer becomes a reader, no writer of another client gets in between.
pub async fn no_writer_enters_during_a_downgrade<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let probe = pair.third().await.rwlock("it", ()).unwrap();
    let closed = Arc::new(AtomicBool::new(false));
    let rival = Arc::clone(&closed);
    let writer = tokio::spawn(async move {
        for _ in 0..100 {
            let guard = there.write().await.unwrap();
            assert!(!rival.load(Ordering::SeqCst), "it got in between");
            RwLockWriteGuard::release(guard).await.unwrap();
        }
    });
    while !writer.is_finished() {
        let guard = here.write().await.unwrap();
        closed.store(true, Ordering::SeqCst);
        yield_now().await;
        let guard = guard.downgrade();
        assert!(matches!(probe.try_write().await, Err(TryLockError::WouldBlock)));
        assert!(RwLockReadGuard::lease(&guard).is_valid());
        closed.store(false, Ordering::SeqCst);
        RwLockReadGuard::release(guard).await.unwrap();
    }
    writer.await.unwrap();
    pair.all_free().await;
}
