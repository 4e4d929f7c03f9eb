//! What a team did within its window.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Failure, Histogram, ServerLoad, verdict};

/// What one process counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// How long its window was.
    pub(super) elapsed: u64,
    /// How often each of its tasks held the lock.
    pub(super) passes: Vec<u64>,
    /// How often one of them had it after another task.
    pub(super) handovers: u64,
    /// How often one of them had it after another process.
    pub(super) crossings: u64,
    /// How often one of them had it again after all the others had had it once.
    pub(super) in_turn: u64,
    /// For how long it held the lock.
    pub(super) in_use: u64,
    /// How long they waited, of those who did not only want to read. Who still waits at the end counts
    /// with what it has waited.
    pub(super) waits: Histogram,
    /// From the end of another process's section to the beginning of one of its own.
    pub(super) latencies: Histogram,
    /// How long the process before it had the lock without an interruption.
    pub(super) turns: Histogram,
    /// What it computed.
    pub(super) cpu: u64,
    /// All its updates of the record since it was started, also those beyond the window.
    pub(super) total: u64,
    /// How often one of them found another inside who must not be there, likewise.
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

/// What a team did within its window.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// How long it was.
    pub elapsed: Duration,
    /// How often each task of each process held the lock.
    pub passes: Vec<Vec<u64>>,
    /// How often the lock went from one task to another.
    pub handovers: u64,
    /// How often it went from one process to another.
    pub crossings: u64,
    /// In how many of the passes a task had the lock again after all the others had had it once.
    pub in_turn: u64,
    /// For how long somebody held it.
    pub in_use: Duration,
    /// How long they waited; among readers and writers, how long the writers did. Who still waits at
    /// the end counts with what it has waited.
    pub waits: Histogram,
    /// From the end of one process's section to the beginning of another one's.
    pub latencies: Histogram,
    /// How long a process had the lock without an interruption.
    pub turns: Histogram,
    /// How many commands came to the server over the network.
    pub commands: u64,
    /// What the processes computed.
    pub cpu: Duration,
    /// What the server computed.
    pub server: ServerLoad,
    /// How many updates of the record were lost from beginning to end: none if the lock locks.
    pub lost: u64,
    /// How often a task found another task inside that the lock must keep out: never if the lock locks.
    pub intrusions: u64,
}

impl Outcome {
    /// How often a lock was held.
    pub fn total(&self) -> u64 {
        self.passes.iter().flatten().sum()
    }

    /// Hand-overs in a second.
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

    /// Adds what one process counted.
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
