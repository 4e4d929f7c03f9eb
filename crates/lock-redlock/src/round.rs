//! One round: every node is asked for its vote once, unless an earlier round has its vote.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Error, ErrorKind, FencingToken, Grant, Instant, OwnerTag};
use lock_core::{QuorumNode, TokenRange, Vote};

use crate::asked::{Asked, late};
use crate::ballot::Ballot;
use crate::claims::Held;
use crate::inner::Core;
use crate::quorum::NodeSet;
use crate::tally::{Answer, Tally, Verdict};
use crate::tokens::{Agreement, Step};
use crate::validity;

/// What a node answers in a round.
pub(crate) enum Reply {
    Voted(Vote),
    Confirmed(FencingToken, bool),
}

/// What a round came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A quorum has granted the claim, agrees on its tokens, and the lease is not over.
    Granted(Held),
    /// A quorum has granted it, but it was over when the last answer came.
    TooLate,
    /// A quorum has granted it, but does not agree on its tokens.
    Disagreed,
    Held,
    Split {
        favourite: bool,
    },
    /// Too few voted.
    Unable(Error),
}

/// What the nodes said, and what is still under way.
pub(crate) struct Round<N> {
    core: Arc<Core<N>>,
    request: Arc<Acquire>,
    ballots: Vec<Ballot>,
    tally: Tally,
    agreement: Agreement,
    /// This very lease, if it was granted before.
    known: Option<Held>,
    grants: Vec<Option<Grant>>,
    said: Vec<Option<Error>>,
    /// Whether a node would not confirm a token.
    disagreed: bool,
}

impl<N: QuorumNode> Round<N> {
    /// Asks the nodes by these ballots, but for those that have granted theirs in an earlier round. The requests are
    /// sent when the answers are [waited for](Self::decide).
    pub(crate) fn begin(
        core: &Arc<Core<N>>,
        request: &Arc<Acquire>,
        ballots: Vec<Ballot>,
        kept: Vec<Option<Grant>>,
        floor: FencingToken,
    ) -> (Self, Asked<N, Reply>) {
        let known = core.claims.held(&request.claim, core.clock.now());
        // Every node that counts for a token has to know the token, also a node that votes for the lease only now.
        let floor = known.map_or(floor, |known| floor.max(known.tokens.last()));
        let mut asked = Asked::new(core, core.settings.limit(request.ttl));
        for ballot in ballots.iter().filter(|ballot| kept[ballot.node].is_none()) {
            let vote = Arc::clone(core).vote(Arc::clone(request), *ballot, floor);
            asked.ask(ballot.node, async move { Ok(Reply::Voted(vote.await?)) });
        }
        let mut round = Self::new(core, request, ballots, known);
        for (node, grant) in kept.into_iter().enumerate() {
            if let Some(grant) = grant {
                round.grant(node, grant);
            }
        }
        (round, asked)
    }

    /// Waits for answers until it is clear what they come to. Others may then be still under way.
    pub(crate) async fn decide(&mut self, asked: &mut Asked<N, Reply>) -> Outcome {
        loop {
            match asked.answers().await {
                Some(batch) => {
                    batch.into_iter().for_each(|(node, reply)| self.note(node, reply));
                }
                None => self.close(asked),
            }
            if let Some(outcome) = self.outcome(asked) {
                return outcome;
            }
        }
    }

    fn new(
        core: &Arc<Core<N>>,
        request: &Arc<Acquire>,
        ballots: Vec<Ballot>,
        known: Option<Held>,
    ) -> Self {
        let nodes = core.quorum.nodes();
        Self {
            core: Arc::clone(core),
            request: Arc::clone(request),
            ballots,
            tally: Tally::new(core.quorum, request.claim.owner.tag()),
            agreement: Agreement::new(core.quorum, request.tokens),
            known,
            grants: vec![None; nodes],
            said: vec![None; nodes],
            disagreed: false,
        }
    }

    pub(crate) fn ballots(&self) -> &[Ballot] {
        &self.ballots
    }

    /// The votes that are there, for another round.
    pub(crate) fn grants(&self) -> &[Option<Grant>] {
        &self.grants
    }

    /// Those that have granted it.
    pub(crate) fn granted(&self) -> NodeSet {
        (0..self.grants.len()).filter(|&node| self.grants[node].is_some()).collect()
    }

    /// After what time a quorum may be free.
    pub(crate) fn free_in(&self) -> Option<Duration> {
        let now = self.core.clock.now();
        self.tally.free_at(now).map(|at| at.saturating_duration_since(now))
    }

    /// The nodes whose vote another has.
    pub(crate) fn rivals(&self) -> Vec<(usize, Option<OwnerTag>)> {
        self.tally.rivals()
    }

    /// Too few voted for it: what the others said.
    pub(crate) fn failure(&self) -> Error {
        self.core.failure("voted for it", self.granted().len(), &self.said)
    }

    /// The highest token that any node gave.
    pub(crate) fn highest(&self) -> Option<FencingToken> {
        self.agreement.highest()
    }

    fn note(&mut self, node: usize, reply: Result<Reply, Error>) {
        let answer = match reply {
            Ok(Reply::Voted(Vote::Granted(grant))) => return self.granted_by(node, grant),
            Ok(Reply::Voted(Vote::Busy { holder, retry_after })) => {
                self.busy(node, holder, retry_after)
            }
            Ok(Reply::Voted(Vote::Abstains(_))) => {
                self.core.claims.refused(&self.request.claim, self.ballots[node]);
                self.said[node] = Some(self.core.abstains(node));
                Answer::Out
            }
            Ok(Reply::Confirmed(token, true)) => {
                self.agreement.confirm(node, token);
                return;
            }
            Ok(Reply::Confirmed(_, false)) => {
                self.disagreed = true;
                self.agreement.refuse(node);
                Answer::Out
            }
            Err(error) => {
                self.agreement.refuse(node);
                self.said[node] = Some(error);
                Answer::Out
            }
            // A kind of vote that this version does not know is none.
            Ok(Reply::Voted(_)) => {
                self.said[node] = Some(Error::new(ErrorKind::Protocol, "an unknown kind of vote"));
                Answer::Out
            }
        };
        self.tally.note(node, answer);
    }

    /// A ballot may have been given up by another request for the claim.
    fn granted_by(&mut self, node: usize, grant: Grant) {
        if self.core.heard(&self.request.claim, self.ballots[node]) {
            return self.grant(node, grant);
        }
        self.said[node] = Some(Error::new(ErrorKind::NotReady, "the claim was given up"));
        self.tally.note(node, Answer::Out);
    }

    fn grant(&mut self, node: usize, grant: Grant) {
        self.agreement.grant(node, grant.tokens);
        self.grants[node] = Some(grant);
        self.tally.note(node, Answer::Granted);
    }

    fn busy(&mut self, node: usize, holder: Option<OwnerTag>, left: Option<Duration>) -> Answer {
        let claim = &self.request.claim;
        self.core.claims.refused(claim, self.ballots[node]);
        if holder == Some(claim.owner.tag()) {
            let message = "it has not released an earlier ballot of this claim";
            self.said[node] = Some(Error::new(ErrorKind::NotReady, message));
            return Answer::Out;
        }
        let now = self.core.clock.now();
        Answer::Busy { holder, free_at: left.map(|time| now + time) }
    }

    /// The time is over: a node that has not answered does not count.
    fn close(&mut self, asked: &Asked<N, Reply>) {
        for node in asked.open().iter() {
            self.agreement.refuse(node);
            self.said[node] = Some(late(asked.limit()));
            self.tally.note(node, Answer::Out);
        }
    }

    /// What it comes to, if that is clear. Else there is something to wait for.
    fn outcome(&mut self, asked: &mut Asked<N, Reply>) -> Option<Outcome> {
        match self.tally.verdict() {
            Verdict::Open => None,
            Verdict::Won => self.agree(asked),
            _ if self.disagreed => Some(Outcome::Disagreed),
            Verdict::Held => Some(Outcome::Held),
            Verdict::Split { favourite } => Some(Outcome::Split { favourite }),
            Verdict::Unable => {
                let voted = self.tally.granted().len() + self.tally.rivals().len();
                for node in asked.open().iter() {
                    let none = || Error::new(ErrorKind::Timeout, "no answer yet");
                    self.said[node].get_or_insert_with(none);
                }
                Some(Outcome::Unable(self.core.failure("voted", voted, &self.said)))
            }
        }
    }

    fn agree(&mut self, asked: &mut Asked<N, Reply>) -> Option<Outcome> {
        let now = self.core.clock.now();
        if let Some(known) = self.known {
            // A lease that ends meanwhile is not the one that its nodes grant now.
            let is_alive = now < known.valid_until;
            let granted = || self.granted_until(known.tokens, self.tally.granted(), now);
            return Some(if is_alive { granted() } else { Outcome::TooLate });
        }
        match self.agreement.step(self.tally.open().len()) {
            Step::Wait => None,
            Step::Agreed(tokens, nodes) => Some(self.granted_until(tokens, nodes, now)),
            Step::Impossible => Some(Outcome::Disagreed),
            Step::Confirm(token, nodes) => {
                asked.extend();
                for node in nodes.iter() {
                    let core = Arc::clone(&self.core);
                    let claim = self.ballots[node].claim(&self.request.claim);
                    let confirm = core.confirm(node, claim, token);
                    asked.ask(node, async move { Ok(Reply::Confirmed(token, confirm.await?)) });
                }
                None
            }
        }
    }

    /// Granted by these nodes. Looked at now, when the last answer that counts has come.
    fn granted_until(&self, tokens: TokenRange, nodes: NodeSet, now: Instant) -> Outcome {
        let deadlines =
            nodes.iter().filter_map(|node| Some((node, self.grants[node]?.valid_until)));
        let deadlines: Vec<_> = deadlines.collect();
        match validity::until(&deadlines, self.core.quorum.needed()) {
            Some((valid_until, nodes)) if valid_until > now => {
                Outcome::Granted(Held { tokens, valid_until, nodes })
            }
            _ => Outcome::TooLate,
        }
    }
}
