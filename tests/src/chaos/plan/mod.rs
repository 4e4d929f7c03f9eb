//! The plan of a run: drawn from a seed, or written by hand.

mod draw;
mod how;
mod scope;
mod step;

use std::fmt;
use std::time::Duration;

pub use how::{How, Mischief, Rights};
pub use scope::Scope;
pub use step::Step;

use super::{Deployment, Fault};
use crate::Random;

/// The plan of a run.
///
/// It follows from a seed and a [`Scope`] alone, so a run can be repeated as far as the harness controls it.
///
/// # Examples
///
/// ```
/// use lock_tests::chaos::{Deployment, Fault, Plan, Scope};
///
/// let scope = Scope::default().over(&[Deployment::Quorum(3)]).of(&[Fault::KillEmpty]).steps(2);
/// let plan = Plan::draw(7, &scope);
/// assert_eq!(plan, Plan::draw(7, &scope));
/// assert_eq!(plan.steps.len(), 2);
/// println!("{plan}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a plan can be written by hand")]
pub struct Plan {
    /// The seed. The work of the workers also follows from it.
    pub seed: u64,
    /// The store of the locks.
    pub deployment: Deployment,
    /// How long a lease lives without renewal.
    pub ttl: Duration,
    /// The longest lease that a node of a quorum grants: for this time it abstains when it may have forgotten
    /// leases.
    pub max_ttl: Duration,
    /// How long a node of a quorum may take to answer.
    pub node_timeout: Duration,
    /// The longest wait of any acquisition.
    pub wait_limit: Duration,
    /// Whether a lock is released to the store after each holder as soon as another process waits.
    pub fair: bool,
    /// The number of workers: processes, or clients of one process that has the memory backend.
    pub workers: usize,
    /// The number of tasks of each.
    pub tasks: u32,
    /// The longest time of most critical sections.
    pub hold: Duration,
    /// How many of a hundred writers do not check their guards before they write.
    pub careless: usize,
    /// The faults, in the order of their beginnings.
    pub steps: Vec<Step>,
}

impl Plan {
    /// The plan that belongs to a seed.
    ///
    /// # Panics
    ///
    /// If no fault in the scope can hit any deployment in it.
    pub fn draw(seed: u64, scope: &Scope) -> Self {
        draw::plan(seed, scope)
    }

    /// A plan with these steps, and defaults for the rest.
    pub fn of(deployment: Deployment, mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(|step| step.at);
        Self { steps, ..draw::quiet(1, deployment, &mut Random::from_seed(1)) }
            .with_ttl(Duration::from_secs(1))
    }

    /// This plan with leases of this length, and the times that follow from that.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        let timeout = (ttl / 4).clamp(Duration::from_millis(200), Duration::from_millis(500));
        Self {
            ttl,
            max_ttl: ttl * 3 / 2,
            node_timeout: timeout,
            wait_limit: ttl * 2 + Duration::from_secs(2),
            ..self
        }
    }

    /// When the last fault has been healed, from the beginning.
    pub fn healed(&self) -> Duration {
        self.steps.iter().map(|step| step.at + step.lasts).max().unwrap_or_default()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fair = if self.fair { "fair" } else { "as fast as can be" };
        writeln!(
            f,
            "seed {}: {}, {} workers with {} tasks each, leases of {:?}, holds of {:?}, {fair}",
            self.seed, self.deployment, self.workers, self.tasks, self.ttl, self.hold,
        )?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{number:3}. {step}")?;
        }
        Ok(())
    }
}

impl Fault {
    /// Whether the fault has a target in a deployment.
    pub fn can_befall(self, deployment: Deployment) -> bool {
        use super::Victim::*;

        match (self.victim(), deployment) {
            (Memory, _) => deployment == Deployment::Memory,
            // The store would end with the process.
            (Worker, Deployment::Memory) => self != Self::KillWorker,
            (Worker, _) => true,
            (Part, _) => match self {
                Self::PartitionPrimary => deployment.is_watched(),
                Self::MoveSlot => deployment == Deployment::Cluster,
                Self::FailOver | Self::KillPrimary | Self::PausePrimary
                    if deployment == Deployment::Members =>
                {
                    true
                }
                _ => deployment.fails_over(),
            },
            (Server, _) if deployment.fails_over() => self == Self::FlushScripts,
            (Link, _) if deployment.fails_over() => false,
            (Server, Deployment::Postgres) => {
                matches!(self, Self::KillKept | Self::StopServer | Self::Flush | Self::KillClients)
            }
            (Server, Deployment::Etcd) => {
                matches!(self, Self::KillKept | Self::KillEmpty | Self::StopServer | Self::Flush)
            }
            // A member without its data cannot come back, and what one member deletes is gone in all.
            (Server, Deployment::Members) => matches!(self, Self::KillKept | Self::StopServer),
            // A link knows the requests of Redis alone.
            (Link, _) if deployment.is_other() => self != Self::Duplicate,
            (Server | Link, _) => deployment != Deployment::Memory,
        }
    }
}
