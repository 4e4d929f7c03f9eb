//! The votes of the other nodes for leases that a bare majority has granted.
//!
//! The quorum asks the other nodes if the lease is held for longer than a moment. So a held lease outlives the nodes
//! that voted at first, and a lease that is released at once costs no further commands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Claim, Instant, QuorumNode};
use tokio::time::sleep;

use crate::guarded::Guarded;
use crate::inner::Core;

/// How long a moment is.
const MOMENT: Duration = Duration::from_millis(50);

/// The new leases, the oldest first.
#[derive(Default)]
pub(crate) struct Later(Guarded<Leases>);

#[derive(Default)]
struct Leases {
    leases: VecDeque<(Instant, Claim)>,
    /// Whether the work of asking for them is under way.
    is_watched: bool,
}

impl Later {
    /// Adds a lease. Returns whether the work has to begin.
    fn add(&self, due: Instant, claim: &Claim) -> bool {
        let mut later = self.0.lock();
        later.leases.push_back((due, claim.clone()));
        !std::mem::replace(&mut later.is_watched, true)
    }

    /// The leases that are due. `None` if there are no leases: the work then ends.
    fn due(&self, now: Instant) -> Option<Vec<Claim>> {
        let mut later = self.0.lock();
        later.is_watched = !later.leases.is_empty();
        let count = later.leases.partition_point(|(due, _)| *due <= now);
        let due = later.leases.drain(..count).map(|(_, claim)| claim).collect();
        later.is_watched.then_some(due)
    }
}

impl<N: QuorumNode> Core<N> {
    /// Asks the nodes without a vote for the lease to vote, too, if the lease is held for longer than a moment.
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
}
