//! The outcome of a team within its window.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Failure, Histogram, verdict};

/// The counts of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The length of its window.
    pub(super) elapsed: u64,
    /// How often each of its tasks held the lock.
    pub(super) passes: Vec<u64>,
    /// How often one of them got the lock after another task.
    pub(super) handovers: u64,
    /// How often one of them got the lock after another process.
    pub(super) crossings: u64,
    /// How often one of them got the lock again after all other tasks had it once.
    pub(super) in_turn: u64,
    /// For how long the process held the lock.
    pub(super) in_use: u64,
    /// The waits of its tasks, except those of readers. A wait that goes on at the end counts with its length so far.
    pub(super) waits: Histogram,
    /// The times from the end of another process's section to the beginning of one of its own.
    pub(super) latencies: Histogram,
    /// For how long the process before it had the lock without an interruption.
    pub(super) turns: Histogram,
    /// The processor time of the process.
    pub(super) cpu: u64,
    /// All its updates of the record since it was started, including those outside the window.
    pub(super) total: u64,
    /// How often one of its tasks found a forbidden holder inside, since it was started.
    pub(super) intrusions: u64,
}

impl Tally {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "elapsed": self.elapsed,
            "passes": self.passes,
            "handovers": self.handovers,
            "crossings": self.crossings,
            "in_turn": self.in_turn,
            "in_use": self.in_use,
            "waits": self.waits.to_json(),
            "latencies": self.latencies.to_json(),
            "turns": self.turns.to_json(),
            "cpu": self.cpu,
            "total": self.total,
            "intrusions": self.intrusions,
        })
    }

    pub(super) fn parse(line: &str) -> Result<Self, Failure> {
        let tally: Value = serde_json::from_str(line)?;
        Self::from_json(&tally)
            .ok_or_else(|| format!("an outcome that lacks something: {line}").into())
    }

    fn from_json(tally: &Value) -> Option<Self> {
        let number = |name: &str| tally[name].as_u64();
        let times = |name: &str| Histogram::from_json(&tally[name]);
        Some(Self {
            elapsed: number("elapsed")?,
            passes: tally["passes"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
            handovers: number("handovers")?,
            crossings: number("crossings")?,
            in_turn: number("in_turn")?,
            in_use: number("in_use")?,
            waits: times("waits")?,
            latencies: times("latencies")?,
            turns: times("turns")?,
            cpu: number("cpu")?,
            total: number("total")?,
            // Members in other languages only lock, and do not look.
            intrusions: number("intrusions").unwrap_or(0),
        })
    }
}

/// The outcome of a team within its window.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// The length of the window.
    pub elapsed: Duration,
    /// How often each task of each process held the lock.
    pub passes: Vec<Vec<u64>>,
    /// How often the lock went from one task to another.
    pub handovers: u64,
    /// How often the lock went from one process to another.
    pub crossings: u64,
    /// How many passes began after all other tasks had the lock once since the task's last pass.
    pub in_turn: u64,
    /// For how long the lock was held.
    pub in_use: Duration,
    /// The waits of all tasks; with readers and writers, those of the writers. A wait that goes on at the end counts
    /// with its length so far.
    pub waits: Histogram,
    /// The times from the end of one process's section to the beginning of another process's section.
    pub latencies: Histogram,
    /// For how long a process had the lock without an interruption.
    pub turns: Histogram,
    /// How many commands the server received over the network.
    pub commands: u64,
    /// The processor time of the processes.
    pub cpu: Duration,
    /// The processor time of all servers together.
    pub server: Duration,
    /// How many updates of the record were lost from beginning to end: none if the lock is correct.
    pub lost: u64,
    /// How often a task found another task inside that the lock must keep out: never if the lock is correct.
    pub intrusions: u64,
}

impl Outcome {
    /// How often a lock was held.
    pub fn total(&self) -> u64 {
        self.passes.iter().flatten().sum()
    }

    /// Hand-overs per second.
    pub fn rate(&self) -> f64 {
        self.handovers as f64 / self.elapsed.as_secs_f64()
    }

    /// How often each process held the lock.
    pub fn by_process(&self) -> Vec<u64> {
        self.passes.iter().map(|tasks| tasks.iter().sum()).collect()
    }

    /// Whether the figures mean anything.
    ///
    /// # Errors
    ///
    /// Says what was wrong if the lock let two in at once.
    pub fn verdict(&self) -> Result<(), String> {
        verdict(self.lost, self.intrusions, self.total())
    }

    /// Adds the counts of one process.
    pub(super) fn add(&mut self, tally: Tally) {
        self.elapsed = self.elapsed.max(Duration::from_nanos(tally.elapsed));
        self.passes.push(tally.passes);
        self.handovers += tally.handovers;
        self.crossings += tally.crossings;
        self.in_turn += tally.in_turn;
        self.in_use += Duration::from_nanos(tally.in_use);
        self.waits.merge(&tally.waits);
        self.latencies.merge(&tally.latencies);
        self.turns.merge(&tally.turns);
        self.cpu += Duration::from_nanos(tally.cpu);
        self.intrusions += tally.intrusions;
    }
}
