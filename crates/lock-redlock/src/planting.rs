//! Having a node vote for a lease that the node lacks, while the lease is not over.
//!
//! So the lease outlives other nodes than those that voted at first.

use std::sync::Arc;

use lock_core::{Acquire, Claim, QuorumNode, Renew, Vote};

use crate::ballot::Ballot;
use crate::inner::Core;
use crate::owed::Owed;

impl<N: QuorumNode> Core<N> {
    /// Asks a node to vote for a lease that is being renewed. The vote counts from the next renewal on.
    ///
    /// A lease that was granted in another process is planted there.
    pub(crate) fn replant(self: &Arc<Self>, node: usize, renewed: &Renew) {
        let claim = &renewed.claim;
        let Some((ballot, held)) = self.claims.plant(claim, node, self.clock.now()) else { return };
        let request = Arc::new(Acquire::new(claim.clone(), renewed.ttl));
        let core = Arc::clone(self);
        self.background.spawn(async move {
            let vote = Arc::clone(&core).vote(Arc::clone(&request), ballot, held.tokens.last());
            let limit = core.settings.limit(request.ttl);
            match tokio::time::timeout(limit, vote).await {
                Ok(Ok(Vote::Busy { .. } | Vote::Abstains(_))) => {
                    core.claims.refused(&request.claim, ballot);
                }
                // The lease may have been released meanwhile.
                _ => _ = core.heard(&request.claim, ballot),
            }
        });
    }

    /// A node has granted a ballot, or may have. Returns whether the ballot stands. A dead one is to be released.
    pub(crate) fn heard(self: &Arc<Self>, claim: &Claim, ballot: Ballot) -> bool {
        let stands = self.claims.heard(claim, ballot, self.clock.now());
        if !stands {
            drop(Owed::new(self, claim, ballot));
        }
        stands
    }
}
