//! Rounds: nodes are asked for their votes, until they have decided.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Claim, Error, ErrorKind, FencingToken, Grant, Instant, OwnerTag};
use lock_core::{QuorumNode, TokenRange, Vote};

use crate::actor::Owed;
use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::claims::Held;
use crate::inner::Core;
use crate::quorum::NodeSet;
use crate::tally::{Answer, Tally, Verdict};
use crate::tokens::{Agreement, Step};
use crate::validity;

/// What a node answers.
enum Reply {
    Voted(Vote),
    /// The node was not asked, and so has no ballot to release.
    Unasked(Error),
    Confirmed(FencingToken, bool),
    /// The node has released a ballot that was given up before its vote came.
    Released,
}

/// The outcome of a round.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A quorum has granted the claim, agrees on its tokens, and the lease is not over.
    Granted(Held),
    /// A quorum has granted the claim, but the lease was over when the last answer came.
    TooLate,
    /// A quorum has granted the claim, but does not agree on its tokens.
    Disagreed,
    Held,
    /// The node that was asked first has voted for another claim a short time ago. The other nodes were not asked.
    Moving,
    Split {
        favourite: bool,
    },
    /// Too few nodes voted.
    Unable(Error),
}

/// Which nodes are not asked at once. By default all are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Order {
    /// The nodes that are asked when the others have voted.
    pub(crate) rest: NodeSet,
    /// The nodes that are asked when the others cannot decide alone, or have not decided by that time.
    pub(crate) later: Option<(NodeSet, Instant)>,
}

/// The answers of the nodes, and the requests that are still under way.
pub(crate) struct Round<N: QuorumNode> {
    core: Arc<Core<N>>,
    request: Arc<Acquire>,
    ballots: Vec<Ballot>,
    asked: Asked<N, Reply>,
    tally: Tally,
    agreement: Agreement,
    /// The lease of the claim, if it was granted before.
    known: Option<Held>,
    floor: FencingToken,
    /// The nodes that were known to be away when the round began.
    away: NodeSet,
    /// The nodes that are asked when the first one has voted.
    rest: NodeSet,
    /// The nodes that are asked at this time.
    later: Option<(NodeSet, Instant)>,
    grants: Vec<Option<Grant>>,
    /// Whether a node would not confirm a token.
    disagreed: bool,
}

impl<N: QuorumNode> Round<N> {
    /// Asks nodes by these ballots, as `order` says.
    ///
    /// The requests are sent when the round is [decided](Self::decide).
    pub(crate) fn begin(
        core: &Arc<Core<N>>,
        request: &Arc<Acquire>,
        ballots: Vec<Ballot>,
        floor: FencingToken,
        order: Order,
    ) -> Self {
        let nodes = core.quorum.nodes();
        let known = core.claims.held(&request.claim, core.clock.now());
        let mut round = Self {
            core: Arc::clone(core),
            request: Arc::clone(request),
            ballots,
            asked: Asked::new(core, core.settings.limit(request.ttl)),
            tally: Tally::new(core.quorum, request.claim.owner.tag()),
            agreement: Agreement::new(core.quorum, request.tokens),
            known,
            floor: floor_over(known, floor),
            away: away(core),
            rest: order.rest,
            later: order.later,
            grants: vec![None; nodes],
            disagreed: false,
        };
        let later = order.later.map(|(nodes, _)| nodes).unwrap_or_default();
        let all: NodeSet = (0..nodes).collect();
        all.without(order.rest).without(later).iter().for_each(|node| round.ask(node));
        round
    }

    /// Begins the next round with the votes of this one: asks the other nodes again, unless they still have to answer.
    pub(crate) fn again(&mut self, ballots: Vec<Ballot>, floor: FencingToken) {
        (self.away, self.floor) = (away(&self.core), floor_over(self.known, floor));
        self.asked.extend();
        let granted = self.granted();
        for ballot in ballots.into_iter().filter(|ballot| !granted.contains(ballot.node)) {
            let node = ballot.node;
            self.tally.forget(node);
            if !self.asked.open().contains(node) {
                self.ballots[node] = ballot;
                self.ask(node);
            }
        }
    }

    fn ask(&mut self, node: usize) {
        let (core, request) = (Arc::clone(&self.core), Arc::clone(&self.request));
        let (ballot, floor) = (self.ballots[node], self.floor);
        self.asked.ask(node, async move {
            match core.may_vote(&request.claim, ballot).await {
                Ok(expects) => Ok(Reply::Voted(core.vote(&request, ballot, floor, expects).await?)),
                Err(error) => Ok(Reply::Unasked(error)),
            }
        });
    }

    /// Waits for answers until the outcome is clear. Other answers may then still be under way.
    pub(crate) async fn decide(&mut self) -> Outcome {
        loop {
            let answer = match self.later {
                Some((_, at)) => self.asked.next_until(at).await,
                None => self.asked.next().await,
            };
            match (answer, self.later) {
                (Some((node, reply)), _) => self.note(node, reply),
                (None, Some((nodes, _))) => {
                    self.later = None;
                    self.ask_rest();
                    nodes.iter().for_each(|node| self.ask(node));
                }
                (None, None) => self.close(),
            }
            if !self.rest.is_empty() && self.asked.open().is_empty() {
                if self.is_moving() {
                    self.withdraw();
                    return Outcome::Moving;
                }
                self.ask_rest();
            }
            if !self.asked.has_ready()
                && let Some(outcome) = self.outcome()
            {
                self.withdraw();
                return outcome;
            }
        }
    }

    fn ask_rest(&mut self) {
        std::mem::take(&mut self.rest).iter().for_each(|node| self.ask(node));
    }

    /// Whether the node that was asked first has voted for another claim, and not long ago. Then the lock moves on, and
    /// that claim will have the other nodes, too. If it has had that node for long, it may lack them.
    fn is_moving(&self) -> bool {
        let rivals = self.tally.rivals();
        let holder = rivals.first().and_then(|(_, holder)| *holder);
        let now = self.core.clock.now();
        holder.is_some_and(|holder| self.core.watched.is_new(&self.request.claim.key, holder, now))
    }

    /// Asks no more nodes: those that were not asked have no ballots to release.
    pub(crate) fn withdraw(&mut self) {
        let later = self.later.take().map(|(nodes, _)| nodes).unwrap_or_default();
        for node in std::mem::take(&mut self.rest).iter().chain(later.iter()) {
            self.core.claims.refused(&self.request.claim, self.ballots[node]);
        }
    }

    pub(crate) fn ballots(&self) -> &[Ballot] {
        &self.ballots
    }

    /// The nodes that have granted the claim.
    pub(crate) fn granted(&self) -> NodeSet {
        (0..self.grants.len()).filter(|&node| self.grants[node].is_some()).collect()
    }

    /// The nodes that will probably answer soon.
    pub(crate) fn open(&self) -> NodeSet {
        if self.asked.is_over() { NodeSet::default() } else { self.asked.open() }
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

    /// Too few nodes voted for the claim: the error says what the others answered.
    pub(crate) fn failure(&self) -> Error {
        self.asked.failure("voted for it", self.granted().len())
    }

    /// The highest token that any node gave.
    pub(crate) fn highest(&self) -> Option<FencingToken> {
        self.agreement.highest()
    }

    fn note(&mut self, node: usize, reply: Option<Reply>) {
        let answer = match reply {
            Some(Reply::Voted(Vote::Granted(grant))) => return self.granted_by(node, grant),
            Some(Reply::Voted(Vote::Busy { holder, retry_after })) => {
                self.busy(node, holder, retry_after)
            }
            Some(Reply::Voted(Vote::Abstains)) => self.out(node, self.core.abstains(node)),
            Some(Reply::Unasked(error)) => self.out(node, error),
            Some(Reply::Confirmed(token, true)) => {
                return self.agreement.confirm(node, token);
            }
            Some(Reply::Confirmed(_, false)) => {
                self.disagreed = true;
                self.agreement.refuse(node);
                Answer::Out
            }
            // An unknown kind of vote does not count.
            Some(Reply::Voted(_) | Reply::Released) => {
                self.asked.say(node, Error::new(ErrorKind::Protocol, "an unknown kind of vote"));
                Answer::Out
            }
            None => {
                self.agreement.refuse(node);
                Answer::Out
            }
        };
        self.tally.note(node, answer);
    }

    /// The node does not vote.
    fn out(&mut self, node: usize, error: Error) -> Answer {
        self.core.claims.refused(&self.request.claim, self.ballots[node]);
        self.asked.say(node, error);
        Answer::Out
    }

    /// The claim may have been released meanwhile.
    fn granted_by(&mut self, node: usize, mut grant: Grant) {
        grant.valid_until = self.core.dated(node, grant.valid_until);
        if self.core.heard(&self.request.claim, self.ballots[node]) {
            self.agreement.grant(node, grant.tokens);
            self.grants[node] = Some(grant);
            return self.tally.note(node, Answer::Granted);
        }
        self.asked.say(node, Error::new(ErrorKind::NotReady, "the claim was given up"));
        self.tally.note(node, Answer::Out);
    }

    fn busy(&mut self, node: usize, holder: Option<OwnerTag>, left: Option<Duration>) -> Answer {
        let claim = &self.request.claim;
        self.core.claims.refused(claim, self.ballots[node]);
        let now = self.core.clock.now();
        // The node is about to release an earlier ballot of this claim.
        let is_mine = holder == Some(claim.owner.tag());
        let left = if is_mine { Some(Duration::ZERO) } else { left };
        Answer::Busy { holder, free_at: left.map(|time| now + time) }
    }

    /// The time is over: a node that has not answered does not count.
    fn close(&mut self) {
        for node in self.asked.open().iter() {
            self.agreement.refuse(node);
            self.tally.note(node, Answer::Out);
        }
    }

    /// The outcome, if it is clear. Otherwise there are answers to wait for.
    fn outcome(&mut self) -> Option<Outcome> {
        match self.tally.verdict(self.asked.open()) {
            Verdict::Open => self.outcome_without(self.away),
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

    /// The outcome, if only nodes that are known to be away could still decide the vote. Waiting for these would only
    /// keep the votes in one another's way.
    fn outcome_without(&self, away: NodeSet) -> Option<Outcome> {
        let open = self.tally.open();
        if open.is_empty() || !open.without(away).is_empty() || self.later.is_some() {
            return None;
        }
        let mut tally = self.tally.clone();
        open.iter().for_each(|node| tally.note(node, Answer::Out));
        match tally.verdict(NodeSet::default()) {
            Verdict::Split { favourite } => Some(Outcome::Split { favourite }),
            // Another claim may lack the votes that this claim has.
            Verdict::Held if self.tally.granted().is_empty() => Some(Outcome::Held),
            _ => None,
        }
    }

    fn agree(&mut self) -> Option<Outcome> {
        let now = self.core.clock.now();
        if let Some(known) = self.known {
            // If the known lease has ended meanwhile, its nodes have granted another one.
            let is_alive = now < known.valid_until;
            let granted = || self.granted_until(known.tokens, self.tally.granted(), now);
            return Some(if is_alive { granted() } else { Outcome::TooLate });
        }
        match self.agreement.step(self.tally.open().len()) {
            Step::Wait => None,
            Step::Agreed(tokens, nodes) => Some(self.granted_until(tokens, nodes, now)),
            Step::Impossible => Some(Outcome::Disagreed),
            Step::Confirm(token, nodes) => {
                self.asked.extend();
                for node in nodes.iter() {
                    let core = Arc::clone(&self.core);
                    let claim = self.ballots[node].claim(&self.request.claim);
                    let confirm = core.confirm(node, claim, token);
                    self.asked
                        .ask(node, async move { Ok(Reply::Confirmed(token, confirm.await?)) });
                }
                None
            }
        }
    }

    /// The outcome of a grant by these nodes, at the time when the last answer that counts has come.
    fn granted_until(&self, tokens: TokenRange, nodes: NodeSet, now: Instant) -> Outcome {
        let deadlines =
            nodes.iter().filter_map(|node| Some((node, self.grants[node].as_ref()?.valid_until)));
        let deadlines: Vec<_> = deadlines.collect();
        match validity::until(&deadlines, self.core.quorum.needed()) {
            Some((valid_until, nodes)) if valid_until > now => {
                Outcome::Granted(Held { tokens, valid_until, nodes })
            }
            _ => Outcome::TooLate,
        }
    }
}

/// Follows the votes that are still to come: a vote for a ballot that does not stand any more is released.
impl<N: QuorumNode> Drop for Round<N> {
    fn drop(&mut self) {
        self.withdraw();
        if self.asked.open().is_empty() {
            return;
        }
        let asked = std::mem::replace(&mut self.asked, Asked::new(&self.core, Duration::ZERO));
        let (core, claim) = (Arc::clone(&self.core), self.request.claim.clone());
        let ballots = std::mem::take(&mut self.ballots);
        asked.finish(move |asked, node, reply| follow(&core, &claim, ballots[node], asked, reply));
    }
}

fn follow<N: QuorumNode>(
    core: &Arc<Core<N>>,
    claim: &Claim,
    ballot: Ballot,
    asked: &mut Asked<N, Reply>,
    reply: Option<Reply>,
) {
    match reply {
        Some(Reply::Voted(Vote::Granted(_))) => {
            if !core.claims.heard(claim, ballot, core.clock.now()) {
                // On the connection of the vote, if it is still there.
                let release = Arc::clone(core).release(Owed::new(core, claim, ballot));
                asked.ask(ballot.node, async move { release.await.map(|_| Reply::Released) });
            }
        }
        Some(Reply::Voted(_) | Reply::Unasked(_)) => core.claims.refused(claim, ballot),
        Some(Reply::Confirmed(..) | Reply::Released) => {}
        None => drop(core.heard(claim, ballot)),
    }
}

/// Every node that counts for a token has to know the token, even if it votes for the lease only now.
fn floor_over(known: Option<Held>, floor: FencingToken) -> FencingToken {
    known.map_or(floor, |known| floor.max(known.tokens.last()))
}

fn away<N: QuorumNode>(core: &Core<N>) -> NodeSet {
    (0..core.quorum.nodes()).filter(|&node| core.nodes[node].is_away()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of the client may have been set back since.
    #[test]
    fn a_node_that_votes_later_is_asked_for_no_lower_token() {
        let [low, high] = [3, 9].map(FencingToken::new);
        let held = |token| {
            let tokens = TokenRange::single(token);
            Some(Held { tokens, valid_until: Instant::FAR_FUTURE, nodes: NodeSet::default() })
        };
        assert_eq!(floor_over(held(high), low), high);
        assert_eq!(floor_over(held(low), high), high);
        assert_eq!(floor_over(None, low), low);
    }
}
