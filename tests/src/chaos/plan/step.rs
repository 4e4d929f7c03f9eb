//! One fault: when, where, for how long.

use std::fmt;
use std::time::Duration;

use super::How;
use crate::chaos::{Extent, Fault, Victim};

/// One fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a plan can be written by hand")]
pub struct Step {
    /// When it begins, from the beginning of the run.
    pub at: Duration,
    /// The time until it is healed. Zero for an instantaneous fault.
    pub lasts: Duration,
    /// The fault.
    pub fault: Fault,
    /// Its variant.
    pub how: How,
    /// Whether it hits a majority of the servers. A fault without servers hits a minority.
    pub extent: Extent,
    /// The servers, by their numbers.
    pub servers: Vec<usize>,
    /// The workers, by their numbers. For links: between these and the servers.
    pub workers: Vec<usize>,
}

impl Step {
    /// A fault without servers, of this length, in its plain variant.
    pub fn new(fault: Fault, at: Duration, lasts: Duration) -> Self {
        let extent = Extent::Minority;
        let (servers, workers) = (Vec::new(), Vec::new());
        Self { at, lasts, fault, how: How::Plainly, extent, servers, workers }
    }

    /// This step for these servers, of this many in all.
    #[must_use]
    pub fn servers(self, servers: &[usize], of: usize) -> Self {
        let majority = servers.len() * 2 > of;
        let extent = if majority { Extent::Majority } else { Extent::Minority };
        Self { servers: servers.to_vec(), extent, ..self }
    }

    /// This step for these workers.
    #[must_use]
    pub fn workers(self, workers: &[usize]) -> Self {
        Self { workers: workers.to_vec(), ..self }
    }

    /// This step in this variant.
    #[must_use]
    pub fn how(self, how: How) -> Self {
        Self { how, ..self }
    }

    /// When it is healed, from the beginning of the run.
    pub fn ends(&self) -> Duration {
        self.at + self.lasts
    }

    /// The fault and its targets, joined by `-`, as in the history.
    pub fn what(&self) -> String {
        self.deed().replace([' ', ','], "-")
    }

    fn deed(&self) -> String {
        let list = |numbers: &[usize], of: &str| match numbers {
            [] => String::new(),
            numbers => {
                let words: Vec<_> = numbers.iter().map(usize::to_string).collect();
                format!(" {of} {}", words.join(","))
            }
        };
        let extent = match self.fault.victim() {
            Victim::Server | Victim::Link if self.extent == Extent::Majority => " majority",
            Victim::Server | Victim::Link => " minority",
            Victim::Worker | Victim::Memory | Victim::Part => "",
        };
        let (servers, workers) = (list(&self.servers, "servers"), list(&self.workers, "workers"));
        format!("{}{}{extent}{servers}{workers}", self.fault, self.how)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, ends) = (self.at.as_secs_f64(), self.ends().as_secs_f64());
        write!(f, "{at:7.3}s to {ends:7.3}s: {}", self.deed())
    }
}
