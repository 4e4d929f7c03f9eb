//! What is true of the guards of one process, whatever the order of events.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lock_core::{Clock, Instant};
use lock_interleavings::OwnedMutexGuard;

/// A waiter whose turn ends before it is polled begins anew, at the end of the line. No turn ends within this time.
const SHORTEST_TURN: Duration = Duration::from_millis(500);

/// Sees the tasks from outside.
#[derive(Debug, Default)]
pub(super) struct Witness(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    arrivals: u64,
    waiting: Vec<Waiting>,
    /// A task has a guard, valid or not.
    guarded: bool,
    last_token: u64,
    /// How long the lease of the last guard was valid, when the task got the guard.
    valid_until: Option<Instant>,
}

/// A task that was polled at least once, and has no outcome.
#[derive(Debug)]
struct Waiting {
    arrival: u64,
    /// The next arrival when its first poll had returned.
    in_line: u64,
    since: Instant,
    /// A task that came later, and was served earlier.
    passed_by: Option<u64>,
}

/// What a guard says of its lease. To ask the guard lets other threads run, so the witness asks it before it locks
/// what it has seen.
struct Got {
    token: u64,
    valid_until: Instant,
}

impl Got {
    fn new(guard: &OwnedMutexGuard<()>) -> Self {
        let lease = OwnedMutexGuard::lease(guard);
        Self { token: lease.fencing_token().get(), valid_until: lease.valid_until() }
    }
}

impl Witness {
    /// A task is about to ask for the lock.
    pub(super) fn arrives(&self) -> u64 {
        let mut seen = self.lock();
        seen.arrivals += 1;
        seen.arrivals
    }

    /// The task was polled. From then on it has a place in the line.
    pub(super) fn waits(&self, arrival: u64) {
        let mut seen = self.lock();
        if seen.waiting.iter().all(|waiting| waiting.arrival != arrival) {
            let (in_line, since) = (seen.arrivals, Clock::tokio().now());
            seen.waiting.push(Waiting { arrival, in_line, since, passed_by: None });
        }
    }

    /// The task leaves, or was denied. Tasks that were served before it may have come later.
    pub(super) fn leaves(&self, arrival: u64) {
        self.lock().leaves(arrival);
    }

    pub(super) fn served(&self, arrival: u64, guard: &OwnedMutexGuard<()>) {
        let got = Got::new(guard);
        let mut seen = self.lock();
        let waited = seen.leaves(arrival);
        let passed_by = waited.and_then(|waited| waited.passed_by);
        assert_eq!(passed_by, None, "it was served before {arrival}, and came later");
        let now = Clock::tokio().now();
        // A waiter that gets a lease after its end goes to the back of the line.
        let may_be_over = seen.valid_until.is_some_and(|until| now >= until);
        for waiting in &mut seen.waiting {
            let is_early = now < waiting.since + SHORTEST_TURN && waiting.in_line < arrival;
            if is_early && !may_be_over {
                waiting.passed_by.get_or_insert(arrival);
            }
        }
        seen.has(got);
    }

    /// A task that does not wait has a guard.
    pub(super) fn tries(&self, guard: &OwnedMutexGuard<()>) {
        let got = Got::new(guard);
        self.lock().has(got);
    }

    pub(super) fn lets_go(&self) {
        self.lock().guarded = false;
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }
}

impl Seen {
    fn leaves(&mut self, arrival: u64) -> Option<Waiting> {
        let place = self.waiting.iter().position(|waiting| waiting.arrival == arrival)?;
        Some(self.waiting.swap_remove(place))
    }

    fn has(&mut self, got: Got) {
        let guarded = std::mem::replace(&mut self.guarded, true);
        assert!(!guarded, "a second guard, even if the first is lost");
        assert!(got.token > self.last_token, "tokens must increase");
        (self.last_token, self.valid_until) = (got.token, Some(got.valid_until));
    }
}
