//! Rounds: a request asks nodes for their votes until the votes decide.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::TryFutureExt;
use lock_core::{Acquire, Error, ErrorKind, FencingToken, Grant, Instant, OwnerTag, OwnerToken};
use lock_core::{QuorumNode, TokenRange, Vote};

use crate::asked::{Asked, Reply};
use crate::ballot::Ballot;
use crate::claims::Held;
use crate::first::Order;
use crate::inner::Core;
use crate::quorum::NodeSet;
use crate::rounds::Outcome;
use crate::tally::{Answer, Tally, Verdict};
use crate::tokens::{Agreement, Step};
use crate::validity;

/// The answers of the nodes, and the requests that are still under way.
pub(crate) struct Round<N: QuorumNode> {
    core: Arc<Core<N>>,
    request: Arc<Acquire>,
    /// The owner token of the ballots.
    owner: OwnerToken,
    asked: Asked<N, Reply<Vote>>,
    /// The nodes that were asked again: an earlier vote may stand there.
    again: NodeSet,
    tally: Tally,
    agreement: Agreement,
    /// The lease of the claim, if it was granted before.
    known: Option<Held>,
    floor: FencingToken,
    /// The nodes that were known to be missing when the round began.
    away: NodeSet,
    order: Order,
    grants: Vec<Option<Grant>>,
    /// Whether a node has refused to confirm a token.
    disagreed: bool,
}

impl<N: QuorumNode> Round<N> {
    /// Asks nodes by ballots with this owner token, as `order` says.
    ///
    /// [`decide`](Self::decide) sends the requests.
    pub(crate) fn begin(
        core: &Arc<Core<N>>,
        request: &Arc<Acquire>,
        owner: OwnerToken,
        order: Order,
    ) -> Self {
        let nodes = core.quorum.nodes();
        let known = core.claims.held(&request.claim, core.clock.now());
        let mut round = Self {
            core: Arc::clone(core),
            request: Arc::clone(request),
            owner,
            asked: Asked::new(core, core.settings.limit(request.ttl)),
            again: NodeSet::default(),
            tally: Tally::new(core.quorum, request.claim.owner.tag()),
            agreement: Agreement::new(core.quorum, request.tokens),
            known,
            floor: floor_over(known),
            away: core.away(),
            order,
            grants: vec![None; nodes],
            disagreed: false,
        };
        let later = order.later.map(|(nodes, _)| nodes).unwrap_or_default();
        let first = core.quorum.all().without(order.rest).without(later);
        first.iter().for_each(|node| round.ask(node));
        round
    }

    /// Begins the next round with the votes of this round: asks the other nodes again, unless they still have to
    /// answer.
    pub(crate) fn again(&mut self) {
        (self.away, self.floor) = (self.core.away(), floor_over(self.known));
        self.order = Order::default();
        self.asked.extend();
        for node in self.core.quorum.all().without(self.granted()).iter() {
            let is_new = self.tally.open().contains(node);
            self.tally.forget(node);
            if !self.asked.open().contains(node) {
                if !is_new {
                    self.again.insert(node);
                }
                self.ask(node);
            }
        }
    }

    fn ask(&mut self, node: usize) {
        let (core, request) = (Arc::clone(&self.core), Arc::clone(&self.request));
        let vote = core.vote(request, Ballot { node, owner: self.owner }, self.floor);
        self.asked.ask(node, vote.map_ok(Reply::Said));
    }

    /// Waits for answers until the outcome is clear. Other answers may then still be under way.
    pub(crate) async fn decide(&mut self) -> Outcome {
        loop {
            let answer = match self.order.later {
                Some((_, at)) => self.asked.next_until(at).await,
                None => self.asked.next().await,
            };
            match (answer, self.order.later) {
                (Some((node, reply)), _) => self.note(node, reply),
                (None, Some((nodes, _))) => {
                    self.order.later = None;
                    self.ask_rest();
                    nodes.iter().for_each(|node| self.ask(node));
                }
                (None, None) => self.close(),
            }
            if !self.order.rest.is_empty() && self.asked.open().is_empty() {
                if self.is_moving() {
                    return Outcome::Moving;
                }
                self.ask_rest();
            }
            if !self.asked.has_ready()
                && let Some(outcome) = self.outcome()
            {
                return outcome;
            }
        }
    }

    fn ask_rest(&mut self) {
        std::mem::take(&mut self.order.rest).iter().for_each(|node| self.ask(node));
    }

    /// Whether the first node has voted for another claim, and not long ago. In that case the lock moves on, and the
    /// other claim will get the other nodes, too. If the other claim has had the first node for long, it may lack the
    /// others.
    fn is_moving(&self) -> bool {
        let rivals = self.tally.rivals();
        let holder = rivals.first().and_then(|(_, holder)| *holder);
        let now = self.core.clock.now();
        holder.is_some_and(|holder| self.core.watched.is_new(&self.request.claim.key, holder, now))
    }

    /// The nodes that have granted the claim.
    pub(crate) fn granted(&self) -> NodeSet {
        (0..self.grants.len()).filter(|&node| self.grants[node].is_some()).collect()
    }

    /// The nodes whose only vote is still to come, probably soon. It is given back when it comes.
    pub(crate) fn open(&self) -> NodeSet {
        // A node with a vote may still have to confirm a token. That does not release its vote.
        self.asked.awaited().without(self.granted()).without(self.again).without(self.away)
    }

    /// After what time a quorum may be free.
    pub(crate) fn free_in(&self) -> Option<Duration> {
        let now = self.core.clock.now();
        self.tally.free_at(now).map(|at| at.saturating_duration_since(now))
    }

    /// The nodes that have voted for another claim.
    pub(crate) fn rivals(&self) -> Vec<(usize, Option<OwnerTag>)> {
        self.tally.rivals()
    }

    /// The error for too few votes, with the answers of the other nodes.
    pub(crate) fn failure(&self) -> Error {
        self.asked.failure("voted for it", self.granted().len())
    }

    fn note(&mut self, node: usize, reply: Option<Reply<Vote>>) {
        let answer = match reply {
            Some(Reply::Confirmed(token, true)) => return self.agreement.confirm(node, token),
            Some(Reply::Said(Vote::Granted(grant))) => {
                self.agreement.grant(node, grant.tokens);
                self.grants[node] = Some(grant);
                Answer::Granted
            }
            Some(Reply::Said(Vote::Busy { holder, retry_after })) => {
                // If the holder is this claim, the node is about to release an earlier ballot.
                let is_mine = holder == Some(self.request.claim.owner.tag());
                let left = if is_mine { Some(Duration::ZERO) } else { retry_after };
                let now = self.core.clock.now();
                Answer::Busy { holder, free_at: left.map(|time| now + time) }
            }
            Some(Reply::Said(_)) => {
                self.asked.say(node, self.core.abstains(node));
                Answer::Out
            }
            Some(Reply::Confirmed(_, false)) | None => {
                self.disagreed |= reply.is_some();
                self.agreement.refuse(node);
                Answer::Out
            }
        };
        self.tally.note(node, answer);
    }

    /// The time is over, so a node that has not answered does not count.
    fn close(&mut self) {
        for node in self.asked.open().iter() {
            self.agreement.refuse(node);
            self.tally.note(node, Answer::Out);
        }
    }

    /// The outcome, if it is clear. Otherwise there are answers to wait for.
    fn outcome(&mut self) -> Option<Outcome> {
        let missing = if self.order.later.is_none() { self.away } else { NodeSet::default() };
        match self.tally.verdict(self.asked.open()) {
            Verdict::Open => match self.tally.verdict_without(missing)? {
                Verdict::Split { favourite } => Some(Outcome::Split { favourite }),
                _ => Some(Outcome::Held),
            },
            Verdict::Won => self.agree(),
            _ if self.disagreed => Some(Outcome::Disagreed),
            Verdict::Held => Some(Outcome::Held),
            Verdict::Split { favourite } => Some(Outcome::Split { favourite }),
            Verdict::Unable => {
                let voted = self.tally.granted().len() + self.tally.rivals().len();
                Some(Outcome::Unable(self.asked.failure("voted", voted)))
            }
        }
    }

    fn agree(&mut self) -> Option<Outcome> {
        let now = self.core.clock.now();
        if let Some(known) = self.known {
            // If the known lease has ended meanwhile, its nodes have granted another lease.
            let is_alive = now < known.valid_until;
            let granted = || self.granted_until(known.tokens, self.tally.granted(), now);
            return Some(if is_alive { granted() } else { self.too_late() });
        }
        match self.agreement.step(self.tally.open().len()) {
            Step::Wait => None,
            Step::Agreed(tokens, nodes) => Some(self.granted_until(tokens, nodes, now)),
            Step::Impossible => Some(Outcome::Disagreed),
            Step::Confirm(token, nodes) => {
                self.asked.extend();
                self.asked.confirm(&self.request.claim, self.owner, (token, nodes));
                None
            }
        }
    }

    /// The outcome of a grant by these nodes, at the time of the last answer that counts.
    fn granted_until(&self, tokens: TokenRange, nodes: NodeSet, now: Instant) -> Outcome {
        let deadlines =
            nodes.iter().filter_map(|node| Some((node, self.grants[node].as_ref()?.valid_until)));
        let deadlines: Vec<_> = deadlines.collect();
        match validity::until(&deadlines, self.core.quorum.needed()) {
            Some((valid_until, nodes)) if valid_until > now => {
                Outcome::Granted(Held { tokens, valid_until, nodes })
            }
            _ => self.too_late(),
        }
    }

    fn too_late(&self) -> Outcome {
        let ttl = self.request.ttl.duration();
        let message = format!("a lease of {ttl:?} was over before a quorum had granted it");
        Outcome::Unable(Error::new(ErrorKind::Timeout, message))
    }
}

/// The votes that are still to come look after themselves.
impl<N: QuorumNode> Drop for Round<N> {
    fn drop(&mut self) {
        let nothing = Asked::new(&self.core, Duration::ZERO);
        std::mem::replace(&mut self.asked, nothing).finish();
    }
}

/// The last token to ask for: the time. Every node that counts for the token of a lease has to know this token, even if
/// the node votes for the lease only now.
fn floor_over(known: Option<Held>) -> FencingToken {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let time = FencingToken::floor(since_1970.unwrap_or_default());
    known.map_or(time, |known| time.max(known.tokens.last()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of the client may have been set back meanwhile.
    #[test]
    fn a_node_that_votes_later_is_asked_for_no_lower_token() {
        let held = |token| {
            let tokens = TokenRange::single(FencingToken::new(token));
            Some(Held { tokens, valid_until: Instant::FAR_FUTURE, nodes: NodeSet::default() })
        };
        assert_eq!(floor_over(held(u64::MAX)).get(), u64::MAX);
        assert!(floor_over(held(3)).get() > 3);
    }
}
