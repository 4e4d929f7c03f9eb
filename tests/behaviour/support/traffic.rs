//! Work that goes wrong without exclusion.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lock_core::Clock;
use lock_sync::ReleaseError;
use lock_tests::eventually_async;
use tokio::task::JoinSet;

use super::{Excluding, Grant, Guard, SOON, soon};

/// Tasks of several clients that take one lock over and over. Under the lock each task counts in a
/// way that loses counts when two tasks do it at once.
///
/// They never give up and accept no error: each lock is granted in the end, without help.
pub(crate) struct Traffic {
    shared: Arc<Shared>,
    tasks: JoinSet<Vec<Grant>>,
}

#[derive(Default)]
struct Shared {
    counter: AtomicU64,
    turns: AtomicU64,
    over: AtomicBool,
}

/// The outcome.
pub(crate) struct Tally {
    /// How many counted.
    pub(crate) turns: u64,
    /// The final count.
    pub(crate) counted: u64,
    pub(crate) grants: Vec<Grant>,
}

impl Traffic {
    /// Starts `tasks` tasks for each of these handles of one lock, of any client.
    pub(crate) fn start<X: Excluding>(locks: impl IntoIterator<Item = X>, tasks: usize) -> Self {
        let mut traffic = Self { shared: Arc::default(), tasks: JoinSet::new() };
        for lock in locks {
            for _ in 0..tasks {
                traffic.tasks.spawn(work(lock.clone(), Arc::clone(&traffic.shared)));
            }
        }
        traffic
    }

    /// Waits until some more turns were taken. Fails if there are none, or a task gave up.
    pub(crate) async fn goes_on(&mut self) {
        const MORE: u64 = 8;
        let goal = self.shared.turns.load(Ordering::Relaxed) + MORE;
        let taken = || self.shared.turns.load(Ordering::Relaxed) >= goal;
        tokio::select! {
            _ = eventually_async("the tasks go on", SOON * 3, async || taken()) => {}
            Some(ended) = self.tasks.join_next() => panic!("a task gave up: {ended:?}"),
        }
    }

    pub(crate) async fn stop(mut self) -> Tally {
        self.shared.over.store(true, Ordering::Relaxed);
        let mut grants = Vec::new();
        while let Some(task) = soon(self.tasks.join_next()).await {
            grants.append(&mut task.unwrap());
        }
        Tally {
            turns: self.shared.turns.load(Ordering::Relaxed),
            counted: self.shared.counter.load(Ordering::Relaxed),
            grants,
        }
    }
}

async fn work<X: Excluding>(lock: X, shared: Arc<Shared>) -> Vec<Grant> {
    let clock = Clock::boot();
    let mut grants = Vec::new();
    while !shared.over.load(Ordering::Relaxed) {
        let asked = clock.now();
        let guard = lock.take().await.unwrap();
        grants.push(Grant { asked, had: clock.now(), token: guard.fencing_token() });
        shared.count().await;
        // Alternately in each of the two ways to release a lock.
        if grants.len() % 2 == 0 {
            drop(guard);
        } else if let Err(error) = guard.release().await {
            // The lock is released either way.
            assert!(matches!(error, ReleaseError::Lost(_) | ReleaseError::Backend(_)));
        }
    }
    grants
}

impl Shared {
    async fn count(&self) {
        let seen = self.counter.load(Ordering::Relaxed);
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.counter.store(seen + 1, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}
