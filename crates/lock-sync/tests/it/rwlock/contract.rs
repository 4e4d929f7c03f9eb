//! The auto traits of the public types, and the locations of panics.

use std::error::Error;
use std::marker::PhantomData;
use std::sync::Arc;

use lock_sync::{LockError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, UpgradeError};

use crate::support::{Pair, assert_refuses_to_block};

/// `Send` and `Sync`.
type Both = u8;
/// `Send` and not `Sync`.
type SendOnly = std::cell::Cell<u8>;
/// Neither.
type Neither = std::rc::Rc<u8>;

/// Stands for a type. A method for types with a trait shadows the method for all types.
struct Of<T: ?Sized>(PhantomData<T>);

trait OfAll {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;

    fn is_send(&self) -> bool {
        false
    }

    fn is_sync(&self) -> bool {
        false
    }

    fn is_unpin(&self) -> bool {
        false
    }
}

impl<T: ?Sized> OfAll for Of<T> {}

impl<T: ?Sized + Send> Of<T> {
    const SEND: bool = true;

    fn is_send(&self) -> bool {
        true
    }
}

impl<T: ?Sized + Sync> Of<T> {
    const SYNC: bool = true;

    fn is_sync(&self) -> bool {
        true
    }
}

impl<T: ?Sized + Unpin> Of<T> {
    const UNPIN: bool = true;

    #[allow(dead_code, reason = "no future is, here or there")]
    fn is_unpin(&self) -> bool {
        true
    }
}

macro_rules! traits_of {
    ($ty:ty) => {
        (<Of<$ty>>::SEND, <Of<$ty>>::SYNC, <Of<$ty>>::UNPIN)
    };
}

/// Whether a type here and one of tokio's have the same auto traits.
macro_rules! assert_same {
    ($($ours:ty = $theirs:ty;)*) => {
        $(const _: () = {
            let (ours, theirs) = (traits_of!($ours), traits_of!($theirs));
            assert!(ours.0 == theirs.0 && ours.1 == theirs.1 && ours.2 == theirs.2);
        };)*
    };
}

macro_rules! assert_same_for {
    ($($t:ty),*) => {$(
        assert_same! {
            lock_sync::RwLockReadGuard<'static, $t> = tokio::sync::RwLockReadGuard<'static, $t>;
            lock_sync::RwLockWriteGuard<'static, $t> = tokio::sync::RwLockWriteGuard<'static, $t>;
            lock_sync::RwLockMappedWriteGuard<'static, $t>
                = tokio::sync::RwLockMappedWriteGuard<'static, $t>;
            lock_sync::OwnedRwLockReadGuard<$t> = tokio::sync::OwnedRwLockReadGuard<$t>;
            lock_sync::OwnedRwLockReadGuard<Both, $t> = tokio::sync::OwnedRwLockReadGuard<Both, $t>;
            lock_sync::OwnedRwLockReadGuard<$t, Both> = tokio::sync::OwnedRwLockReadGuard<$t, Both>;
            lock_sync::OwnedRwLockWriteGuard<$t> = tokio::sync::OwnedRwLockWriteGuard<$t>;
            lock_sync::OwnedRwLockMappedWriteGuard<$t>
                = tokio::sync::OwnedRwLockMappedWriteGuard<$t>;
            lock_sync::OwnedRwLockMappedWriteGuard<Both, $t>
                = tokio::sync::OwnedRwLockMappedWriteGuard<Both, $t>;
            lock_sync::OwnedRwLockMappedWriteGuard<$t, Both>
                = tokio::sync::OwnedRwLockMappedWriteGuard<$t, Both>;
            // tokio has no upgradable guards, so these are compared with the guards that they can become.
            lock_sync::RwLockUpgradableReadGuard<'static, $t>
                = tokio::sync::RwLockWriteGuard<'static, $t>;
            lock_sync::OwnedRwLockUpgradableReadGuard<$t> = tokio::sync::OwnedRwLockWriteGuard<$t>;
        }
    )*};
}

assert_same_for!(Both, SendOnly, Neither);

assert_same! {
    RwLock<Both> = tokio::sync::RwLock<Both>;
    RwLock<Neither> = tokio::sync::RwLock<Neither>;
}

// The one difference, which the documentation of `RwLock` names: tokio's can be moved to another thread
// although its value cannot be shared.
const _: () = {
    assert!(<Of<tokio::sync::RwLock<SendOnly>>>::SEND && !<Of<RwLock<SendOnly>>>::SEND);
    assert!(!<Of<tokio::sync::RwLock<SendOnly>>>::SYNC && !<Of<RwLock<SendOnly>>>::SYNC);
};

/// As in tokio's own table. The futures in that table have no names.
macro_rules! assert_futures {
    ($t:ty: $send:literal, $sync:literal, $unpin:literal) => {
        const _: () = {
            let all = [
                traits_of!(lock_sync::Read<'static, $t>),
                traits_of!(lock_sync::ReadOwned<$t>),
                traits_of!(lock_sync::Write<'static, $t>),
                traits_of!(lock_sync::WriteOwned<$t>),
                traits_of!(lock_sync::UpgradableRead<'static, $t>),
                traits_of!(lock_sync::UpgradableReadOwned<$t>),
                traits_of!(lock_sync::Upgrade<'static, $t>),
                traits_of!(lock_sync::UpgradeOwned<$t>),
            ];
            let mut n = 0;
            while n < all.len() {
                assert!(all[n].0 == $send && all[n].1 == $sync && all[n].2 == $unpin);
                n += 1;
            }
        };
    };
}

assert_futures!(Both: true, true, false);
assert_futures!(SendOnly: false, false, false);
assert_futures!(Neither: false, false, false);

fn of<T>(_: &T) -> Of<T> {
    Of(PhantomData)
}

/// The futures of the `async fn`s, and tokio's, are compared where they are made.
#[test]
fn every_future_is_what_tokios_is() {
    macro_rules! check {
        ($ours:expr, $theirs:expr) => {{
            let (ours, theirs) = (of(&$ours), of(&$theirs));
            assert_eq!(
                (ours.is_send(), ours.is_sync(), ours.is_unpin()),
                (theirs.is_send(), theirs.is_sync(), theirs.is_unpin()),
                stringify!($ours)
            );
        }};
    }

    let pair = Pair::threaded();
    macro_rules! check_with {
        ($value:expr) => {{
            let ours = Arc::new(pair.here.rwlock("it", $value).unwrap());
            let theirs = Arc::new(tokio::sync::RwLock::new($value));
            check!(ours.read(), theirs.read());
            check!(ours.write(), theirs.write());
            check!(ours.upgradable_read(), theirs.write());
            check!(Arc::clone(&ours).read_owned(), Arc::clone(&theirs).read_owned());
            check!(Arc::clone(&ours).write_owned(), Arc::clone(&theirs).write_owned());
            check!(ours.try_read(), theirs.read());
            check!(ours.try_write(), theirs.write());
            check!(ours.try_upgradable_read(), theirs.write());
            check!(Arc::clone(&ours).try_read_owned(), Arc::clone(&theirs).read_owned());
            check!(Arc::clone(&ours).try_write_owned(), Arc::clone(&theirs).write_owned());
            let reading = ours.blocking_upgradable_read().unwrap();
            check!(reading.try_upgrade(), theirs.write());
            let reading = Arc::clone(&ours).blocking_upgradable_read_owned().unwrap();
            check!(reading.try_upgrade(), Arc::clone(&theirs).write_owned());
        }};
    }
    check_with!(Both::default());
    check_with!(SendOnly::default());
    check_with!(Neither::default());
}

#[test]
fn a_guard_is_released_and_watched_on_any_thread() {
    let pair = Pair::threaded();
    let lock = pair.here.rwlock("other", 0_u8).unwrap();
    let reading = lock.blocking_read().unwrap();
    assert!(of(&RwLockReadGuard::release(reading)).is_send());
    let writing = lock.blocking_write().unwrap();
    assert!(of(&RwLockWriteGuard::lease(&writing).while_held(std::future::ready(()))).is_sync());
}

/// Guards are as covariant as tokio's.
#[allow(dead_code, reason = "it shows something by compiling")]
fn covariance<'a, 'b>(
    guard: lock_sync::RwLockReadGuard<'a, &'static u8>,
) -> lock_sync::RwLockReadGuard<'b, &'b u8>
where
    'a: 'b,
{
    guard
}

#[test]
fn errors_are_errors() {
    fn holds<E: Error + Send + Sync + Unpin + 'static>() {}
    holds::<UpgradeError<lock_sync::OwnedRwLockUpgradableReadGuard<u8>>>();
    holds::<UpgradeError<lock_sync::OwnedRwLockUpgradableReadGuard<u8>, TryLockError>>();
    holds::<LockError>();
}

/// Blocking inside a runtime panics with tokio's message, at the line of the caller.
#[test]
fn blocking_in_a_runtime_panics_at_the_caller() {
    type Lock = Arc<RwLock<i32>>;
    type Blocking = fn(&Lock);
    let pair = Pair::threaded();
    let lock: Lock = Arc::new(pair.here.rwlock("it", 0).unwrap());
    let panics: [(&str, Blocking); 6] = [
        ("blocking_read", |lock| drop(lock.blocking_read())),
        ("blocking_read_owned", |lock| drop(Arc::clone(lock).blocking_read_owned())),
        ("blocking_write", |lock| drop(lock.blocking_write())),
        ("blocking_write_owned", |lock| drop(Arc::clone(lock).blocking_write_owned())),
        ("blocking_upgradable_read", |lock| drop(lock.blocking_upgradable_read())),
        ("blocking_upgradable_read_owned", |lock| {
            drop(Arc::clone(lock).blocking_upgradable_read_owned());
        }),
    ];
    for (name, blocking) in panics {
        assert_refuses_to_block(name, file!(), || blocking(&lock));
    }
    let guard = lock.blocking_upgradable_read().unwrap();
    assert_refuses_to_block("upgrade", file!(), || drop(guard.blocking_upgrade()));
    let guard = Arc::clone(&lock).blocking_upgradable_read_owned().unwrap();
    assert_refuses_to_block("upgrade, owned", file!(), || drop(guard.blocking_upgrade()));
}
