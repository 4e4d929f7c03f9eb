//! Renews a lease on all nodes.

use std::num::NonZeroU32;
use std::sync::Arc;

use lock_core::{Claim, Contention, Error, ErrorKind, QuorumNode, Renew, Renewal, TokenRange};

use crate::actor::Owed;
use crate::agenda::Duty;
use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::claims::View;
use crate::counts::Renewals;
use crate::inner::Core;
use crate::tokens::Shares;

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
        return over(core, claim, &seen);
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
            return over(core, claim, &poll.seen);
        }
        asked.finish();
        let (valid_until, contention) = (until.0, Contention::Unknown);
        return Renewal::Renewed { valid_until, tokens: poll.tokens(request).await, contention };
    }
    if poll.renewals.is_lost() {
        return over(core, claim, &poll.seen);
    }
    Renewal::Unknown(asked.failure("renewed it", poll.renewals.deadlines.len()))
}

/// The lease is over. Releases its last ballots, which are in the way of other claims.
fn over<N: QuorumNode>(core: &Arc<Core<N>>, claim: &Claim, seen: &View) -> Renewal {
    let Some(left) = core.claims.lose(claim, seen, core.clock.now()) else {
        return Renewal::Unknown(Error::new(ErrorKind::NotReady, "it is being granted anew"));
    };
    left.into_iter().for_each(|ballot| drop(Owed::new(core, claim, ballot, Duty::Release)));
    Renewal::Lost
}

/// The answers of the nodes.
struct Poll<N> {
    core: Arc<Core<N>>,
    seen: View,
    renewals: Renewals,
    /// The tokens that the nodes have reserved, if any are wanted.
    shares: Option<Shares>,
}

impl<N: QuorumNode> Poll<N> {
    fn new(core: &Arc<Core<N>>, tokens: u32, seen: View) -> Self {
        let wanted = NonZeroU32::new(tokens);
        let without = core.quorum.nodes() - seen.standing.len();
        let lost = if seen.held.is_none() { without } else { 0 };
        Self {
            core: Arc::clone(core),
            renewals: Renewals::new(core.quorum, lost),
            seen,
            shares: wanted.map(|wanted| Shares::new(core.quorum, wanted)),
        }
    }

    /// Asks the nodes to renew the standing ballots. A node without a standing ballot has nothing to renew: it votes
    /// soon, if the lease is held then.
    fn ask(&self, request: &Renew) -> Asked<N, Renewal> {
        let mut asked = Asked::new(&self.core, self.core.settings.limit(request.ttl));
        if self.seen.held.is_some() && self.seen.standing.len() < self.core.quorum.nodes() {
            self.core.plant_soon(&request.claim);
        }
        for node in self.seen.standing.iter() {
            let ballot = Ballot { node, owner: self.seen.owner };
            asked.ask(node, Arc::clone(&self.core).renew(ballot, request.clone()));
        }
        asked
    }

    fn note(&mut self, node: usize, renewal: Option<Renewal>) {
        match renewal {
            Some(Renewal::Renewed { valid_until, tokens, .. }) => {
                self.renewals.deadlines.push((node, self.core.dated(node, valid_until)));
                if let (Some(shares), Some(tokens)) = (&mut self.shares, tokens) {
                    shares.grant(node, tokens);
                }
            }
            Some(Renewal::Lost) if !self.seen.unheard.contains(node) => self.renewals.lost += 1,
            _ => {}
        }
    }

    /// The tokens on which a majority agrees.
    async fn tokens(mut self, request: &Renew) -> Option<TokenRange> {
        let (ballots, limit) =
            ((&request.claim, self.seen.owner), self.core.settings.limit(request.ttl));
        let agreed = self.core.agree(ballots, self.shares.as_mut()?, (limit, None)).await;
        agreed.ok().map(|(tokens, _)| tokens)
    }
}
