//! A contestant that makes passes, and the outcome of its turn.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use lock_benches::contestants::{Plain, quorums};
use lock_benches::measure::{self, Passes};
use lock_benches::{Cost, Entrant, Failure, Fleet, NodeRedlock, Stage, quantiles};

use crate::LIMIT;

/// Something that makes passes.
pub(crate) enum Runner {
    /// Sends only commands that do nothing.
    Ping(Arc<Plain>),
    Lock(Entrant),
    Node(RefCell<NodeRedlock>),
}

/// The outcome of one turn.
pub(crate) struct Turn {
    pub(crate) passes: Passes,
    pub(crate) cost: Cost,
}

/// The name of the row of node-redlock.
pub(crate) const NODE: &str = "node-redlock";

impl Runner {
    /// The runner of this name, over these servers.
    pub(crate) fn named(name: &str, fleet: &Fleet, stage: &Stage) -> Result<Self, Failure> {
        let urls = fleet.urls();
        if name == NODE {
            return Ok(Self::Node(RefCell::new(NodeRedlock::start(&urls)?)));
        }
        let name = name.to_owned();
        let entrant = stage.run(async move { quorums::named(&name, &urls, 1).await })?;
        Ok(Self::Lock(entrant))
    }

    /// Makes passes for a while.
    pub(crate) fn turn(
        &self,
        fleet: &Fleet,
        stage: &Stage,
        time: Duration,
    ) -> Result<Turn, Failure> {
        let (passes, cost) = match self {
            Self::Ping(plain) => fleet.cost(
                |stats| stats.total(),
                || Ok(Passes::of(stage.run(measure::pings(Arc::clone(plain), time, None))?)),
            ),
            Self::Lock(entrant) => fleet.cost(
                |stats| entrant.sent(stats),
                || stage.run(entrant.passes(key(entrant), time, LIMIT)),
            ),
            Self::Node(node) => fleet.cost(
                |stats| {
                    let sent = stats.iter().filter(|(name, _)| !NodeRedlock::INNER.contains(name));
                    sent.map(|(_, calls)| calls).sum()
                },
                || node.borrow_mut().passes("bench", time, LIMIT),
            ),
        };
        Ok(Turn { passes: passes?, cost })
    }

    /// Whether the runner computes in this process.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self, Self::Node(_))
    }
}

impl Turn {
    pub(crate) fn median(&self) -> f64 {
        quantiles(&self.passes.times)[0].as_secs_f64()
    }

    pub(crate) fn p99(&self) -> f64 {
        quantiles(&self.passes.times)[1].as_secs_f64()
    }

    pub(crate) fn commands(&self) -> f64 {
        self.cost.commands as f64 / self.passes.total() as f64
    }

    pub(crate) fn client(&self) -> f64 {
        self.cost.client.as_secs_f64() / self.passes.total() as f64
    }

    pub(crate) fn servers(&self) -> f64 {
        self.cost.servers.as_secs_f64() / self.passes.total() as f64
    }
}

fn key(entrant: &Entrant) -> String {
    entrant.keys(1).remove(0)
}
