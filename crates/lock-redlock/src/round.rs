//! One round: every node is asked for its vote once.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Error, ErrorKind, FencingToken, Grant, Instant, OwnerTag};
use lock_core::{QuorumNode, TokenRange, Vote};

use crate::asked::{Asked, late};
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

/// Whether a node may have granted the claim, if this is the last that was heard of it.
pub(crate) fn may_hold(reply: &Result<Reply, Error>) -> bool {
    match reply {
        Ok(Reply::Voted(vote)) => matches!(vote, Vote::Granted(_)),
        Ok(Reply::Confirmed(..)) => false,
        Err(_) => true,
    }
}

/// What a round came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A quorum has granted the claim, agrees on its tokens, and the lease is not over.
    Granted {
        tokens: TokenRange,
        valid_until: Instant,
        /// A quorum that holds until then.
        nodes: NodeSet,
    },
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
    tally: Tally,
    agreement: Agreement,
    /// The tokens of this very lease, if they are known, and until when they certainly are its own.
    known: Option<(TokenRange, Instant)>,
    grants: Vec<Option<Grant>>,
    said: Vec<Option<Error>>,
    /// Whether a node would not confirm a token.
    disagreed: bool,
}

impl<N: QuorumNode> Round<N> {
    /// Asks all nodes. The requests are sent when the answers are [waited for](Self::decide).
    pub(crate) fn begin(
        core: &Arc<Core<N>>,
        request: &Arc<Acquire>,
        floor: FencingToken,
        known: Option<(TokenRange, Instant)>,
    ) -> (Self, Asked<N, Reply>) {
        let limit = core.settings.limit(request.ttl);
        let asked = core.ask(0..core.quorum.nodes(), limit, |core, node| {
            let vote = core.vote(node, Arc::clone(request), floor);
            async move { Ok(Reply::Voted(vote.await?)) }
        });
        (Self::new(core, request, known), asked)
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
        known: Option<(TokenRange, Instant)>,
    ) -> Self {
        let nodes = core.quorum.nodes();
        Self {
            core: Arc::clone(core),
            request: Arc::clone(request),
            tally: Tally::new(core.quorum, request.claim.owner.tag()),
            agreement: Agreement::new(core.quorum, request.tokens),
            known,
            grants: vec![None; nodes],
            said: vec![None; nodes],
            disagreed: false,
        }
    }

    /// The nodes that may hold the claim, but for those that have not answered.
    pub(crate) fn may_hold(&self) -> NodeSet {
        let nodes = 0..self.grants.len();
        let may = |&node: &usize| {
            let is_unclear = self.said[node].as_ref().is_some_and(is_unclear);
            self.grants[node].is_some() || is_unclear
        };
        nodes.filter(may).collect()
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
            Ok(Reply::Voted(Vote::Granted(grant))) => {
                self.agreement.grant(node, grant.tokens);
                self.grants[node] = Some(grant);
                Answer::Granted
            }
            Ok(Reply::Voted(Vote::Busy { holder, retry_after })) => {
                let now = self.core.clock.now();
                Answer::Busy { holder, free_at: retry_after.map(|time| now + time) }
            }
            Ok(Reply::Voted(Vote::Abstains(_))) => {
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

    /// The time is over: whoever has not answered does not count.
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
        if let Some((tokens, until)) = self.known
            && now < until
        {
            return Some(self.granted_until(tokens, self.tally.granted(), now));
        }
        match self.agreement.step(self.tally.open().len()) {
            Step::Wait => None,
            Step::Agreed(tokens, nodes) => Some(self.granted_until(tokens, nodes, now)),
            Step::Impossible => Some(Outcome::Disagreed),
            Step::Confirm(token, nodes) => {
                asked.extend();
                for node in nodes.iter() {
                    let core = Arc::clone(&self.core);
                    let confirm = core.confirm(node, self.request.claim.clone(), token);
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
                Outcome::Granted { tokens, valid_until, nodes }
            }
            _ => Outcome::TooLate,
        }
    }
}

/// Whether a request that failed like this may have taken effect.
fn is_unclear(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::InvalidKey
            | ErrorKind::InvalidTtl
            | ErrorKind::InvalidConfig
            | ErrorKind::Unsupported
            | ErrorKind::NotHeld
            | ErrorKind::Denied
    )
}
