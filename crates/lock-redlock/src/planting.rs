//! Having a node vote for a lease that it has lost, or never had, while the lease is not over.
//!
//! So the lease outlives other nodes than those that voted at first.

use std::sync::Arc;

use lock_core::{Acquire, Error, QuorumNode, Renew, Vote};

use crate::inner::Core;
use crate::owed::Owed;

impl<N: QuorumNode> Core<N> {
    /// Asks a node to vote for a lease that is being renewed.
    ///
    /// It is this vote that counts, with the next renewal, and not that there was one before.
    pub(crate) fn replant(self: &Arc<Self>, node: usize, renewed: &Renew) {
        if self.claims.held(&renewed.claim, self.clock.now()).is_none() {
            // It was granted through another handle, which will do it.
            return;
        }
        let (core, renewed) = (Arc::clone(self), renewed.clone());
        self.background.spawn(async move {
            let limit = core.settings.limit(renewed.ttl);
            let planting = core.planted(node, &renewed);
            let planted = tokio::time::timeout(limit, planting).await;
            if let Ok(Ok(Some(Vote::Busy { .. } | Vote::Abstains(_)) | None)) = planted {
                return;
            }
            // It may have been released meanwhile.
            if let Some(mark) = core.claims.undo(&renewed.claim, node, core.clock.now()) {
                drop(Owed::marked(&core, mark));
            }
        });
    }

    async fn planted(
        self: &Arc<Self>,
        node: usize,
        renewed: &Renew,
    ) -> Result<Option<Vote>, Error> {
        let claim = &renewed.claim;
        let Some(held) = self.claims.held(claim, self.clock.now()) else { return Ok(None) };
        let request = Arc::new(Acquire::new(claim.clone(), renewed.ttl));
        Arc::clone(self).vote(node, request, held.tokens.last()).await.map(Some)
    }
}
