//! The votes of the other nodes, for leases that a bare majority granted.
//!
//! The other nodes are asked if the lease is held for longer than a moment. So the lease outlives the nodes that voted at
//! first, and a lease that is released at once costs no more commands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Claim, Instant, QuorumNode, Renew, Ttl};
use tokio::time::sleep;

use crate::guarded::Guarded;
use crate::inner::Core;

/// How long a moment is.
const MOMENT: Duration = Duration::from_millis(50);

/// The leases that were granted a moment ago, the oldest first.
#[derive(Default)]
pub(crate) struct Later(Guarded<Leases>);

#[derive(Default)]
struct Leases {
    leases: VecDeque<(Instant, Claim)>,
    /// Whether the worker looks after them.
    is_watched: bool,
}

impl Later {
    /// Adds a lease. Returns whether the worker has to begin.
    fn add(&self, due: Instant, claim: &Claim) -> bool {
        let mut later = self.0.lock();
        later.leases.push_back((due, claim.clone()));
        !std::mem::replace(&mut later.is_watched, true)
    }

    /// The leases that are due. `None` if there are no leases at all: then the work ends.
    fn due(&self, now: Instant) -> Option<Vec<Claim>> {
        let mut later = self.0.lock();
        later.is_watched = !later.leases.is_empty();
        let count = later.leases.partition_point(|(due, _)| *due <= now);
        let due = later.leases.drain(..count).map(|(_, claim)| claim).collect();
        later.is_watched.then_some(due)
    }
}

impl<N: QuorumNode> Core<N> {
    /// Asks the other nodes to vote as well, if the lease is held for longer than a moment.
    pub(crate) fn plant_soon(self: &Arc<Self>, claim: &Claim) {
        if self.later.add(self.clock.now() + MOMENT, claim) {
            let core = Arc::clone(self);
            self.background.hand_over(async move {
                while let Some(due) = core.later.due(core.clock.now()) {
                    due.iter().for_each(|claim| core.plant(claim));
                    sleep(MOMENT).await;
                }
            });
        }
    }

    /// A vote for what is left of the lease, so that it ends with the others.
    fn plant(self: &Arc<Self>, claim: &Claim) {
        let now = self.clock.now();
        let Some((held, nodes)) = self.claims.lacking(claim, now) else { return };
        if let Ok(ttl) = Ttl::new(held.valid_until.saturating_duration_since(now)) {
            let held = Renew::new(claim.clone(), ttl);
            nodes.iter().for_each(|node| self.replant(node, &held));
        }
    }
}
