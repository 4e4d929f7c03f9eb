//! What the compiler and the panic handler can see of a reentrant mutex.

use std::cell::Cell;
use std::error::Error;
use std::future::Ready;
use std::rc::Rc;

use lock_sync::{
    LockAs, LockError, Owner, OwnerGuard, OwnerScope, ParseOwnerError, PassedOwner, ReentrantGuard,
    ReentrantLock, ReentrantMutex, Reentry, TryLockError, owner_scope, owner_scope_sync,
};

use crate::contract::assert_traits;
use crate::support::{Pair, assert_refuses_to_block};

// A reentry is as a `&mut T`. The guards of an owner are as a `&T`: there may be several.
assert_traits! {
    Reentry<'static, u8>: Send & Sync & Unpin;
    Reentry<'static, Cell<u8>>: Send & !Sync & Unpin;
    Reentry<'static, Rc<u8>>: !Send & !Sync & Unpin;
    Owner: Send & Sync & Unpin;
    ReentrantMutex<u8>: Send & Sync & Unpin;
    ReentrantMutex<Cell<u8>>: Send & !Sync & Unpin;
    ReentrantMutex<Rc<u8>>: !Send & !Sync & Unpin;
    OwnerGuard<'static, u8>: Send & Sync & Unpin;
    OwnerGuard<'static, Cell<u8>>: !Send & !Sync & Unpin;
    ReentrantGuard<'static, u8>: Send & Sync & Unpin;
    ReentrantGuard<'static, Cell<u8>>: !Send & !Sync & Unpin;
    LockAs<'static, u8>: Send & Sync & !Unpin;
    LockAs<'static, Cell<u8>>: !Send & !Sync & !Unpin;
    ReentrantLock<'static, u8>: Send & Sync & !Unpin;
    ReentrantLock<'static, Cell<u8>>: !Send & !Sync & !Unpin;
    OwnerScope<Ready<u8>>: Send & Sync & !Unpin;
    OwnerScope<Ready<Cell<u8>>>: Send & !Sync & !Unpin;
    OwnerScope<Ready<Rc<u8>>>: !Send & !Sync & !Unpin;
    ParseOwnerError: Send & Sync & Unpin & Error;
}

/// The futures of an `async fn` have no name, so they are checked where they are made.
#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let pair = Pair::threaded();
    let (mutex, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    check(mutex.try_lock_as(&mut owner));
    check(mutex.try_lock());
    check(owner_scope(async { mutex.lock().await.map(drop) }));
    let guard = mutex.blocking_lock_as(&mut owner).unwrap();
    check(OwnerGuard::lease(&guard).while_held(std::future::ready(())));
    check(OwnerGuard::release(guard));
}

/// Blocking inside a runtime panics with tokio's message, at the line of the caller.
#[test]
fn blocking_in_a_runtime_panics_at_the_caller() {
    let pair = Pair::threaded();
    let (mutex, _) = pair.reentrant_mutexes();
    let mut owner = Owner::new().unwrap();
    assert_refuses_to_block("blocking_lock_as", file!(), || {
        drop(mutex.blocking_lock_as(&mut owner));
    });
    assert_refuses_to_block("blocking_lock", file!(), || {
        owner_scope_sync(|| drop(mutex.blocking_lock()));
    });
}

#[test]
fn errors_say_why() {
    let error = "me".parse::<PassedOwner>().unwrap_err();
    assert_eq!(error.to_string(), "an owner has 32 hexadecimal digits, not 2 bytes");
    let error = lock_core::Error::new(lock_core::ErrorKind::Denied, "wrong password");
    let error = LockError::Backend(error);
    assert_eq!(error.source().unwrap().to_string(), "wrong password");
    assert!(LockError::NoOwnerScope.source().is_none());
    assert_eq!(TryLockError::WouldBlock.to_string(), "operation would block");
}
