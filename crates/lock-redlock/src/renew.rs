//! Renewing a lease on all nodes.

use std::sync::Arc;

use lock_core::{Acquire, Claim, Error, ErrorKind, QuorumNode, Renew, Renewal, Vote};

use crate::asked::late;
use crate::inner::Core;
use crate::owed::Owed;
use crate::validity;

/// Renews a claim by a majority. Nodes that have lost it are asked to vote for it again.
pub(crate) async fn renew<N: QuorumNode>(core: &Arc<Core<N>>, request: &Renew) -> Renewal {
    let Renew { claim, ttl, .. } = request;
    if let Err(error) = core.settings.check(*ttl) {
        return Renewal::Unknown(error);
    }
    let (needed, nodes) = (core.quorum.needed(), core.quorum.nodes());
    let is_ours = core.claims.held(claim, core.clock.now()).is_some();
    let plain = Renew::new(claim.clone(), *ttl);
    let mut asked = core.ask(0..nodes, core.settings.limit(*ttl), |core, node| {
        core.renew_or_replant(node, plain.clone())
    });
    let (mut deadlines, mut lost) = (Vec::new(), 0);
    let mut said = vec![None; nodes];
    let is_open = |renewed: usize, lost: usize, open: usize| {
        renewed < needed && lost <= nodes - needed && renewed + open >= needed
    };
    while is_open(deadlines.len(), lost, asked.open().len()) {
        let Some(batch) = asked.answers().await else { break };
        for (node, answer) in batch {
            match answer {
                Ok(Renewal::Renewed { valid_until, .. }) => deadlines.push(valid_until),
                Ok(Renewal::Lost) => lost += 1,
                Ok(_) => said[node] = Some(Error::new(ErrorKind::NotReady, "not renewed")),
                Err(error) => said[node] = Some(error),
            }
        }
    }
    let renewed = deadlines.len();
    tracing::debug!(target: "lock_redlock", key = %claim.key, renewed, lost, "renew");
    let renewal = if let Some(valid_until) = validity::until(deadlines, needed) {
        core.claims.renew(claim, valid_until);
        Renewal::until(valid_until)
    } else if lost > nodes - needed {
        core.claims.end(claim);
        // What is left of it is in others' way.
        (0..nodes).for_each(|node| drop(Owed::new(core, claim, node)));
        Renewal::Lost
    } else {
        for node in asked.open().iter() {
            said[node] = Some(late(asked.limit()));
        }
        Renewal::Unknown(core.failure("renewed it", renewed, &said))
    };
    let (late_core, late_claim) = (Arc::clone(core), claim.clone());
    asked.finish(move |node, _| {
        // It may have been planted again after its release.
        let now = late_core.clock.now();
        if is_ours && let Some(mark) = late_core.claims.undo(&late_claim, node, now) {
            drop(Owed::marked(&late_core, mark));
        }
    });
    renewal
}

impl<N: QuorumNode> Core<N> {
    async fn renew_or_replant(
        self: Arc<Self>,
        node: usize,
        request: Renew,
    ) -> Result<Renewal, Error> {
        match Arc::clone(&self).renew(node, request.clone()).await? {
            Renewal::Lost => self.replant(node, &request).await,
            renewal => Ok(renewal),
        }
    }

    /// Asks a node that has lost a lease, or never had it, to vote for it, if a quorum holds it for certain.
    ///
    /// It must do so until the answer has come: then nobody else can have had a quorum meanwhile.
    async fn replant(self: Arc<Self>, node: usize, request: &Renew) -> Result<Renewal, Error> {
        let claim = &request.claim;
        let Some(held) = self.claims.held(claim, self.clock.now()) else {
            return Ok(Renewal::Lost);
        };
        let plain = Acquire::new(claim.clone(), request.ttl);
        let conversion = held.also.map(|from| plain.clone().converting(from));
        let mut vote = self.replanted(node, plain, held.tokens.last()).await?;
        if let Some(conversion) = conversion
            && is_in_its_own_way(&vote, claim)
        {
            vote = self.replanted(node, conversion, held.tokens.last()).await?;
        }
        let Some(Vote::Granted(grant)) = vote else { return Ok(Renewal::Lost) };
        let now = self.clock.now();
        if self.claims.held(claim, now).is_some() {
            tracing::debug!(target: "lock_redlock::node", node = &*self.nodes[node].name, "replanted");
            return Ok(Renewal::until(grant.valid_until));
        }
        if let Some(mark) = self.claims.undo(claim, node, now) {
            drop(Owed::marked(&self, mark));
        }
        Ok(Renewal::Lost)
    }

    async fn replanted(
        self: &Arc<Self>,
        node: usize,
        request: Acquire,
        floor: lock_core::FencingToken,
    ) -> Result<Option<Vote>, Error> {
        match Arc::clone(self).vote(node, Arc::new(request), floor).await {
            Ok(vote) => Ok(Some(vote)),
            Err(error) if error.kind() == ErrorKind::NotHeld => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether what is in the way is the same owner's, in the mode from which the lease was converted.
fn is_in_its_own_way(vote: &Option<Vote>, claim: &Claim) -> bool {
    matches!(vote, Some(Vote::Busy { holder, .. }) if *holder == Some(claim.owner.tag()))
}
