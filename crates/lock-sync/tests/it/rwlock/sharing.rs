//! Which holders share the lock, and what this costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_sync::{RwLockReadGuard, RwLockWriteGuard, TryLockError};
use tokio::task::yield_now;

use super::{begin, fair, refuses_readers, rwlocks, soon, still_waits};
use crate::support::{Pair, eventually};

#[tokio::test]
async fn a_refusal_because_of_a_writer_here_costs_no_request() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let writing = here.write().await.unwrap();
    let asked = pair.ours.stats().acquires;
    assert!(matches!(here.try_read().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(here.try_write().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(here.try_upgradable_read().await, Err(TryLockError::WouldBlock)));
    assert_eq!(pair.ours.stats().acquires, asked);
    assert!(matches!(there.try_upgradable_read().await, Err(TryLockError::WouldBlock)));
    RwLockWriteGuard::release(writing).await.unwrap();
    pair.all_released().await;
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

    // The reader that took the lease may leave first: the lease ends with the last reader.
    let last = readers.pop().unwrap();
    drop(readers);
    RwLockReadGuard::release(other).await.unwrap();
    assert_eq!(pair.store.live_leases(), 1);
    assert!(RwLockReadGuard::lease(&last).is_valid() && there.try_write().await.is_err());
    RwLockReadGuard::release(last).await.unwrap();
    assert_eq!(pair.store.live_leases(), 0);
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

    let token = RwLockReadGuard::lease(&reading).fencing_token();
    drop(reading);
    let writing = soon(writing).await.unwrap();
    assert!(RwLockWriteGuard::lease(&writing).fencing_token() > token);
    still_waits(later.as_mut()).await;
    let token = RwLockWriteGuard::lease(&writing).fencing_token();
    drop(writing);
    assert!(RwLockReadGuard::lease(&soon(later).await.unwrap()).fencing_token() > token);
}

/// There is a reader at every instant, and yet a writer of another process gets its turn.
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
                    // The next reader enters before the last one leaves, if that is possible.
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
        RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
    }
    done.store(1, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    pair.all_released().await;
}
