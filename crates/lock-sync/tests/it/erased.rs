//! A handle that does not name the type of its backend.

use lock_core::memory::MemoryBackend;
use lock_core::{AnyBackend, Backend, Capabilities, CellBackend, Error, ErrorKind, Key, Kind};
use lock_sync::{LockError, Locks, Owner, OwnerGuard};

/// What an app keeps in a field.
struct App {
    locks: Locks,
}

/// Two processes of one store. One of them has erased the type.
fn apps() -> (App, Locks<MemoryBackend>) {
    let store = MemoryBackend::new();
    let app = App { locks: Locks::new(store.client()).erase() };
    (app, Locks::new(store.client()))
}

#[tokio::test]
async fn an_erased_handle_has_every_primitive() {
    let (App { locks }, other) = apps();

    let mutex = locks.mutex("mutex", ()).unwrap();
    let writing = mutex.lock().await.unwrap();
    assert!(other.mutex("mutex", ()).unwrap().try_lock().await.is_err());
    drop(writing);

    let rwlock = locks.rwlock("rwlock", 1).unwrap();
    let reading = rwlock.upgradable_read().await.unwrap();
    let beside = other.rwlock("rwlock", 1).unwrap();
    drop(beside.try_read().await.unwrap());
    assert!(beside.try_write().await.is_err());
    assert_eq!(*reading.upgrade().await.unwrap(), 1);

    let semaphore = locks.semaphore("semaphore", 2).unwrap();
    let _permit = semaphore.acquire().await.unwrap();
    assert_eq!(other.semaphore("semaphore", 2).unwrap().available_permits().await.unwrap(), 1);

    let cell = locks.once_cell::<u32, _>("cell").unwrap();
    assert_eq!(*cell.get_or_init(async || 42).await.unwrap(), 42);
    let seen = other.once_cell::<u32, _>("cell").unwrap();
    assert_eq!(*seen.get_or_init(async || 1).await.unwrap(), 42);

    let _leadership = locks.election("election").unwrap().campaign("here").await.unwrap();
    assert!(other.election("election").unwrap().leader().await.unwrap().is_some());
    let _all = locks.lock_all(["a", "b"]).await.unwrap();
    assert_eq!(other.inspect("a").await.unwrap().holding, 1);
    assert!(locks.reentrant_mutex("reentrant", ()).is_ok());
    assert!(locks.barrier("barrier", 2).is_ok());
}

/// Both handles are one process: they have one line for each lock.
#[tokio::test]
async fn the_erased_handle_makes_the_locks_of_the_other() {
    let locks = Locks::new(MemoryBackend::new());
    let one = locks.mutex("it", ()).unwrap();
    let same = locks.erase().mutex("it", ()).unwrap();
    let guard = one.lock().await.unwrap();
    let mut waiting = Box::pin(same.lock());
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(guard);
    drop(waiting.await.unwrap());
}

fn kind(error: LockError) -> ErrorKind {
    match error {
        LockError::Backend(error) => error.kind(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_the_store_lacks_is_refused_before_anything_is_sent() {
    let store = MemoryBackend::new();
    let poor = AnyBackend::describing(store.clone(), |_| Capabilities::none());
    let locks = Locks::new(poor.clone());
    let unsupported = |error: Error| assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");

    unsupported(locks.rwlock("rwlock", ()).unwrap_err());
    unsupported(locks.semaphore("semaphore", 2).unwrap_err());
    unsupported(locks.owner(&Owner::new().unwrap().pass()).unwrap_err());
    unsupported(locks.once_cell::<u32, _>("cell").unwrap_err());
    unsupported(locks.election("election").unwrap_err());
    unsupported(locks.barrier("barrier", 2).unwrap_err());
    unsupported(locks.inspect("a").await.unwrap_err());
    unsupported(locks.list("a").await.unwrap_err());
    unsupported(poor.load(&Key::new("a").unwrap()).await.unwrap_err());
    assert_eq!(store.stats().total(), 0);
    drop(locks.mutex("mutex", ()).unwrap().lock().await.unwrap());
}

/// In the store, the owner has an exclusive lease.
#[tokio::test]
async fn an_owner_enters_again_where_the_store_has_no_joint_holders() {
    let store = MemoryBackend::new();
    let poor = AnyBackend::describing(store.clone(), |_| Capabilities::none());
    let mutex = Locks::new(poor).reentrant_mutex("it", ()).unwrap();
    let other = Locks::new(store.client());
    let (mut owner, mut stranger) = (Owner::new().unwrap(), Owner::new().unwrap());
    let mut outer = mutex.lock_as(&mut owner).await.unwrap();
    let inner = mutex.lock_as(outer.split().1).await.unwrap();
    assert!(OwnerGuard::lease(&inner).is_valid());
    assert!(mutex.try_lock_as(&mut stranger).await.is_err());
    let held = other.inspect("it").await.unwrap();
    assert_eq!(
        held.holders.iter().map(|holder| holder.kind).collect::<Vec<_>>(),
        [Kind::Exclusive]
    );
    drop(inner);
    OwnerGuard::release(outer).await.unwrap();
    assert!(other.mutex("it", ()).unwrap().try_lock().await.is_ok());
}

/// A backend that shares a lock but does not convert a lease.
#[tokio::test]
async fn a_reader_cannot_become_the_writer_where_the_store_cannot_convert() {
    let store = MemoryBackend::new();
    let backend =
        AnyBackend::describing(store.clone(), |store| Capabilities::none().sharing(store));
    let rwlock = Locks::new(backend).rwlock("it", ()).unwrap();
    assert_eq!(kind(rwlock.upgradable_read().await.unwrap_err()), ErrorKind::Unsupported);
    assert_eq!(store.stats().acquires, 0);

    // A downgraded writer keeps its exclusive lease, which serves the readers of this process.
    let reading = rwlock.write().await.unwrap().downgrade();
    drop(rwlock.read().await.unwrap());
    let other = Locks::new(store.client()).rwlock("it", ()).unwrap();
    assert!(other.try_read().await.is_err());
    drop(reading);
}

/// Without such a capability the handle would hide it.
#[test]
fn the_memory_backend_names_what_it_can_do() {
    let store = MemoryBackend::new();
    let all = store.capabilities();
    assert!(all.shares() && all.joins() && all.converter().is_some());
    assert!(all.counter().is_some() && all.cells().is_some() && all.inspector().is_some());
}
