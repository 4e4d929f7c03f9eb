//! Renewing a lease on all nodes.

use std::sync::Arc;

use lock_core::{Acquire, Error, ErrorKind, QuorumNode, Renew, Renewal, Vote};

use crate::asked::late;
use crate::inner::Core;
use crate::owed::Owed;
use crate::validity;

/// Renews a claim, if a majority still has it. Nodes that do not are then asked to vote for it again.
///
/// It brings no tokens: those of a renewal would have to be agreed on in a second round.
pub(crate) async fn renew<N: QuorumNode>(core: &Arc<Core<N>>, request: &Renew) -> Renewal {
    let Renew { claim, ttl, .. } = request;
    if let Err(error) = core.settings.check(*ttl) {
        return Renewal::Unknown(error);
    }
    let (needed, nodes) = (core.quorum.needed(), core.quorum.nodes());
    let plain = Renew::new(claim.clone(), *ttl);
    let mut asked = core.ask(0..nodes, core.settings.limit(*ttl), |core, node| {
        let plain = plain.clone();
        async move { core.renew(node, plain).await }
    });
    let (mut deadlines, mut lost) = (Vec::new(), Vec::new());
    let mut said = vec![None; nodes];
    let is_open = |renewed: usize, lost: usize, open: usize| {
        renewed < needed && lost <= nodes - needed && renewed + open >= needed
    };
    while is_open(deadlines.len(), lost.len(), asked.open().len()) {
        let Some(batch) = asked.answers().await else { break };
        for (node, answer) in batch {
            match answer {
                Ok(Renewal::Renewed { valid_until, .. }) => deadlines.push(valid_until),
                Ok(Renewal::Lost) => lost.push(node),
                Ok(_) => said[node] = Some(Error::new(ErrorKind::NotReady, "not renewed")),
                Err(error) => said[node] = Some(error),
            }
        }
    }
    let renewed = deadlines.len();
    tracing::debug!(target: "lock_redlock", key = %claim.key, renewed, ?lost, "renew");
    if let Some(valid_until) = validity::until(deadlines, needed) {
        core.claims.renew(claim, valid_until);
        lost.into_iter().for_each(|node| core.replant(node, &plain));
        let core = Arc::clone(core);
        asked.finish(move |node, answer| {
            if let Ok(Renewal::Lost) = answer {
                core.replant(node, &plain);
            }
        });
        return Renewal::until(valid_until);
    }
    if lost.len() > nodes - needed {
        core.claims.end(claim);
        // What is left of it is in others' way.
        (0..nodes).for_each(|node| drop(Owed::new(core, claim, node)));
        return Renewal::Lost;
    }
    for node in asked.open().iter() {
        said[node] = Some(late(asked.limit()));
    }
    Renewal::Unknown(core.failure("renewed it", renewed, &said))
}

impl<N: QuorumNode> Core<N> {
    /// Asks a node that has lost a lease, or never had it, to vote for it, while a quorum holds it. So the
    /// lease outlives other nodes than those that voted at first.
    ///
    /// It is this vote that counts, with the next renewal, and not that there was one before.
    fn replant(self: &Arc<Self>, node: usize, renewed: &Renew) {
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
        let other_mode = held.also.map(|mode| request.clone().converting(mode));
        let ask = |request| Arc::clone(self).vote(node, Arc::new(request), held.tokens.last());
        let vote = ask(request).await?;
        let is_own =
            matches!(vote, Vote::Busy { holder: Some(tag), .. } if tag == claim.owner.tag());
        match other_mode.filter(|_| is_own) {
            Some(conversion) => ask(conversion).await.map(Some),
            None => Ok(Some(vote)),
        }
    }
}
