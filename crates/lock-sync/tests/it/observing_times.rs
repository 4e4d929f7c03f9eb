//! How long holds and leases last, as observers hear it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::Ttl;
use lock_core::memory::Verb;
use lock_core::observer::{AcquireEnded, HoldEnded, LeaseRenewed, Loss, Observer};
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

/// How long acquisitions and renewals took.
#[derive(Default)]
struct Waits {
    waited: Mutex<Vec<Duration>>,
    renewed: Mutex<Vec<Duration>>,
}

impl Observer for Waits {
    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        self.waited.lock().unwrap().push(event.waited);
    }

    fn lease_renewed(&self, event: &LeaseRenewed<'_>) {
        self.renewed.lock().unwrap().push(event.took);
    }
}

impl Waits {
    /// The wait that ended last, in whole tenths of a second.
    fn last(&self) -> u128 {
        self.waited.lock().unwrap().last().unwrap().as_millis() / 100
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_from_the_call_to_its_end() {
    let waits = Arc::new(Waits::default());
    let (pair, lock) = watched(&waits);
    let three = Duration::from_secs(3);
    let guard = Arc::clone(&lock).lock_owned().await.unwrap();
    assert_eq!(waits.last(), 0);
    let waiting = tokio::spawn(Arc::clone(&lock).lock_owned());
    tokio::time::sleep(three).await;
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(waits.last(), 30, "a holder of this process was in the way");

    let there = pair.there.mutex("other", 0).unwrap();
    let theirs = there.lock().await.unwrap();
    let other = Arc::new(pair.here.mutex("other", 0).unwrap());
    let waiting = tokio::spawn(Arc::clone(&other).lock_owned());
    tokio::time::sleep(three).await;
    MutexGuard::release(theirs).await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(waits.last(), 30, "a holder of another process was in the way");

    let theirs = there.lock().await.unwrap();
    assert!(other.lock_timeout(Duration::from_secs(1)).await.is_err());
    assert_eq!(waits.last(), 10, "the limit of the caller");
    let dropped = tokio::time::timeout(Duration::from_secs(2), other.lock());
    assert!(dropped.await.is_err());
    assert_eq!(waits.last(), 20, "the caller gave up");
    drop(theirs);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_lasts_from_the_request_to_the_answer() {
    let waits = Arc::new(Waits::default());
    let (pair, lock) = watched(&waits);
    let guard = lock.lock().await.unwrap();
    let longer = |seconds| Ttl::new(Duration::from_secs(seconds)).unwrap();
    let lease = MutexGuard::lease(&guard);
    let delay = Duration::from_millis(200);
    pair.ours.faults().on(Verb::Renew).delay_requests(delay);
    lease.extend(longer(60)).await.unwrap();
    pair.ours.faults().on(Verb::Renew).delay_replies(delay);
    lease.extend(longer(90)).await.unwrap();
    tokio::task::yield_now().await;
    // The watch that begins may ask for one more.
    let took = || waits.renewed.lock().unwrap().iter().map(Duration::as_millis).collect::<Vec<_>>();
    let (least, most) = (took().into_iter().min().unwrap(), took().into_iter().max().unwrap());
    assert!((200..300).contains(&least) && (400..500).contains(&most), "{:?} ms", took());
}
