//! Of which acquisitions observers hear.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::observer::{AcquireBegun, AcquireEnded, HoldBegun, HoldEnded, Loss, Observer};
use lock_sync::{Locks, MutexGuard as Guard};
use tokio::runtime::Handle;

use crate::observing::Diary;
use crate::support::eventually;

/// Counts lost leases.
#[derive(Default)]
struct Losses(AtomicU32);

impl Observer for Losses {
    fn lease_lost(&self, _: &Loss<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Adds up how many acquisitions and holds the events stand for, beside the number of events.
#[derive(Default)]
struct Sums(AtomicU32, [AtomicU32; 4]);

impl Sums {
    fn add(&self, event: usize, stands_for: u32) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1[event].fetch_add(stands_for, Ordering::Relaxed);
    }
}

impl Observer for Sums {
    fn acquire_begun(&self, event: &AcquireBegun<'_>) {
        self.add(0, event.stands_for);
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        self.add(1, event.stands_for);
    }

    fn hold_begun(&self, event: &HoldBegun<'_>) {
        self.add(2, event.stands_for);
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        self.add(3, event.stands_for);
    }
}

#[tokio::test(start_paused = true)]
async fn observers_hear_of_a_sample_of_a_lock_that_is_acquired_all_the_time() {
    const PASSES: u32 = 160_000;
    let sums = Arc::new(Sums::default());
    let locks = Locks::builder(MemoryBackend::new()).on_runtime(Handle::current());
    let lock = locks.observer(sums.clone()).build().unwrap().mutex("it", 0).unwrap();
    for _ in 0..PASSES {
        drop(lock.lock().await.unwrap());
        tokio::time::advance(Duration::from_micros(1)).await;
    }
    let events = sums.0.load(Ordering::Relaxed);
    assert!(events < 4 * PASSES / 20, "{events} events");
    let sums = sums.1.each_ref().map(|sum| sum.load(Ordering::Relaxed));
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    assert!(sums[0].abs_diff(PASSES) < PASSES / 5, "{sums:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sample_has_whole_acquisitions_and_every_loss() {
    let (diary, losses) = (Arc::new(Diary::default()), Arc::new(Losses::default()));
    let store = MemoryBackend::new();
    let locks = Locks::builder(store.client()).on_runtime(Handle::current());
    let locks = locks.observer(diary.clone()).observer(losses.clone()).observe_one_in(8);
    let lock = locks.build().unwrap().mutex("it", 0).unwrap();
    for _ in 0..4_000 {
        drop(lock.lock().await.unwrap());
    }
    let mut said = diary.said();
    said.retain(|it| it != "waits");
    let whole = |part: &[String]| {
        part.len() == 4
            && part[0] == "begun"
            && part[1].starts_with("granted")
            && part[2..] == ["holds", "hold dropped"]
    };
    assert!(said.chunks(4).all(whole), "{said:?}");
    assert!((400..600).contains(&(said.len() / 4)), "{} of 4000", said.len() / 4);
    assert_eq!(diary.open(), (0, 0));
    for lost in 1..=16 {
        let guard = lock.lock().await.unwrap();
        store.forget();
        Guard::lease(&guard).lost().await;
        eventually("the loss is told", || losses.0.load(Ordering::Relaxed) == lost).await;
    }
}
