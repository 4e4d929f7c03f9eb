//! The methods of guards besides reading and writing, and the methods of the lock.

use std::sync::Arc;

use lock_sync::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard,
    OwnedRwLockWriteGuard, RwLock, RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard,
};

use super::{rwlocks, soon};
use crate::support::{Pair, poll_once};

#[tokio::test]
async fn guards_narrow_and_keep_the_lease() {
    let pair = Pair::threaded();
    let lock = pair.here.rwlock("it", ((1, 2), Some("x"))).unwrap();
    {
        let guard = lock.write().await.unwrap();
        let token = RwLockWriteGuard::lease(&guard).fencing_token();
        let mut inner = RwLockWriteGuard::map(guard, |data| &mut data.0);
        inner.1 = 5;
        let first = RwLockMappedWriteGuard::map(inner, |pair| &mut pair.0);
        assert_eq!((*first, RwLockMappedWriteGuard::lease(&first).fencing_token()), (1, token));
        let Err(first) = RwLockMappedWriteGuard::try_map(first, |_| None::<&mut u8>) else {
            panic!("there is nothing to map to");
        };
        RwLockMappedWriteGuard::release(first).await.unwrap();
    }
    {
        let Err(guard) =
            RwLockWriteGuard::try_map(lock.write().await.unwrap(), |_| None::<&mut u8>)
        else {
            panic!("there is nothing to map to");
        };
        let Ok(text) = RwLockWriteGuard::try_map(guard, |data| data.1.as_mut()) else {
            panic!("it is there");
        };
        assert_eq!(*text, "x");
        drop(text);
        let mut whole = RwLockWriteGuard::into_mapped(lock.write().await.unwrap());
        whole.0.0 = 3;
    }
    let guard = lock.read().await.unwrap();
    let token = RwLockReadGuard::lease(&guard).fencing_token();
    assert_eq!(guard.0, (3, 5));
    let inner = RwLockReadGuard::map(guard, |data| &data.1);
    let Err(inner) = RwLockReadGuard::try_map(inner, |_| None::<&u8>) else {
        panic!("there is nothing to map to");
    };
    let Ok(text) = RwLockReadGuard::try_map(inner, Option::as_ref) else { panic!("it is there") };
    assert_eq!((*text, RwLockReadGuard::lease(&text).fencing_token()), ("x", token));
    RwLockReadGuard::release(text).await.unwrap();
    pair.all_released().await;
}

#[tokio::test]
async fn owned_guards_narrow_and_know_their_lock() {
    let pair = Pair::threaded();
    let lock = Arc::new(pair.here.rwlock("it", (1, vec!["x"])).unwrap());
    let mine = |of: &Arc<RwLock<(i32, Vec<&'static str>)>>| Arc::ptr_eq(of, &lock);
    {
        let guard = Arc::clone(&lock).write_owned().await.unwrap();
        assert!(mine(OwnedRwLockWriteGuard::rwlock(&guard)));
        let list = OwnedRwLockWriteGuard::map(guard, |data| &mut data.1);
        assert!(mine(OwnedRwLockMappedWriteGuard::rwlock(&list)));
        let Err(list) = OwnedRwLockMappedWriteGuard::try_map(list, |list| list.get_mut(7)) else {
            panic!("there is no eighth");
        };
        let mut first = OwnedRwLockMappedWriteGuard::map(list, |list| &mut list[0]);
        *first = "y";
    }
    {
        let guard = soon(Arc::clone(&lock).write_owned()).await.unwrap();
        let Err(guard) = OwnedRwLockWriteGuard::try_map(guard, |data| data.1.get_mut(7)) else {
            panic!("there is no eighth");
        };
        let mut whole = OwnedRwLockWriteGuard::into_mapped(guard);
        whole.0 = 2;
        tokio::spawn(OwnedRwLockMappedWriteGuard::release(whole)).await.unwrap().unwrap();
    }
    readers_narrow(&lock).await;
    let guard = Arc::clone(&lock).upgradable_read_owned().await.unwrap();
    assert!(mine(OwnedRwLockUpgradableReadGuard::rwlock(&guard)));
    let guard = tokio::spawn(async move { soon(guard.upgrade()).await.unwrap() }).await.unwrap();
    drop(guard);
    // The guards are gone, and with them every reference to the value.
    assert_eq!(Arc::into_inner(lock).unwrap().into_inner(), (2, vec!["y"]));
    pair.all_released().await;
}

async fn readers_narrow(lock: &Arc<RwLock<(i32, Vec<&'static str>)>>) {
    let guard = Arc::clone(lock).try_read_owned().await.unwrap();
    assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&guard), lock));
    assert_eq!(*guard, (2, vec!["y"]));
    let list = OwnedRwLockReadGuard::map(guard, |data| &data.1);
    let Err(list) = OwnedRwLockReadGuard::try_map(list, |list| list.get(7)) else {
        panic!("there is no eighth");
    };
    let Ok(first) = OwnedRwLockReadGuard::try_map(list, |list| list.first()) else {
        panic!("there is a first");
    };
    assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&first), lock) && *first == "y");
}

#[tokio::test]
async fn the_value_is_there_without_a_guard() {
    let pair = Pair::threaded();
    let (mut here, _) = rwlocks(&pair);
    *here.get_mut() += 1;
    assert_eq!(*here.read().await.unwrap(), 1);
    *here.get_mut() += 1;
    assert_eq!(here.into_inner(), 2);
}

#[tokio::test]
async fn guards_look_like_what_they_guard() {
    let pair = Pair::threaded();
    let lock = Arc::new(pair.here.rwlock("it", 5).unwrap());
    assert_eq!(format!("{lock:?}"), r#"RwLock { key: Key("it"), data: 5 }"#);
    {
        let (guard, owned) = (lock.read().await.unwrap(), Arc::clone(&lock).read_owned().await);
        assert_eq!(format!("{guard} {guard:?} {}", owned.unwrap()), "5 5 5");
        assert!(format!("{lock:?}").contains("data: 5"), "readers do not hide it");
        let guard = lock.upgradable_read().await.unwrap();
        assert_eq!(format!("{guard} {guard:?}"), "5 5");
    }
    let guard = soon(lock.write()).await.unwrap();
    assert_eq!(format!("{guard} {guard:?}"), "5 5");
    assert!(format!("{lock:?}").contains("<locked>"));
    assert!(format!("{:?}", lock.write()).starts_with("Write {"));
    assert!(format!("{:?}", Arc::clone(&lock).read_owned()).starts_with("ReadOwned {"));
    drop(guard);
    let guard = soon(lock.upgradable_read()).await.unwrap();
    assert!(format!("{:?}", guard.upgrade()).starts_with("Upgrade {"));
}

#[tokio::test]
async fn a_lock_knows_whether_it_is_held_here() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    assert_eq!(here.key().as_bytes(), b"it");
    for _ in 0..2 {
        let reading = soon(here.read()).await.unwrap();
        assert!(here.is_held() && !there.is_held());
        RwLockReadGuard::release(reading).await.unwrap();
        let writing = soon(here.write()).await.unwrap();
        assert!(here.is_held() && !there.is_held());
        RwLockWriteGuard::release(writing).await.unwrap();
        assert!(!here.is_held() && !here.is_cached());
    }
}

#[tokio::test]
async fn two_locks_of_one_name_are_one_lock() {
    let pair = Pair::threaded();
    let one = pair.here.rwlock("same", 1).unwrap();
    let other = pair.here.clone().rwlock("same", 2).unwrap();
    let guard = one.write().await.unwrap();
    assert!(other.try_read().await.is_err());
    assert_eq!(pair.ours.stats().acquires, 1, "the store need not be asked");
    drop(guard);
    let guard = soon(one.read()).await.unwrap();
    assert_eq!(*other.read().await.unwrap(), 2, "each has its own value");
    assert_eq!(pair.store.live_leases(), 1, "they share the lease");
    drop(guard);
}

#[tokio::test]
async fn debug_does_not_keep_a_writer_waiting() {
    /// Asks for the lock while `Debug` reads the data.
    struct Asks(std::sync::OnceLock<Box<dyn Fn() -> bool + Send + Sync>>);
    impl std::fmt::Debug for Asks {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{}", self.0.get().is_some_and(|ask| ask()))
        }
    }
    let pair = Pair::threaded();
    let lock = Arc::new(pair.here.rwlock("it", Asks(std::sync::OnceLock::new())).unwrap());
    let weak = Arc::downgrade(&lock);
    let asked = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&asked);
    let ask = move || {
        let mut writing = Box::pin(weak.upgrade().unwrap().write_owned());
        let pending = futures::FutureExt::now_or_never(poll_once(writing.as_mut()));
        *keep.lock().unwrap() = Some(writing);
        pending.is_some_and(|poll| poll.is_pending())
    };
    lock.read().await.unwrap().0.set(Box::new(ask)).ok().unwrap();
    pair.all_released().await;
    assert!(format!("{lock:?}").contains("true"), "it has to wait for the look");
    let writing = asked.lock().unwrap().take().unwrap();
    drop(soon(writing).await.unwrap());
}

#[test]
fn plain_threads_read_and_write() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let (here, there) = (Arc::new(here), Arc::new(there));
    std::thread::scope(|scope| {
        let reading = Arc::clone(&here).blocking_read_owned().unwrap();
        assert!(here.blocking_read().is_ok());
        let writer = scope.spawn(|| {
            let mut guard = there.blocking_write().unwrap();
            *guard += 1;
            RwLockWriteGuard::lease(&guard).fencing_token()
        });
        let token = OwnedRwLockReadGuard::lease(&reading).fencing_token();
        drop(reading);
        assert!(writer.join().unwrap() > token);
    });
    std::thread::scope(|scope| {
        let upgradable = here.blocking_upgradable_read().unwrap();
        let reader = scope.spawn(|| drop(there.blocking_read().unwrap()));
        reader.join().unwrap();
        *upgradable.blocking_upgrade().unwrap() += 1;
    });
    *Arc::clone(&here).blocking_write_owned().unwrap() += 1;
    let upgradable = Arc::clone(&here).blocking_upgradable_read_owned().unwrap();
    *upgradable.blocking_upgrade().unwrap() += 1;
    assert_eq!((*here.blocking_read().unwrap(), *there.blocking_read().unwrap()), (3, 1));
}

#[tokio::test]
async fn blocking_is_fine_where_tokio_permits_it() {
    let pair = Pair::threaded();
    let (here, _) = rwlocks(&pair);
    let done = tokio::task::spawn_blocking(move || {
        here.blocking_read().is_ok()
            && here.blocking_write().is_ok()
            && here.blocking_upgradable_read().is_ok()
    });
    assert!(done.await.unwrap());
}

#[test]
fn any_executor_will_do() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let reading = here.blocking_read().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            futures::executor::block_on(async { there.write().await.map(|mut guard| *guard += 1) })
        });
        drop(reading);
        writer.join().unwrap().unwrap();
    });
}

#[tokio::test]
async fn a_task_that_reads_in_a_loop_lets_others_run() {
    let pair = Pair::threaded();
    let (here, _) = rwlocks(&pair);
    let kept = here.read().await.unwrap();
    let other = tokio::spawn(std::future::ready(()));
    // They share the lease, and nothing is in the way: without a budget the loop would never yield.
    while !other.is_finished() {
        drop(here.read().await.unwrap());
    }
    drop(kept);
}
