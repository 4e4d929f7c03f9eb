//! How long holds last, as observers hear it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::observer::{HoldEnded, Observer};
use lock_sync::{RwLockUpgradableReadGuard, RwLockWriteGuard};

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
