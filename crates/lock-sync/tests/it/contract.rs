//! The auto traits of the public types, and the locations of panics.

use std::error::Error;
use std::sync::Arc;

use lock_sync::{
    LeaseLost, Lock, LockError, LockOwned, Locks, Lost, MappedMutexGuard, Mutex, MutexGuard,
    OwnedMappedMutexGuard, OwnedMutexGuard, ReleaseError, TryLockError,
};

use crate::support::{Pair, assert_refuses_to_block};

/// `Send` and `Sync`.
#[allow(dead_code)]
type Both = u8;
/// `Send` and not `Sync`.
#[allow(dead_code)]
type SendOnly = std::cell::Cell<u8>;
/// Neither.
#[allow(dead_code)]
type Neither = std::rc::Rc<u8>;

/// One line per type and trait; `!` says that it must not hold. A type that implements the trait
/// makes the second impl apply as well, and the call ambiguous.
macro_rules! assert_traits {
    ($($ty:ty: $($(!$not:tt)? $($is:ident)?)&+;)*) => {
        $($(assert_traits!(@one $ty, $(!$not)? $($is)?);)+)*
    };
    (@one $ty:ty, !$not:ident) => {
        const _: fn() = || {
            trait AmbiguousIf<A> { fn here() {} }
            impl<T: ?Sized> AmbiguousIf<()> for T {}
            impl<T: ?Sized + $not> AmbiguousIf<u8> for T {}
            let _ = <$ty as AmbiguousIf<_>>::here;
        };
    };
    (@one $ty:ty, $is:ident) => {
        const _: fn() = || {
            fn holds<T: ?Sized + $is>() {}
            holds::<$ty>();
        };
    };
}

pub(crate) use assert_traits;

// The table of tokio's own `async_send_sync` test, for the same types.
assert_traits! {
    Mutex<Both>: Send & Sync & Unpin;
    Mutex<SendOnly>: Send & Sync & Unpin;
    Mutex<Neither>: !Send & !Sync & Unpin;
    MutexGuard<'static, Both>: Send & Sync & Unpin;
    MutexGuard<'static, SendOnly>: Send & !Sync & Unpin;
    MutexGuard<'static, Neither>: !Send & !Sync & Unpin;
    OwnedMutexGuard<Both>: Send & Sync & Unpin;
    OwnedMutexGuard<SendOnly>: Send & !Sync & Unpin;
    OwnedMutexGuard<Neither>: !Send & !Sync & Unpin;
    MappedMutexGuard<'static, Both>: Send & Sync & Unpin;
    MappedMutexGuard<'static, SendOnly>: Send & !Sync & Unpin;
    MappedMutexGuard<'static, Neither>: !Send & !Sync & Unpin;
    OwnedMappedMutexGuard<Both, Both>: Send & Sync & Unpin;
    OwnedMappedMutexGuard<SendOnly, Both>: Send & !Sync & Unpin;
    OwnedMappedMutexGuard<Neither, Both>: !Send & !Sync & Unpin;
    Lock<'static, Both>: Send & Sync & !Unpin;
    Lock<'static, SendOnly>: Send & Sync & !Unpin;
    Lock<'static, Neither>: !Send & !Sync & !Unpin;
    LockOwned<Both>: Send & Sync & !Unpin;
    LockOwned<SendOnly>: Send & Sync & !Unpin;
    LockOwned<Neither>: !Send & !Sync & !Unpin;
    Lost: Send & Sync;
    Locks: Send & Sync & Unpin;
    LockError: Send & Sync & Unpin & Error;
    TryLockError: Send & Sync & Unpin & Error;
    ReleaseError: Send & Sync & Unpin & Error;
    LeaseLost: Send & Sync & Unpin & Error;
}

/// The futures of an `async fn` have no name, so they are checked where they are made.
#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let pair = Pair::threaded();
    let mutex = Arc::new(pair.here.mutex("it", 0_u8).unwrap());
    check(mutex.try_lock());
    check(Arc::clone(&mutex).try_lock_owned());
    check(pair.here.shutdown());
    let guard = mutex.blocking_lock().unwrap();
    check(MutexGuard::lease(&guard).while_held(std::future::ready(())));
    check(MutexGuard::release(guard));
}

#[test]
fn words_are_tokios_where_tokio_has_words() {
    assert_eq!(TryLockError::WouldBlock.to_string(), "operation would block");
}

/// Blocking inside a runtime panics with tokio's message, at the line of the caller.
#[test]
fn blocking_in_a_runtime_panics_at_the_caller() {
    let pair = Pair::threaded();
    let mutex = Arc::new(pair.here.mutex("it", 0).unwrap());
    type Blocking = fn(&Arc<Mutex<i32>>);
    let panics: [(&str, Blocking); 2] = [
        ("blocking_lock", |mutex| drop(mutex.blocking_lock())),
        ("blocking_lock_owned", |mutex| drop(Arc::clone(mutex).blocking_lock_owned())),
    ];
    for (name, blocking) in panics {
        assert_refuses_to_block(name, file!(), || blocking(&mutex));
    }
}

#[test]
fn bad_options_are_refused_before_anything_is_sent() {
    use lock_core::ErrorKind::{InvalidConfig, InvalidKey, InvalidTtl};
    use lock_core::memory::MemoryBackend;
    use std::time::Duration;

    let backend = MemoryBackend::new();
    let kind = |builder: lock_sync::Builder<MemoryBackend>| builder.build().unwrap_err().kind();
    let builder = || Locks::builder(backend.clone());
    for ttl in [Duration::ZERO, Duration::from_micros(100), Duration::MAX] {
        assert_eq!(kind(builder().ttl(ttl)), InvalidTtl);
    }
    assert_eq!(kind(builder().wait_limit(Duration::ZERO)), InvalidConfig);
    assert_eq!(kind(builder().max_hold(Duration::ZERO)), InvalidConfig);
    assert_eq!(kind(builder().prefix("x".repeat(600))), InvalidKey);
    let locks = builder().prefix("app/").build().unwrap();
    assert_eq!(locks.mutex("x".repeat(510), ()).unwrap_err().kind(), InvalidKey);
    assert_eq!(locks.mutex("orders", ()).unwrap().key().as_bytes(), b"app/orders");
    let exact = lock_core::Key::raw("orders").unwrap();
    assert_eq!(locks.mutex(exact, ()).unwrap().key().as_bytes(), b"orders");
    assert_eq!(backend.stats().total(), 0);
}
