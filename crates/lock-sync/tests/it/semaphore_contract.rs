//! What the compiler and the panic handler can see of a semaphore.

use std::error::Error;
use std::sync::Arc;

use lock_core::ErrorKind;
use lock_sync::{
    Acquire, AcquireError, AcquireOwned, OwnedSemaphorePermit, PollSemaphore, Semaphore,
    SemaphorePermit, TryAcquireError,
};

use crate::contract::assert_traits;
use crate::support::{Pair, assert_refuses_to_block, panic_of};

assert_traits! {
    tokio::sync::Semaphore: Send & Sync & Unpin;
    Semaphore: Send & Sync & Unpin;
    tokio::sync::SemaphorePermit<'static>: Send & Sync & Unpin;
    SemaphorePermit<'static>: Send & Sync & Unpin;
    tokio::sync::OwnedSemaphorePermit: Send & Sync & Unpin;
    OwnedSemaphorePermit: Send & Sync & Unpin;
    // These are like the futures of tokio's `async fn`s, which have no name.
    Acquire<'static>: Send & Sync & !Unpin;
    AcquireOwned: Send & Sync & !Unpin;
    PollSemaphore: Send & Sync & Unpin;
    tokio::sync::AcquireError: Send & Sync & Unpin & Error;
    AcquireError: Send & Sync & Unpin & Error & Eq;
    tokio::sync::TryAcquireError: Send & Sync & Unpin & Error & Eq;
    TryAcquireError: Send & Sync & Unpin & Error & Eq;
}

/// The futures of an `async fn` have no name, so they are checked where they are made.
#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let tokios = Arc::new(tokio::sync::Semaphore::new(1));
    check(tokios.acquire());
    check(Arc::clone(&tokios).acquire_owned());

    let pair = Pair::threaded();
    let semaphore = Arc::new(pair.semaphores(2).0);
    check(semaphore.acquire());
    check(Arc::clone(&semaphore).acquire_owned());
    check(semaphore.try_acquire());
    check(semaphore.try_acquire_many(2));
    check(Arc::clone(&semaphore).try_acquire_owned());
    check(Arc::clone(&semaphore).try_acquire_many_owned(2));
    check(semaphore.available_permits());
    check(semaphore.add_permits(1));
    check(semaphore.forget_permits(1));
    check(semaphore.close_for_all());
    check(semaphore.is_closed_for_all());
    let mut permit = semaphore.blocking_acquire().unwrap();
    check(permit.lease().while_held(std::future::ready(())));
    permit.merge(semaphore.blocking_acquire().unwrap());
    check(permit.release());
}

#[test]
fn words_are_tokios_where_tokio_has_words() {
    let tokios = tokio::sync::Semaphore::new(0);
    let words = tokios.try_acquire().unwrap_err().to_string();
    assert_eq!(TryAcquireError::NoPermits.to_string(), words);
    tokios.close();
    let words = tokios.try_acquire().unwrap_err().to_string();
    assert_eq!(TryAcquireError::Closed.to_string(), words);
    assert_eq!(AcquireError::Closed.to_string(), words);
    let error = lock_core::Error::new(ErrorKind::Denied, "wrong password");
    let error = AcquireError::Backend(error);
    assert_eq!(error.source().unwrap().to_string(), "wrong password");
}

/// Blocking inside a runtime panics with tokio's message, at the line of the caller.
#[test]
fn blocking_in_a_runtime_panics_at_the_caller() {
    type Blocking = fn(&Arc<Semaphore>);
    let pair = Pair::threaded();
    let semaphore = Arc::new(pair.semaphores(2).0);
    let panics: [(&str, Blocking); 4] = [
        ("blocking_acquire", |semaphore| drop(semaphore.blocking_acquire())),
        ("blocking_acquire_many", |semaphore| drop(semaphore.blocking_acquire_many(2))),
        ("blocking_acquire_owned", |semaphore| {
            drop(Arc::clone(semaphore).blocking_acquire_owned());
        }),
        ("blocking_acquire_many_owned", |semaphore| {
            drop(Arc::clone(semaphore).blocking_acquire_many_owned(2));
        }),
    ];
    for (name, blocking) in panics {
        assert_refuses_to_block(name, file!(), || blocking(&semaphore));
    }
}

#[test]
fn merging_what_does_not_belong_together_panics_at_the_caller() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(2);
    let another = Arc::new(pair.here.semaphore("another", 2).unwrap());
    let words = "merging permits from different semaphore instances";

    let others = [there.blocking_acquire().unwrap(), another.blocking_acquire().unwrap()];
    for other in others {
        let mut permit = here.blocking_acquire().unwrap();
        let (message, file) = panic_of("merge", move || permit.merge(other));
        assert_eq!((message.as_str(), file.as_str()), (words, file!()));
    }

    let mut permit = Arc::new(here).blocking_acquire_owned().unwrap();
    let other = another.blocking_acquire_owned().unwrap();
    let (message, file) = panic_of("merge, owned", move || permit.merge(other));
    assert_eq!((message.as_str(), file.as_str()), (words, file!()));
}
