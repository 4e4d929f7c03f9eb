//! Renews a lease on all nodes.

use std::num::NonZeroU32;
use std::sync::Arc;

use futures::TryFutureExt;
use lock_core::{
    Claim, Contention, Error, ErrorKind, Instant, QuorumNode, Renew, Renewal, TokenRange,
};

use crate::asked::{Asked, Reply};
use crate::ballot::Ballot;
use crate::claims::View;
use crate::counts::Renewals;
use crate::inner::Core;
use crate::quorum::NodeSet;
use crate::release::give_up;
use crate::tokens::{Agreement, Step};

/// Renews a claim, if a majority still has it. Then asks nodes that lack the claim to vote for it again, also if too
/// few nodes have answered: while the lease is not over, such a node may take the place of a node that is missing or
/// has lost its data.
///
/// If the request asks for tokens, the nodes agree on them in a second round. If they do not agree, the renewal brings
/// no tokens.
pub(crate) async fn renew<N: QuorumNode>(core: &Arc<Core<N>>, request: &Renew) -> Renewal {
    let claim = &request.claim;
    if let Err(error) = core.settings.check(request.ttl) {
        return Renewal::Unknown(error);
    }
    let seen = core.claims.view(claim);
    if seen.is_over(core.clock.now()) {
        return over(core, request, &seen).await;
    }
    let mut poll = Poll::new(core, request.tokens, seen);
    let mut asked = poll.ask(request);
    while asked.has_ready() || poll.renewals.is_open(asked.open().len()) {
        let Some((node, reply)) = asked.next().await else { break };
        poll.note(node, reply);
    }
    tracing::debug!(
        target: "lock_redlock", key = %claim.key,
        renewals = ?poll.renewals, "renew"
    );
    if let Some(until) = poll.renewals.until() {
        // If the lease ended before this answer, another client may have held the lock meanwhile.
        if !core.claims.extend(claim, &poll.seen, until, core.clock.now()) {
            return over(core, request, &poll.seen).await;
        }
        return poll.renewed(asked, claim, until.0).await;
    }
    if poll.renewals.is_lost() {
        return over(core, request, &poll.seen).await;
    }
    Renewal::Unknown(asked.failure("renewed it", poll.renewals.deadlines.len()))
}

/// The lease is over. Releases its last ballots, which are in the way of other claims.
async fn over<N: QuorumNode>(core: &Arc<Core<N>>, request: &Renew, seen: &View) -> Renewal {
    let Some(left) = core.claims.lose(&request.claim, seen, core.clock.now()) else {
        return Renewal::Unknown(Error::new(ErrorKind::NotReady, "it is being granted anew"));
    };
    give_up(core, &request.claim, request.ttl, (left, NodeSet::default())).await;
    Renewal::Lost
}

/// The answers of the nodes.
struct Poll<N> {
    core: Arc<Core<N>>,
    seen: View,
    renewals: Renewals,
    /// The nodes that still have to answer the renewal.
    open: NodeSet,
    /// The agreement on the tokens, if any are wanted.
    agreement: Option<Agreement>,
}

impl<N: QuorumNode> Poll<N> {
    fn new(core: &Arc<Core<N>>, tokens: u32, seen: View) -> Self {
        let wanted = NonZeroU32::new(tokens);
        let without = core.quorum.nodes() - seen.standing.len();
        let lost = if seen.held.is_none() { without } else { 0 };
        Self {
            core: Arc::clone(core),
            renewals: Renewals::new(core.quorum, lost),
            open: seen.standing,
            seen,
            agreement: wanted.map(|wanted| Agreement::new(core.quorum, wanted)),
        }
    }

    /// Asks the nodes to renew the standing ballots. A node without a standing ballot has nothing to renew: it votes
    /// soon, if the lease is held then.
    fn ask(&self, request: &Renew) -> Asked<N, Reply<Renewal>> {
        let mut asked = Asked::new(&self.core, self.core.settings.limit(request.ttl));
        if self.seen.held.is_some() && self.open.len() < self.core.quorum.nodes() {
            self.core.plant_soon(&request.claim);
        }
        for node in self.seen.standing.iter() {
            let renewed = Arc::clone(&self.core)
                .renew(Ballot { node, owner: self.seen.owner }, request.clone());
            asked.ask(node, renewed.map_ok(Reply::Said));
        }
        asked
    }

    /// A majority has renewed the lease.
    async fn renewed(
        mut self,
        mut asked: Asked<N, Reply<Renewal>>,
        claim: &Claim,
        valid_until: Instant,
    ) -> Renewal {
        let tokens = self.agree(&mut asked, claim).await;
        asked.finish();
        Renewal::Renewed { valid_until, tokens, contention: Contention::Unknown }
    }

    fn note(&mut self, node: usize, reply: Option<Reply<Renewal>>) {
        self.open.remove(node);
        match (reply, self.agreement.as_mut()) {
            (Some(Reply::Said(Renewal::Renewed { valid_until, tokens, .. })), agreement) => {
                self.renewals.deadlines.push((node, self.core.dated(node, valid_until)));
                if let (Some(agreement), Some(tokens)) = (agreement, tokens) {
                    agreement.grant(node, tokens);
                }
            }
            (Some(Reply::Said(Renewal::Lost)), _) if !self.seen.unheard.contains(node) => {
                self.renewals.lost += 1;
            }
            (Some(Reply::Confirmed(token, true)), Some(agreement)) => {
                agreement.confirm(node, token);
            }
            (Some(Reply::Confirmed(_, false)) | None, Some(agreement)) => agreement.refuse(node),
            _ => {}
        }
    }

    /// Makes a majority agree on the tokens that its nodes have reserved.
    async fn agree(
        &mut self,
        asked: &mut Asked<N, Reply<Renewal>>,
        claim: &Claim,
    ) -> Option<TokenRange> {
        asked.extend();
        loop {
            match self.agreement.as_mut()?.step(self.open.len()) {
                Step::Agreed(tokens, _) => return Some(tokens),
                Step::Impossible => return None,
                Step::Wait => {}
                Step::Confirm(token, nodes) => {
                    asked.confirm(claim, self.seen.owner, (token, nodes));
                }
            }
            let (node, reply) = asked.next().await?;
            self.note(node, reply);
        }
    }
}
