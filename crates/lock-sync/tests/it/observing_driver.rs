//! What observers hear of a driver that comes late.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::observer::{DriverStalled, LeaseRenewed, Observer, RenewalLate};
use lock_sync::{Locks, MutexGuard as Guard};

use crate::observing::watched;
use crate::support::eventually;

/// What the driver says of itself.
#[derive(Default)]
struct Stalls(Mutex<Vec<Duration>>);

impl Observer for Stalls {
    fn driver_stalled(&self, event: &DriverStalled) {
        self.0.lock().unwrap().push(event.late);
    }

    fn lease_renewed(&self, _: &LeaseRenewed<'_>) {
        // It is called on the driver.
        if self.0.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(400));
        }
    }
}

#[tokio::test]
async fn a_driver_that_an_observer_blocks_is_found_stalled() {
    let stalls = Arc::new(Stalls::default());
    let locks = Locks::builder(MemoryBackend::new()).ttl(Duration::from_secs(1));
    let locks = locks.observer(stalls.clone()).build().unwrap();
    let guard = locks.lock("it").await.unwrap();
    eventually("the driver tells", || !stalls.0.lock().unwrap().is_empty()).await;
    assert!(stalls.0.lock().unwrap()[0] > Duration::from_millis(100));
    drop(guard);
}

/// Counts renewals, and writes down by how much they are late and how long their leases last.
#[derive(Default)]
struct Renewals {
    count: AtomicU32,
    late: Mutex<Vec<(Duration, Duration)>>,
}

impl Observer for Renewals {
    fn lease_renewed(&self, _: &LeaseRenewed<'_>) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn renewal_late(&self, event: &RenewalLate<'_>) {
        assert_eq!(event.key.to_string(), "it");
        self.late.lock().unwrap().push((event.late, event.left));
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_leaves_late_says_how_long_the_lease_lasts() {
    let renewals = Arc::new(Renewals::default());
    let (_pair, lock) = watched(&renewals);
    let guard = lock.lock().await.unwrap();
    // A lease of 30 s is renewed after 10 s. The driver comes to that in time, then 4 s late, and then 8 s late.
    for (passes, told) in [(10, 0), (14, 0), (18, 1)] {
        let before = renewals.count.load(Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(passes)).await;
        let renewed = || renewals.count.load(Ordering::Relaxed) > before;
        eventually("the driver renews", renewed).await;
        assert_eq!(renewals.late.lock().unwrap().len(), told, "after {passes} s");
    }
    let (late, left) = renewals.late.lock().unwrap()[0];
    let about = |seconds| Duration::from_secs(seconds)..=Duration::from_secs(seconds + 1);
    assert!(about(7).contains(&late) && about(11).contains(&left), "{late:?}, {left:?}");
    assert!(Guard::lease(&guard).is_valid());
}
