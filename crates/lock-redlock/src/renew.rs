//! Renewing a lease on all nodes.

use std::num::NonZeroU32;
use std::sync::Arc;

use lock_core::{
    Claim, Contention, Error, ErrorKind, FencingToken, Instant, QuorumNode, Renew, Renewal,
    TokenRange,
};

use crate::actor::Owed;
use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::claims::View;
use crate::inner::Core;
use crate::tokens::{Agreement, Step};
use crate::validity;

/// What a node answers.
enum Reply {
    Renewed(Renewal),
    /// Whether the node confirms this token. A node that does not answer does not confirm it.
    Confirmed(FencingToken, bool),
}

/// Renews a claim, if a majority still has it. Nodes that lack the claim are then asked to vote for it again, also if
/// too few nodes have answered: while the lease is not over, such a node may take the place of a node that is away, or
/// that has lost its data.
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
    while asked.has_ready() || poll.is_open(asked.open().len()) {
        let Some((node, reply)) = asked.next().await else { break };
        poll.note(node, reply);
    }
    tracing::debug!(
        target: "lock_redlock", key = %claim.key,
        renewed = poll.deadlines.len(), lost = poll.lost.len(), "renew"
    );
    let plain = Renew::new(claim.clone(), request.ttl);
    if let Some(until) = validity::until(&poll.deadlines, core.quorum.needed()) {
        // If the lease ended before this answer, another client may have held the lock since.
        if !core.claims.extend(claim, &poll.seen, until, core.clock.now()) {
            return over(core, claim, &poll.seen);
        }
        return poll.renewed(asked, plain, until.0).await;
    }
    if poll.is_lost() {
        return over(core, claim, &poll.seen);
    }
    // Their votes may be what the next renewal needs.
    poll.lost.iter().for_each(|&node| core.replant(node, &plain));
    Renewal::Unknown(asked.failure("renewed it", poll.deadlines.len()))
}

/// The lease is over. Releases its remaining ballots, which are in the way of other claims.
fn over<N: QuorumNode>(core: &Arc<Core<N>>, claim: &Claim, seen: &View) -> Renewal {
    let Some(left) = core.claims.lose(claim, seen, core.clock.now()) else {
        return Renewal::Unknown(Error::new(ErrorKind::NotReady, "it is being granted anew"));
    };
    left.into_iter().for_each(|ballot| drop(Owed::new(core, claim, ballot)));
    Renewal::Lost
}

/// What the nodes have answered.
struct Poll<N> {
    core: Arc<Core<N>>,
    seen: View,
    deadlines: Vec<(usize, Instant)>,
    /// The nodes that have to vote for the lease again: they have lost their ballot, or had none.
    lost: Vec<usize>,
    /// How many of these had no ballot of a lease that is held. Often a bare majority granted it a moment ago.
    without: usize,
    /// How many nodes have answered the renewal, in whatever way.
    answered: usize,
    /// The agreement on the tokens, if any are wanted.
    agreement: Option<Agreement>,
}

impl<N: QuorumNode> Poll<N> {
    fn new(core: &Arc<Core<N>>, tokens: u32, seen: View) -> Self {
        let wanted = NonZeroU32::new(tokens);
        Self {
            core: Arc::clone(core),
            seen,
            deadlines: Vec::new(),
            lost: Vec::new(),
            without: 0,
            answered: 0,
            agreement: wanted.map(|wanted| Agreement::new(core.quorum, wanted)),
        }
    }

    /// Asks the nodes to renew the ballots that stand. Where there is none, there is nothing to renew.
    fn ask(&mut self, request: &Renew) -> Asked<N, Reply> {
        let mut asked = Asked::new(&self.core, self.core.settings.limit(request.ttl));
        for node in 0..self.core.quorum.nodes() {
            let Some(ballot) = self.ballot(node) else {
                self.without += usize::from(self.seen.held.is_some());
                self.note(node, Some(Reply::Renewed(Renewal::Lost)));
                continue;
            };
            let mut request = request.clone();
            request.claim = ballot.claim(&request.claim);
            let renewed = Arc::clone(&self.core).renew(node, request);
            asked.ask(node, async move { Ok(Reply::Renewed(renewed.await?)) });
        }
        asked
    }

    fn ballot(&self, node: usize) -> Option<Ballot> {
        self.seen.ballots[node].map(|owner| Ballot { node, owner })
    }

    /// A majority has renewed the lease. The nodes that lack it have to vote for it again.
    async fn renewed(
        mut self,
        mut asked: Asked<N, Reply>,
        plain: Renew,
        valid_until: Instant,
    ) -> Renewal {
        self.lost.iter().for_each(|&node| self.core.replant(node, &plain));
        let tokens = self.agree(&mut asked, &plain.claim).await;
        if let Some(tokens) = tokens {
            self.core.floors.raise(&plain.claim.key, tokens.last());
        }
        let core = Arc::clone(&self.core);
        asked.finish(move |_, node, reply| {
            if let Some(Reply::Renewed(Renewal::Lost)) = reply {
                core.replant(node, &plain);
            }
        });
        Renewal::Renewed { valid_until, tokens, contention: Contention::Unknown }
    }

    fn note(&mut self, node: usize, reply: Option<Reply>) {
        let agreement = self.agreement.as_mut();
        match reply {
            Some(Reply::Confirmed(token, is_so)) => {
                if let Some(agreement) = agreement {
                    if is_so { agreement.confirm(node, token) } else { agreement.refuse(node) }
                }
                return;
            }
            Some(Reply::Renewed(Renewal::Renewed { valid_until, tokens, .. })) => {
                self.deadlines.push((node, self.core.dated(node, valid_until)));
                if let (Some(agreement), Some(tokens)) = (agreement, tokens) {
                    agreement.grant(node, tokens);
                }
            }
            Some(Reply::Renewed(Renewal::Lost)) => self.lost.push(node),
            Some(Reply::Renewed(_)) | None => {}
        }
        self.answered += 1;
    }

    /// Whether it is still open if a majority has renewed the lease, or if it is lost.
    fn is_open(&self, open: usize) -> bool {
        let (needed, renewed) = (self.core.quorum.needed(), self.deadlines.len());
        let may_turn_out = renewed + open >= needed || self.is_lost_with(open);
        renewed < needed && !self.is_lost() && may_turn_out
    }

    fn is_lost(&self) -> bool {
        self.is_lost_with(0)
    }

    /// Whether too few nodes can still have the lease, if this many more have lost it. A node without a ballot has lost
    /// nothing: its vote may yet take the place of another.
    fn is_lost_with(&self, more: usize) -> bool {
        let quorum = self.core.quorum;
        self.lost.len() - self.without + more > quorum.nodes() - quorum.needed()
    }

    /// Lets a majority agree on the tokens that its nodes have reserved.
    async fn agree(&mut self, asked: &mut Asked<N, Reply>, claim: &Claim) -> Option<TokenRange> {
        asked.extend();
        loop {
            let open = self.core.quorum.nodes().saturating_sub(self.answered);
            match self.agreement.as_mut()?.step(open) {
                Step::Agreed(tokens, _) => return Some(tokens),
                Step::Impossible => return None,
                Step::Wait => {}
                Step::Confirm(token, nodes) => {
                    for ballot in nodes.iter().filter_map(|node| self.ballot(node)) {
                        let (node, claim) = (ballot.node, ballot.claim(claim));
                        let confirmed = Arc::clone(&self.core).confirm(node, claim, token);
                        asked.ask(node, async move {
                            let is_so = confirmed.await.unwrap_or(false);
                            Ok(Reply::Confirmed(token, is_so))
                        });
                    }
                }
            }
            let (node, reply) = asked.next().await?;
            self.note(node, reply);
        }
    }
}
