//! The votes of the other nodes for leases that a bare majority has granted.
//!
//! The quorum asks the other nodes if the lease is held for longer than a moment. So a held lease outlives the nodes
//! that voted at first, and a lease that is released at once costs no further commands.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Claim, Instant, QuorumNode};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::inner::Core;

/// How long a moment is.
const MOMENT: Duration = Duration::from_millis(50);

/// A new lease, and when to ask the other nodes for their votes.
pub(crate) type Later<N> = (Instant, Arc<Core<N>>, Claim);

impl<N: QuorumNode> Core<N> {
    /// Asks the nodes without a vote for the lease to vote, too, if the lease is held for longer than a moment.
    pub(crate) fn plant_soon(self: &Arc<Self>, claim: &Claim) {
        let due = self.clock.now() + MOMENT;
        // If the runtime of the app has ended, no task asks.
        let _ended = self.later.send((due, Arc::clone(self), claim.clone()));
    }
}

/// Asks for the new leases, the oldest first. Wakes at most once in a moment, for all leases that are due by then. Ends
/// when the quorum is dropped.
pub(crate) async fn plant_all<N: QuorumNode>(mut leases: mpsc::UnboundedReceiver<Later<N>>) {
    while let Some((due, core, claim)) = leases.recv().await {
        while core.clock.now() < due {
            sleep(MOMENT).await;
        }
        core.plant(&claim);
    }
}
