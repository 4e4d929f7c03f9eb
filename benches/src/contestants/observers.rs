//! The observers of the rows that say what observers cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lock_core::observer::{
    AcquireBegun, AcquireEnded, HoldBegun, HoldEnded, Observer, StoreAnswered,
};
use lock_telemetry::Metrics;
use lock_telemetry::names::{BUCKETS, HOLD_TTL_RATIO, RATIO_BUCKETS};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use crate::Failure;

/// What each thread has counted: callers that wait, holders, the time of each in nanoseconds, and requests.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Sheet([AtomicU64; 5]);

const WAITING: usize = 0;
const HELD: usize = 1;
const WAITED: usize = 2;
const HOLDING: usize = 3;
const REQUESTS: usize = 4;

static SHEETS: Mutex<Vec<Arc<Sheet>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<Sheet> = {
        let sheet = Arc::<Sheet>::default();
        sheets().push(Arc::clone(&sheet));
        sheet
    };
}

fn sheets() -> MutexGuard<'static, Vec<Arc<Sheet>>> {
    SHEETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An observer that counts what it hears, and adds up the times.
///
/// Each thread has a sheet of its own, and a reader adds the sheets up. With counters that the threads share, the row
/// would measure how the processors pass a cache line on, and not what the locks do.
#[derive(Debug)]
pub struct Counts;

impl Counts {
    /// Adds each number to what is in its place.
    fn add<const N: usize>(numbers: [(usize, u64); N]) {
        OWN.with(|sheet| {
            for (place, number) in numbers {
                // No other thread writes.
                let sum = sheet.0[place].load(Ordering::Relaxed).wrapping_add(number);
                sheet.0[place].store(sum, Ordering::Relaxed);
            }
        });
    }

    /// What all threads have counted.
    #[cfg(test)]
    fn sums() -> [u64; 5] {
        let sum = |sum: u64, place: &AtomicU64| sum.wrapping_add(place.load(Ordering::Relaxed));
        let places = |place: usize| sheets().iter().fold(0, |all, sheet| sum(all, &sheet.0[place]));
        std::array::from_fn(places)
    }
}

impl Observer for Counts {
    fn acquire_begun(&self, event: &AcquireBegun<'_>) {
        Self::add([(WAITING, event.stands_for.into())]);
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        let (count, waited) = (u64::from(event.stands_for), event.waited.as_nanos() as u64);
        Self::add([(WAITING, count.wrapping_neg()), (WAITED, count * waited)]);
    }

    fn hold_begun(&self, event: &HoldBegun<'_>) {
        Self::add([(HELD, event.stands_for.into())]);
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        let (count, held) = (u64::from(event.stands_for), event.held.as_nanos() as u64);
        Self::add([(HELD, count.wrapping_neg()), (HOLDING, count * held)]);
    }

    fn store_answered(&self, _: &StoreAnswered<'_>) {
        Self::add([(REQUESTS, 1)]);
    }
}

/// The metrics of lock-telemetry, recorded for Prometheus as in the example `metrics`.
///
/// # Errors
///
/// If the buckets make no sense, or the system gives no thread.
pub fn metrics() -> Result<Metrics, Failure> {
    let ratio = Matcher::Full(HOLD_TTL_RATIO.name.to_owned());
    let recorder = PrometheusBuilder::new()
        .with_recommended_naming(true)
        .set_buckets_for_metric(Matcher::Prefix("lock".to_owned()), BUCKETS)?
        .set_buckets_for_metric(ratio, RATIO_BUCKETS)?
        .build_recorder();
    let handle = recorder.handle();
    // As the exporter does by itself, it sorts the recorded times into buckets now and then.
    thread::Builder::new().name("upkeep".into()).spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(1));
            handle.run_upkeep();
        }
    })?;
    Ok(Metrics::builder().recorder(recorder).build())
}

#[cfg(test)]
mod tests {
    use lock_core::memory::MemoryBackend;
    use lock_sync::Locks;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_sheets_of_all_threads_agree() {
        let locks = Locks::builder(MemoryBackend::new()).observer(Arc::new(Counts));
        let lock = Arc::new(locks.build().unwrap().mutex("it", ()).unwrap());
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                tokio::spawn(async move {
                    for _ in 0..100 {
                        drop(lock.lock().await.unwrap());
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let [waiting, held, waited, holding, _] = Counts::sums();
        assert_eq!((waiting, held), (0, 0));
        assert!(waited > 0 && holding > 0);
    }

    #[test]
    fn the_metrics_have_a_recorder() {
        let metrics = metrics().unwrap();
        metrics.store_answered(&StoreAnswered {
            server: "db",
            verb: "acquire",
            error: None,
            took: Duration::from_millis(1),
        });
    }
}
