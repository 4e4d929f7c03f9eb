//! Having a node vote for a lease that it has lost, never had, or has in another mode, while the lease is not over.
//!
//! So the lease outlives other nodes than those that voted at first.

use std::sync::Arc;

use lock_core::{Acquire, Error, ErrorKind, FencingToken, QuorumNode, Renew, Vote};

use crate::claims::Modes;
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
        let request = Acquire::new(claim.clone(), renewed.ttl);
        // To convert it might take back what a conversion counts on.
        let is_meant = |converts| !(converts && self.claims.is_converted(claim));
        self.vote_in(node, &request, held.also, held.tokens.last(), is_meant).await.map(Some)
    }

    /// Has a node vote for a claim, which it may have in one of these other modes, and then converts. `is_meant`:
    /// whether it still is to vote, or to convert.
    pub(crate) async fn vote_in(
        self: &Arc<Self>,
        node: usize,
        request: &Acquire,
        also: Modes,
        floor: FencingToken,
        is_meant: impl Fn(bool) -> bool,
    ) -> Result<Vote, Error> {
        let claim = &request.claim;
        let ask = |request: Acquire| {
            let (core, is_meant) = (Arc::clone(self), &is_meant);
            let converts = request.from.is_some();
            let is_wanted =
                move || core.claims.is_wanted(claim, core.clock.now()) && is_meant(converts);
            Arc::clone(self).vote_if(node, Arc::new(request), floor, is_wanted)
        };
        let mut vote = ask(request.clone()).await?;
        for mode in also.that_become(claim.mode).iter() {
            if !matches!(vote, Vote::Busy { holder: Some(tag), .. } if tag == claim.owner.tag()) {
                break;
            }
            match ask(request.clone().converting(mode)).await {
                // It has it in yet another mode.
                Err(error) if error.kind() == ErrorKind::NotHeld => {}
                converted => vote = converted?,
            }
        }
        Ok(vote)
    }
}
