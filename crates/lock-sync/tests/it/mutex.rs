//! What tokio's mutex does, and exclusion between two clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use lock_sync::{LockError, MappedMutexGuard, MutexGuard, OwnedMutexGuard, TryLockError};

use crate::support::{Pair, eventually, poll_once};

#[tokio::test]
async fn tasks_are_served_in_the_order_in_which_they_came() {
    let pair = Pair::local();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let served = std::sync::Mutex::new(Vec::new());
    let mut waiting: Vec<_> = (0..50)
        .map(|n| {
            let (here, served) = (&here, &served);
            Box::pin(async move {
                let _guard = here.lock().await.unwrap();
                served.lock().unwrap().push(n);
            })
        })
        .collect();
    for waiter in &mut waiting {
        assert!(poll_once(waiter.as_mut()).await.is_pending());
    }
    drop(guard);
    join_all(waiting).await;
    assert_eq!(*served.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn however_many_wait_here_the_store_sees_one() {
    let pair = Pair::local();
    let (here, there) = pair.mutexes();
    let guard = there.lock().await.unwrap();
    let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(here.lock())).collect();
    for waiter in &mut waiting {
        assert!(poll_once(waiter.as_mut()).await.is_pending());
    }
    // One request, and another one once the watch is in place.
    eventually("the watch is in place", || pair.ours.stats().acquires == 2).await;
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pair.ours.stats().acquires, 2);
    drop(guard);
    for waiter in waiting {
        drop(waiter.await.unwrap());
    }
}

#[tokio::test]
async fn a_hand_off_costs_no_request_and_each_holder_has_its_token() {
    let pair = Pair::local();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let mut last = MutexGuard::lease(&guard).fencing_token();
    let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(here.lock())).collect();
    for waiter in &mut waiting {
        assert!(poll_once(waiter.as_mut()).await.is_pending());
    }
    drop(guard);
    for waiter in waiting {
        let guard = waiter.await.unwrap();
        assert!(MutexGuard::lease(&guard).fencing_token() > last);
        last = MutexGuard::lease(&guard).fencing_token();
    }
    assert_eq!(pair.ours.stats().acquires, 1);
}

#[tokio::test]
async fn two_mutexes_of_one_name_are_one_lock() {
    let pair = Pair::threaded();
    let one = pair.here.mutex("same", 1).unwrap();
    let other = pair.here.clone().mutex("same", 2).unwrap();
    let guard = one.lock().await.unwrap();
    assert!(matches!(other.try_lock().await, Err(TryLockError::WouldBlock)));
    assert_eq!(pair.ours.stats().acquires, 1, "the store need not be asked");
    drop(guard);
    assert_eq!(*other.lock().await.unwrap(), 2, "each has its own value");
}

#[tokio::test]
async fn owned_guards_move_into_tasks() {
    let pair = Pair::threaded();
    let mutex = Arc::new(pair.here.mutex("it", vec![1]).unwrap());
    let mut guard = Arc::clone(&mutex).lock_owned().await.unwrap();
    assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    tokio::spawn(async move { guard.push(2) }).await.unwrap();
    let guard = Arc::clone(&mutex).try_lock_owned().await.unwrap();
    assert_eq!(*guard, [1, 2]);
    drop(guard);
    assert_eq!(Arc::into_inner(mutex).unwrap().into_inner(), [1, 2]);
}

#[tokio::test]
async fn guards_narrow_and_keep_the_lease() {
    let pair = Pair::threaded();
    let mutex = Arc::new(pair.here.mutex("it", ((1, 2), Some("x"))).unwrap());
    {
        let guard = mutex.lock().await.unwrap();
        let token = MutexGuard::lease(&guard).fencing_token();
        let mut inner = MutexGuard::map(guard, |data| &mut data.0);
        inner.1 = 5;
        let first = MappedMutexGuard::map(inner, |pair| &mut pair.0);
        assert_eq!((*first, MappedMutexGuard::lease(&first).fencing_token()), (1, token));
        let Err(first) = MappedMutexGuard::try_map(first, |_| None::<&mut u8>) else {
            panic!("there is nothing to map to");
        };
        assert!(MappedMutexGuard::lease(&first).is_valid());
        MappedMutexGuard::release(first).await.unwrap();
    }
    let guard = mutex.lock().await.unwrap();
    let Err(guard) = MutexGuard::try_map(guard, |_| None::<&mut u8>) else { panic!() };
    drop(MutexGuard::try_map(guard, |data| data.1.as_mut()).unwrap());

    let owned = Arc::clone(&mutex).lock_owned().await.unwrap();
    let owned = OwnedMutexGuard::map(owned, |data| &mut data.0);
    assert_eq!(owned.1, 5);
    drop(owned);
    assert!(mutex.try_lock().await.is_ok());
}

#[tokio::test]
async fn an_unsized_value_can_be_locked() {
    let pair = Pair::threaded();
    let boxed: Box<tokio::sync::Mutex<[u32]>> = Box::new(tokio::sync::Mutex::new([1, 2, 3]));
    let mutex = pair.here.mutex_from_boxed("it", boxed).unwrap();
    mutex.lock().await.unwrap()[1] = 20;
    assert_eq!(mutex.lock().await.unwrap()[..], [1, 20, 3]);
}

#[tokio::test]
async fn a_value_that_cannot_move_between_threads_can_be_locked() {
    let pair = Pair::threaded();
    let mutex = pair.here.mutex("it", std::rc::Rc::new(1)).unwrap();
    assert_eq!(**mutex.lock().await.unwrap(), 1);
}

#[tokio::test]
async fn get_mut_and_into_inner_reach_the_value() {
    let pair = Pair::threaded();
    let mut mutex = pair.here.mutex("it", 1).unwrap();
    *mutex.get_mut() += 1;
    drop(mutex.lock().await.unwrap());
    assert_eq!(mutex.into_inner(), 2);
}

#[tokio::test]
async fn debug_sends_no_request() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    assert_eq!(format!("{here:?}"), r#"Mutex { key: Key("it"), data: 0 }"#);
    let guard = here.lock().await.unwrap();
    assert_eq!(format!("{here:?}"), r#"Mutex { key: Key("it"), data: <locked> }"#);
    assert_eq!(format!("{guard:?} {guard}"), "0 0");
    let asked = pair.ours.stats().total();
    let _ = format!("{here:?} {there:?} {:?}", pair.here);
    assert_eq!(pair.ours.stats().total(), asked);
}

/// `Debug` locks the data. A waiter that is granted the lock meanwhile must not wait for ever.
#[test]
fn debug_delays_no_waiter_for_ever() {
    use std::sync::mpsc;

    struct Slow(mpsc::Sender<()>, std::sync::Mutex<mpsc::Receiver<()>>);
    impl std::fmt::Debug for Slow {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.send(()).unwrap();
            self.1.lock().unwrap().recv().unwrap();
            f.write_str("Slow")
        }
    }

    let pair = Pair::threaded();
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let slow = Slow(begun, std::sync::Mutex::new(may_go_on));
    let mutex = pair.here.mutex("it", slow).unwrap();
    std::thread::scope(|scope| {
        let shown = scope.spawn(|| format!("{mutex:?}"));
        has_begun.recv().unwrap();
        let locked = scope.spawn(|| mutex.blocking_lock().map(drop));
        while pair.store.live_leases() == 0 {
            std::thread::yield_now();
        }
        go_on.send(()).unwrap();
        assert!(shown.join().unwrap().contains("Slow"));
        locked.join().unwrap().unwrap();
    });
}

#[test]
fn a_plain_thread_can_lock() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.mutex("it", 0).unwrap());
    let there = pair.there.mutex("it", 0).unwrap();
    let guard = Arc::clone(&here).blocking_lock_owned().unwrap();
    let waiting = std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| there.blocking_lock().map(|guard| MutexGuard::lease(&guard).fencing_token()));
        let token = OwnedMutexGuard::lease(&guard).fencing_token();
        drop(guard);
        assert!(waiting.join().unwrap().unwrap() > token);
        here.blocking_lock().map(|mut guard| *guard += 1)
    });
    waiting.unwrap();
}

#[tokio::test]
async fn blocking_is_fine_where_tokio_permits_it() {
    let pair = Pair::threaded();
    let here = Arc::new(pair.here.mutex("it", 0).unwrap());
    let locked = tokio::task::spawn_blocking(move || here.blocking_lock().is_ok());
    assert!(locked.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_a_limit() {
    let pair = Pair::local();
    let (here, there) = pair.mutexes();
    let _guard = there.lock().await.unwrap();
    let begin = tokio::time::Instant::now();
    let limit = Duration::from_millis(1_500);
    let error = here.lock_timeout(limit).await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: None }));
    assert!(begin.elapsed() >= limit && begin.elapsed() < limit * 2);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_the_locks_is_the_default() {
    let limit = Duration::from_secs(2);
    let pair = Pair::local_with(|builder| builder.wait_limit(limit));
    let (here, there) = pair.mutexes();
    let _guard = there.lock().await.unwrap();
    let begin = tokio::time::Instant::now();
    assert!(matches!(here.lock().await, Err(LockError::Timeout { .. })));
    assert!(begin.elapsed() >= limit);
    // In the middle of the queue too.
    let (mut first, mut second) = (
        Box::pin(here.lock_timeout(Duration::from_secs(60))),
        Box::pin(here.lock_timeout(Duration::from_secs(1))),
    );
    assert!(poll_once(first.as_mut()).await.is_pending());
    assert!(poll_once(second.as_mut()).await.is_pending());
    assert!(matches!(second.await, Err(LockError::Timeout { .. })));
    assert!(poll_once(first.as_mut()).await.is_pending());
}

#[tokio::test]
async fn any_executor_will_do() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let guard = there.lock().await.unwrap();
    let waiting = std::thread::spawn(move || {
        futures::executor::block_on(async {
            here.lock().await.map(|guard| MutexGuard::lease(&guard).fencing_token())
        })
    });
    drop(guard);
    tokio::task::spawn_blocking(move || waiting.join().unwrap().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_task_that_locks_in_a_loop_lets_others_run() {
    let pair = Pair::threaded();
    let (here, _) = pair.mutexes();
    let done = Arc::new(AtomicU32::new(0));
    let other = tokio::spawn({
        let done = Arc::clone(&done);
        async move { done.store(1, Ordering::SeqCst) }
    });
    // Uncontended and handed back at once: without a budget the loop would never yield.
    while done.load(Ordering::SeqCst) == 0 {
        drop(here.lock().await.unwrap());
    }
    other.await.unwrap();
    let other = tokio::spawn(async move { done.store(2, Ordering::SeqCst) });
    while !other.is_finished() {
        drop(here.try_lock().await.unwrap());
    }
}
