//! The faults of a run.

use lock_core::Instant;

use crate::chaos::{Extent, Fault, Victim};

/// A fault of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "it is a record")]
pub struct Trouble {
    /// The kind of the fault.
    pub fault: Fault,
    /// How many servers it concerned at once.
    pub extent: Extent,
    /// The servers, or for a fault of links those at their ends. Empty for a fault of workers.
    pub servers: Vec<usize>,
    /// The workers, or for a fault of links those at their beginnings. Empty for a fault of servers.
    pub workers: Vec<usize>,
    /// When it began.
    pub begin: Instant,
    /// When it was healed.
    pub end: Instant,
}

impl Trouble {
    /// Whether it is in force at that time.
    pub fn covers(&self, at: Instant) -> bool {
        self.begin <= at && at <= self.end
    }

    /// Whether this client, by its name in the history, may see it: all clients see a fault of a server.
    pub fn befalls(&self, client: &str) -> bool {
        match self.fault.victim() {
            Victim::Server | Victim::Memory | Victim::Part => true,
            // One process has the memory backend and all clients.
            Victim::Worker if self.fault == Fault::StopWorker && client.starts_with("m.") => true,
            Victim::Link | Victim::Worker => {
                worker(client).is_none_or(|worker| self.workers.contains(&worker))
            }
        }
    }
}

/// The number of a worker by the name of its client: of `w2`, of its successor `w2-3`, and of `m.2`.
fn worker(client: &str) -> Option<usize> {
    let name = client.strip_prefix("m.").or_else(|| client.strip_prefix('w'))?;
    name.split('-').next()?.parse().ok()
}
