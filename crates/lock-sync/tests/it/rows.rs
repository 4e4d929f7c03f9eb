//! The primitives over a store that can only read and swap rows, through two clients.

use std::time::Duration;

use lock_core::document::DocumentBackend;
use lock_sync::{Locks, MutexGuard, RwLockReadGuard};
use tokio::runtime::Handle;
use tokio::time::Instant;

#[path = "../../../lock-core/tests/table/mod.rs"]
mod table;

use table::Table;

fn two_clients() -> [Locks<DocumentBackend<Table>>; 2] {
    let table = Table::default();
    [table.clone(), table].map(|table| {
        let builder = Locks::builder(DocumentBackend::new(table)).on_runtime(Handle::current());
        builder.build().unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn a_mutex_passes_from_client_to_client() {
    let [ours, theirs] = two_clients().map(|locks| locks.mutex("mutex", ()).unwrap());
    let guard = ours.lock().await.unwrap();
    assert!(theirs.try_lock().await.is_err());
    let since = Instant::now();
    let (released, guard) = tokio::join!(MutexGuard::release(guard), theirs.lock());
    assert!(since.elapsed() < Duration::from_secs(1), "a look finds the release");
    released.unwrap();
    assert!(MutexGuard::lease(&guard.unwrap()).is_valid());
}

#[tokio::test(start_paused = true)]
async fn readers_share_a_lock_and_a_writer_waits_for_them() {
    let [ours, theirs] = two_clients().map(|locks| locks.rwlock("rwlock", ()).unwrap());
    let (reader, upgradable) =
        (ours.read().await.unwrap(), theirs.upgradable_read().await.unwrap());
    assert!(theirs.try_write().await.is_err());
    let (released, writer) = tokio::join!(RwLockReadGuard::release(reader), upgradable.upgrade());
    released.unwrap();
    assert!(ours.try_read().await.is_err());
    let since = Instant::now();
    let (_reader, other) = tokio::join!(async { writer.unwrap().downgrade() }, ours.read());
    drop(other.unwrap());
    assert!(since.elapsed() < Duration::from_secs(1), "a look finds the downgrade");
}

#[tokio::test(start_paused = true)]
async fn permits_are_counted_over_all_clients() {
    let [ours, theirs] = two_clients().map(|locks| locks.semaphore("semaphore", 3).unwrap());
    let two = ours.acquire_many(2).await.unwrap();
    assert!(theirs.try_acquire_many(2).await.is_err());
    let _one = theirs.acquire().await.unwrap();
    let since = Instant::now();
    let (released, _two) = tokio::join!(two.release(), theirs.acquire_many(2));
    released.unwrap();
    assert!(since.elapsed() < Duration::from_secs(1), "a look finds the permits");
    assert_eq!(ours.available_permits().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stored_value_is_that_of_the_last_holder() {
    let [ours, theirs] = two_clients().map(|locks| locks.stored_mutex("stored", 1_u32).unwrap());
    ours.update(|value| *value += 41).await.unwrap();
    assert_eq!(*theirs.lock().await.unwrap(), 42);
}
