//! A load: many clients, each with connections of its own, that lock, work and release.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use lock_sync::{LockError, LockGuard, Locks};

use super::Failure;
use super::times::Times;

/// What the clients do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The number of requests by all clients together.
    pub(super) requests: u64,
    /// How long the holder works.
    pub(super) sleep: Duration,
    /// How long a client waits for the lock.
    pub(super) timeout: Duration,
    /// The names of the locks; a client takes one after another.
    pub(super) names: Vec<String>,
}

/// The results of all clients together.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) acquiring: Times,
    pub(super) working: Times,
    pub(super) releasing: Times,
    /// Holders that finished their work with a valid lease.
    pub(super) passes: u64,
    /// Waits that reached their limit.
    pub(super) timeouts: u64,
    /// Leases that were lost while their holder worked or released the lock.
    pub(super) losses: u64,
    /// Requests that failed in another way.
    pub(super) errors: u64,
    /// The first of these failures.
    pub(super) first_error: Option<String>,
}

impl Outcome {
    fn none() -> Self {
        let (acquiring, working, releasing) = (Times::new(), Times::new(), Times::new());
        let (passes, timeouts, losses, errors, first_error) = (0, 0, 0, 0, None);
        Self { acquiring, working, releasing, passes, timeouts, losses, errors, first_error }
    }

    fn merge(&mut self, other: Self) {
        self.acquiring.merge(&other.acquiring);
        self.working.merge(&other.working);
        self.releasing.merge(&other.releasing);
        self.passes += other.passes;
        self.timeouts += other.timeouts;
        self.losses += other.losses;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    fn failed(&mut self, error: &dyn std::error::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        });
    }
}

/// Runs the plan, and calls `progress` with the number of finished requests. Returns how long the run took.
pub(super) async fn run(
    clients: Vec<Locks>,
    plan: Plan,
    progress: impl Fn(u64) + Send + Sync + 'static,
) -> Result<(Outcome, Duration), Failure> {
    let left = Arc::new(AtomicI64::new(i64::try_from(plan.requests).unwrap_or(i64::MAX)));
    let (done, progress) = (Arc::new(AtomicU64::new(0)), Arc::new(progress));
    let plan = Arc::new(plan);
    let begin = Instant::now();
    let tasks = clients.into_iter().enumerate().map(|(number, locks)| {
        let (plan, left) = (Arc::clone(&plan), Arc::clone(&left));
        let (done, progress) = (Arc::clone(&done), Arc::clone(&progress));
        tokio::spawn(async move {
            let mut outcome = Outcome::none();
            let mut names = plan.names.iter().cycle().skip(number % plan.names.len());
            while left.fetch_sub(1, Relaxed) > 0 {
                let Some(name) = names.next() else { break };
                request(&locks, name, &plan, &mut outcome).await;
                progress(done.fetch_add(1, Relaxed) + 1);
            }
            outcome
        })
    });
    let outcomes = try_join_all(tasks).await.map_err(|_| Failure::Panicked)?;
    let took = begin.elapsed();
    let mut all = Outcome::none();
    outcomes.into_iter().for_each(|outcome| all.merge(outcome));
    Ok((all, took))
}

/// One pass.
async fn request(locks: &Locks, name: &str, plan: &Plan, outcome: &mut Outcome) {
    let began = Instant::now();
    let guard = match locks.lock_timeout(name, plan.timeout).await {
        Ok(guard) => guard,
        Err(LockError::Timeout { .. }) => return outcome.timeouts += 1,
        Err(error) => return outcome.failed(&error),
    };
    let acquired = Instant::now();
    outcome.acquiring.add(acquired - began);
    if !plan.sleep.is_zero() {
        tokio::time::sleep(plan.sleep).await;
    }
    let worked = Instant::now();
    outcome.working.add(worked - acquired);
    let is_valid = LockGuard::lease(&guard).is_valid();
    let released = LockGuard::release(guard).await;
    outcome.releasing.add(worked.elapsed());
    match released {
        _ if !is_valid => outcome.losses += 1,
        Ok(()) => outcome.passes += 1,
        Err(lock_sync::ReleaseError::Lost(_)) => outcome.losses += 1,
        Err(error) => outcome.failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::AnyBackend;
    use lock_core::memory::MemoryBackend;

    use super::*;

    fn plan(requests: u64, names: &[&str]) -> Plan {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (sleep, timeout) = (Duration::from_micros(100), Duration::from_secs(30));
        Plan { requests, sleep, timeout, names }
    }

    fn clients(store: &MemoryBackend, count: usize) -> Vec<Locks> {
        (0..count).map(|_| Locks::new(AnyBackend::new(store.client()))).collect()
    }

    #[tokio::test]
    async fn all_clients_together_make_the_requests() {
        let store = MemoryBackend::new();
        let (outcome, took) = run(clients(&store, 5), plan(23, &["a", "b"]), |_| {}).await.unwrap();
        assert_eq!(
            (outcome.passes, outcome.timeouts, outcome.losses, outcome.errors),
            (23, 0, 0, 0)
        );
        let counts = [&outcome.acquiring, &outcome.working, &outcome.releasing].map(Times::count);
        assert_eq!(counts, [23; 3]);
        // There are two locks, and the holders of one lock work one after another.
        assert!(took >= Duration::from_micros(100 * 23 / 2), "{took:?}");
    }

    #[tokio::test]
    async fn a_lock_that_is_held_makes_timeouts() {
        let store = MemoryBackend::new();
        let [holder] = <[Locks; 1]>::try_from(clients(&store, 1)).unwrap();
        let _guard = holder.lock("a").await.unwrap();
        let plan = Plan { timeout: Duration::from_millis(20), ..plan(4, &["a"]) };
        let (outcome, _) = run(clients(&store, 2), plan, |_| {}).await.unwrap();
        assert_eq!((outcome.passes, outcome.timeouts), (0, 4));
        assert_eq!(outcome.acquiring.count(), 0);
    }

    #[tokio::test]
    async fn a_lease_that_is_ended_is_a_loss() {
        let store = MemoryBackend::new();
        let plan = Plan { sleep: Duration::from_secs(1), ..plan(1, &["a"]) };
        let operator = clients(&store, 1);
        let load = tokio::spawn(run(clients(&store, 1), plan, |_| {}));
        while operator[0].force_release("a").await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        let (outcome, _) = load.await.unwrap().unwrap();
        assert_eq!((outcome.passes, outcome.losses), (0, 1));
    }
}
