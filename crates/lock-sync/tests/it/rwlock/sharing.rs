//! Who may have the lock beside whom, and what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use futures::future::join_all;
use lock_sync::TryLockError;
use tokio::task::yield_now;

use super::{begin, fair, refuses_readers, rwlocks, soon, still_waits};
use crate::support::{Pair, eventually};

#[tokio::test]
async fn readers_share_here_and_there() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let (first, second) = (here.read().await.unwrap(), here.read().await.unwrap());
    let third = there.read().await.unwrap();
    assert!(first.is_valid() && second.is_valid() && third.is_valid());
    assert!(matches!(there.try_write().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(here.try_write().await, Err(TryLockError::WouldBlock)));
    drop((first, second));
    assert!(matches!(there.try_write().await, Err(TryLockError::WouldBlock)), "it reads itself");
    third.release().await.unwrap();
    drop(soon(there.write()).await.unwrap());
}

#[tokio::test]
async fn a_writer_excludes_everybody() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let writing = here.write().await.unwrap();
    let asked = pair.ours.stats().acquires;
    assert!(matches!(here.try_read().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(here.try_write().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(here.try_upgradable_read().await, Err(TryLockError::WouldBlock)));
    assert_eq!(pair.ours.stats().acquires, asked, "the store need not be asked");
    assert!(matches!(there.try_read().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(there.try_write().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(there.try_upgradable_read().await, Err(TryLockError::WouldBlock)));
    writing.release().await.unwrap();
    assert!(there.try_read().await.is_ok());
    pair.all_released().await;
}

#[tokio::test]
async fn a_writer_excludes_a_mutex_of_the_same_name() {
    let pair = Pair::threaded();
    let (rwlock, mutex) = (pair.here.rwlock("it", 0).unwrap(), pair.there.mutex("it", 0).unwrap());
    let guard = mutex.lock().await.unwrap();
    assert!(rwlock.try_read().await.is_err() && rwlock.try_write().await.is_err());
    guard.release().await.unwrap();
    let guard = rwlock.write().await.unwrap();
    assert!(mutex.try_lock().await.is_err());
    guard.release().await.unwrap();
    let guard = rwlock.read().await.unwrap();
    assert!(mutex.try_lock().await.is_err());
    drop(guard);
}

#[tokio::test]
async fn readers_of_one_process_share_one_lease() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let mut readers = Vec::new();
    for _ in 0..50 {
        readers.push(here.read().await.unwrap());
    }
    assert_eq!(pair.store.live_leases(), 1);
    assert_eq!(pair.ours.stats().acquires, 1);
    let other = there.read().await.unwrap();
    assert_eq!(pair.store.live_leases(), 2, "each process has a lease of its own");

    // Whoever took the lease may leave first: it ends with the last.
    let last = readers.pop().unwrap();
    drop(readers);
    other.release().await.unwrap();
    assert_eq!(pair.store.live_leases(), 1);
    assert!(last.is_valid() && there.try_write().await.is_err());
    last.release().await.unwrap();
    assert_eq!(pair.store.live_leases(), 0);
}

#[tokio::test]
async fn readers_and_writers_have_rising_tokens() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let mut floor = None;
    for lock in [&here, &there, &here, &here, &there] {
        let writing = lock.write().await.unwrap();
        assert!(Some(writing.fencing_token()) > floor);
        floor = Some(writing.fencing_token());
        drop(writing);
        let readers = [soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap()];
        assert!(readers.iter().all(|reader| Some(reader.fencing_token()) > floor));
        floor = readers.iter().map(|reader| reader.fencing_token()).max();
        for reader in readers {
            reader.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn readers_stop_sharing_when_a_writer_waits_elsewhere() {
    let pair = fair();
    let (here, there) = rwlocks(&pair);
    let reading = here.read().await.unwrap();
    let mut writing = Box::pin(there.write());
    begin(writing.as_mut()).await;
    refuses_readers(&here).await;
    let mut later = Box::pin(here.read());
    begin(later.as_mut()).await;
    still_waits(later.as_mut()).await;

    let token = reading.fencing_token();
    drop(reading);
    let writing = soon(writing).await.unwrap();
    assert!(writing.fencing_token() > token);
    still_waits(later.as_mut()).await;
    let token = writing.fencing_token();
    drop(writing);
    assert!(soon(later).await.unwrap().fencing_token() > token);
}

/// There is a reader at every instant, and yet a writer elsewhere has its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_never_cease_do_not_starve_a_writer_elsewhere() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let (here, done) = (Arc::new(here), Arc::new(AtomicU32::new(0)));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (here, done) = (Arc::clone(&here), Arc::clone(&done));
            tokio::spawn(async move {
                let mut guard = Arc::clone(&here).read_owned().await.unwrap();
                while done.load(Ordering::SeqCst) == 0 {
                    yield_now().await;
                    // The next before the last is gone, if that is possible.
                    let next = Arc::clone(&here).try_read_owned().await;
                    drop(guard);
                    guard = match next {
                        Ok(next) => next,
                        Err(_) => Arc::clone(&here).read_owned().await.unwrap(),
                    };
                }
            })
        })
        .collect();
    eventually("they read", || here.is_held()).await;
    for _ in 0..20 {
        soon(there.write()).await.unwrap().release().await.unwrap();
    }
    done.store(1, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    pair.all_released().await;
}

/// Counts who is inside, as a resource would that both processes use.
#[derive(Default)]
struct Inside(AtomicI32);

impl Inside {
    const WRITER: i32 = 1_000;

    async fn read(&self) {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        assert!((0..Self::WRITER).contains(&before), "a writer is inside");
        yield_now().await;
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    async fn write(&self) {
        assert_eq!(self.0.fetch_add(Self::WRITER, Ordering::SeqCst), 0, "somebody is inside");
        yield_now().await;
        self.0.fetch_sub(Self::WRITER, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_and_writers_never_meet() {
    const ROUNDS: u32 = 60;
    let pair = Pair::threaded();
    let inside = Arc::new(Inside::default());
    let (here, there) = rwlocks(&pair);
    let (here, there) = (Arc::new(here), Arc::new(there));
    let tasks = [&here, &there].into_iter().flat_map(|lock| {
        (0..6).map(|n| {
            let (lock, inside) = (Arc::clone(lock), Arc::clone(&inside));
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    match (n + round) % 6 {
                        0 | 1 => {
                            let mut guard = lock.write().await.unwrap();
                            inside.write().await;
                            *guard += 1;
                            assert!(guard.is_valid());
                        }
                        2 => {
                            let guard = lock.upgradable_read().await.unwrap();
                            inside.read().await;
                            let before = *guard;
                            let mut guard = guard.upgrade().await.unwrap();
                            inside.write().await;
                            assert_eq!(*guard, before, "nobody wrote in between");
                            *guard += 1;
                        }
                        3 => {
                            let mut guard = lock.write().await.unwrap();
                            inside.write().await;
                            *guard += 1;
                            let written = *guard;
                            let guard = guard.downgrade();
                            inside.read().await;
                            assert_eq!(*guard, written, "nobody wrote in between");
                        }
                        _ => {
                            let guard = lock.read().await.unwrap();
                            inside.read().await;
                            assert!(guard.is_valid());
                        }
                    }
                }
            })
        })
    });
    for task in join_all(tasks.collect::<Vec<_>>()).await {
        task.unwrap();
    }
    let writes = *here.read().await.unwrap() + *there.read().await.unwrap();
    // Four of every six rounds write.
    assert_eq!(writes, 2 * 6 * ROUNDS * 4 / 6);
    pair.all_released().await;
}
