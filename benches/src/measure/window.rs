//! What many tasks did.

use std::time::Duration;

/// What a crowd did within its window.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Window {
    /// How long it was in the end.
    pub elapsed: Duration,
    /// How often each task held its lock.
    pub passes: Vec<u64>,
    /// How often a lock went from one task to another, if one alone can have it.
    pub handovers: u64,
    /// How long they waited for that; among readers and writers, how long the writers did. Who still
    /// waits at the end counts with what it has waited.
    pub waits: Vec<Duration>,
    /// What this process has computed.
    pub cpu: Duration,
    /// What the servers have computed, all together.
    pub server: Duration,
    /// How many commands came to the servers over the network.
    pub commands: u64,
    /// How many updates of a counter were lost from beginning to end: none if the lock locks.
    pub lost: u64,
    /// How often somebody found another inside who must not be there: never if the lock locks.
    pub intrusions: u64,
}

impl Window {
    /// How often a lock was held.
    pub fn total(&self) -> u64 {
        self.passes.iter().sum()
    }
}
