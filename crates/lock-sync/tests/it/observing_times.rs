//! How long holds and leases last, as observers hear it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::observer::{HoldEnded, Loss, Observer};
use lock_sync::{MutexGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

use crate::observing::watched;

/// How long each hold lasted, in seconds.
#[derive(Default)]
struct Times(Mutex<Vec<u64>>);

impl Observer for Times {
    fn hold_ended(&self, event: &HoldEnded<'_>) {
        self.0.lock().unwrap().push(event.held.as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_lasts_from_its_own_begin_also_after_an_upgrade_or_a_split() {
    let times = Arc::new(Times::default());
    let (pair, _) = watched(&times);
    let second = async || tokio::time::sleep(Duration::from_secs(1)).await;
    let data = pair.here.rwlock("data", 0).unwrap();
    let writing = data.write().await.unwrap();
    second().await;
    let reading = RwLockWriteGuard::downgrade_to_upgradable(writing);
    let writing = RwLockUpgradableReadGuard::upgrade(reading).await.ok().unwrap();
    second().await;
    drop(writing);
    let permits = pair.here.semaphore("permits", 5).unwrap();
    let mut three = permits.acquire_many(3).await.unwrap();
    second().await;
    let one = three.split(1).unwrap();
    second().await;
    drop(one);
    drop(three);
    assert_eq!(*times.0.lock().unwrap(), [2, 1, 2]);
}

/// What was left of each lost lease, and how long ago it had ended.
#[derive(Default)]
struct Losses(Mutex<Vec<(Duration, Duration)>>);

impl Observer for Losses {
    fn lease_lost(&self, event: &Loss<'_>) {
        self.0.lock().unwrap().push((event.left, event.since));
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_says_how_much_of_the_lease_was_left_or_since_when_it_is_over() {
    let losses = Arc::new(Losses::default());
    let (pair, lock) = watched(&losses);
    let guard = lock.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard).clone();
    // The store forgets the lock, and the client hears of that: then all of the lease is left but what has passed.
    pair.store.forget();
    let before = lease.remaining();
    lease.lost().await;
    tokio::task::yield_now().await;
    let (left, since) = losses.0.lock().unwrap().remove(0);
    assert!(left > before / 2 && left <= before && since.is_zero(), "{left:?} of {before:?}");
    drop(guard);

    // The store is out of reach until the lease is over.
    let guard = lock.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard).clone();
    pair.ours.faults().cut();
    lease.lost().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (left, since) = losses.0.lock().unwrap().remove(0);
    assert!(left.is_zero() && since < Duration::from_secs(1), "{left:?}, {since:?}");
    drop(guard);
}
