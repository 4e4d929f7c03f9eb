//! What is left of a lock that was destroyed, and when it is not destroyed.

use std::sync::Arc;
use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{ErrorKind, Label, PermitBackend as _};
use lock_sync::{AcquireError, DestroyError, LockError, Locks, Semaphore, StoredMutexGuard};

use crate::support::{Pair, eventually, poll_once};

#[test]
fn the_future_is_send() {
    fn check<F: Send>(_: F) {}
    check(Pair::threaded().here.destroy("it"));
}

#[tokio::test]
async fn a_stored_value_begins_anew_and_tokens_go_on() {
    let pair = Pair::threaded();
    let (here, there) =
        (pair.here.stored_mutex("it", 1).unwrap(), pair.there.stored_mutex("it", 2).unwrap());
    let mut guard = here.lock().await.unwrap();
    *guard = 7;
    let token = StoredMutexGuard::commit(guard).await.unwrap();
    assert_eq!(there.snapshot().await.unwrap().value, 7);
    pair.there.destroy("it").await.unwrap();
    let guard = there.lock().await.unwrap();
    assert_eq!(*guard, 2);
    assert!(StoredMutexGuard::lease(&guard).fencing_token() > token);
    drop(guard);
    assert_eq!(*here.lock().await.unwrap(), 1);
}

#[tokio::test]
async fn a_semaphore_is_declared_anew_and_open() {
    let pair = Pair::threaded();
    let three = pair.here.semaphore("it", 3).unwrap();
    drop(three.acquire().await.unwrap());
    three.close_for_all().await.unwrap();
    let five = pair.there.semaphore("it", 5).unwrap();
    assert!(five.acquire().await.is_err());
    pair.here.destroy("it").await.unwrap();
    let (three, five) = (pair.here.semaphore("it", 3), pair.there.semaphore("it", 5));
    let (three, five) = (three.unwrap(), five.unwrap());
    let permits = five.acquire_many(5).await.unwrap();
    assert!(three.acquire().await.is_err(), "the number is five now");
    drop(permits);
}

#[tokio::test]
async fn the_handles_of_a_semaphore_are_open_again() {
    let pair = Pair::threaded();
    let handles = [0, 1].map(|_| pair.here.semaphore("it", 3).unwrap());
    let elsewhere = pair.there.semaphore("it", 3).unwrap();
    let closed = pair.here.semaphore("it", 3).unwrap();
    closed.close();
    handles[0].close_for_all().await.unwrap();
    assert_eq!(elsewhere.acquire().await.err(), Some(AcquireError::Closed));
    assert!(handles.iter().chain([&elsewhere]).all(Semaphore::is_closed));

    pair.here.destroy("it").await.unwrap();
    assert!(!handles.iter().any(Semaphore::is_closed));
    for open in handles.iter().chain([&elsewhere]) {
        assert_eq!(open.acquire_many(3).await.unwrap().num_permits(), 3);
    }
    assert!(!elsewhere.is_closed(), "it has asked the store");
    assert!(closed.is_closed(), "this handle alone was closed");
    assert_eq!(closed.acquire().await.err(), Some(AcquireError::Closed));

    // The next semaphore with this name is closed as the first one was.
    elsewhere.close_for_all().await.unwrap();
    assert_eq!(handles[0].acquire().await.err(), Some(AcquireError::Closed));
    assert!(handles[1].is_closed());
    pair.there.destroy("it").await.unwrap();
    assert!(!handles[0].is_closed_for_all().await.unwrap());
    assert!(!handles[1].is_closed(), "the answer says so to every handle");
}

/// The wait begins while the process knows that the semaphore is closed, and asks first.
#[tokio::test]
async fn a_wait_that_found_the_next_semaphore_open_learns_that_it_is_closed() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.semaphore("it", 1).unwrap());
    let elsewhere = pair.there.semaphore("it", 1).unwrap();
    here.close_for_all().await.unwrap();
    pair.there.destroy("it").await.unwrap();
    let _permit = elsewhere.acquire().await.unwrap();
    assert!(here.is_closed());
    let waiting = tokio::spawn(Arc::clone(&here).acquire_owned());
    eventually("it has asked", || !here.is_closed()).await;
    elsewhere.close_for_all().await.unwrap();
    assert_eq!(waiting.await.unwrap().err(), Some(AcquireError::Closed));
    assert!(here.is_closed());
}

#[tokio::test]
async fn a_late_answer_about_a_semaphore_closes_no_handle_of_the_next_one() {
    let pair = Pair::threaded();
    let semaphore = pair.here.semaphore("it", 3).unwrap();
    pair.there.semaphore("it", 3).unwrap().close_for_all().await.unwrap();
    let gate = pair.ours.faults().on(Verb::Count).hold_replies();
    let mut asking = Box::pin(semaphore.is_closed_for_all());
    assert!(poll_once(asking.as_mut()).await.is_pending());
    gate.arrived(1).await;
    gate.open();
    pair.here.destroy("it").await.unwrap();
    // The task reads the answer only now.
    assert!(asking.await.unwrap());
    assert!(!semaphore.is_closed());
}

#[tokio::test]
async fn a_lock_that_is_held_is_not_destroyed_and_the_error_names_the_holder() {
    let pair = Pair::threaded();
    let label = Label::new("import of May").unwrap();
    let held = pair.there.stored_mutex("it", 1).unwrap().with_label(label.clone());
    held.update(|value| *value = 7).await.unwrap();
    let guard = held.lock().await.unwrap();
    let mut shown = String::new();
    while !shown.contains(label.as_str()) {
        let error = pair.here.destroy("it").await.unwrap_err();
        let DestroyError::InUse(Some(seen)) = &error else { panic!("{error:?}") };
        assert_eq!(seen.holding, 1);
        shown = error.to_string();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(shown.starts_with("the lock is in use: held by import of May (exclusive, token "));
    // The guard of this process counts as well.
    let error = pair.there.destroy("it").await.unwrap_err();
    assert!(matches!(error, DestroyError::InUse(_)), "{error:?}");
    assert_eq!(LockError::from(error), LockError::Timeout { source: None });
    assert_eq!(*guard, 7);
    drop(guard);
    assert_eq!(*held.lock().await.unwrap(), 7);
}

#[tokio::test]
async fn a_permit_and_a_reader_keep_a_lock_from_being_destroyed() {
    let pair = Pair::threaded();
    let semaphore = pair.there.semaphore("permits", 3).unwrap();
    let permit = semaphore.acquire().await.unwrap();
    let rwlock = pair.there.rwlock("readers", ()).unwrap();
    let reader = rwlock.read().await.unwrap();
    for name in ["permits", "readers"] {
        for locks in [&pair.here, &pair.there] {
            let error = locks.destroy(name).await.unwrap_err();
            assert!(matches!(error, DestroyError::InUse(_)), "{name}: {error:?}");
        }
    }
    drop((permit, reader));
    for name in ["permits", "readers"] {
        pair.there.destroy(name).await.unwrap();
        pair.here.destroy(name).await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_that_is_kept_without_a_holder_is_no_hindrance() {
    let pair = Pair::threaded();
    let mutex = pair.here.mutex("it", ()).unwrap().with_cache(Duration::from_secs(60));
    drop(mutex.lock().await.unwrap());
    pair.here.destroy("it").await.unwrap();
}

#[tokio::test]
async fn failures_are_told_and_the_lock_is_free_afterwards() {
    let pair = Pair::threaded();
    for (verb, kind) in [(Verb::Cell, ErrorKind::Denied), (Verb::Count, ErrorKind::Denied)] {
        pair.ours.faults().on(verb).fail(kind);
        match pair.here.destroy("it").await.unwrap_err() {
            DestroyError::Backend(error) => assert_eq!(error.kind(), kind),
            error => panic!("{error:?}"),
        }
        pair.ours.faults().heal();
        pair.there.lock("it").await.unwrap().release().await.unwrap();
    }
    let error = pair.here.destroy("x".repeat(600)).await.unwrap_err();
    assert!(matches!(error, DestroyError::Backend(e) if e.kind() == ErrorKind::InvalidKey));
    pair.here.shutdown().await;
    assert_eq!(pair.here.destroy("it").await, Err(DestroyError::Closed));
}

#[tokio::test]
async fn it_works_without_the_type_of_the_backend() {
    let store = MemoryBackend::new();
    let locks = Locks::new(store.clone()).erase();
    locks.stored_mutex("it", 1).unwrap().update(|value| *value = 2).await.unwrap();
    let guard = locks.lock("it").await.unwrap();
    assert!(matches!(locks.destroy("it").await, Err(DestroyError::InUse(Some(_)))));
    drop(guard);
    locks.destroy("it").await.unwrap();
    assert_eq!(locks.stored_mutex("it", 1).unwrap().snapshot().await.unwrap().version, None);
    let key = "it".try_into().unwrap();
    assert_eq!(store.permits(&key, 9).await.unwrap().limit, 9);
}
