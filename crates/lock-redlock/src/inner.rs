//! The state that all handles of a quorum share, and their requests to single nodes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::join;
use lock_core::{Acquire, Claim, Clock, Error, ErrorKind, FencingToken, Instant, QuorumNode};
use lock_core::{Released, Renew, Renewal, Standing, Terms, Ttl, Vote};

use crate::actor::{Owed, is_final};
use crate::asked::Asked;
use crate::background::Background;
use crate::ballot::Ballot;
use crate::claims::Claims;
use crate::floors::Floors;
use crate::later::Later;
use crate::node::Node;
use crate::quorum::Quorum;
use crate::register::{LOOK, Register};
use crate::watched::Watched;

/// The nodes, and what is known about them and about the claims of this process.
pub(crate) struct Core<N> {
    pub(crate) nodes: Box<[Node<N>]>,
    pub(crate) quorum: Quorum,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) claims: Arc<Claims>,
    pub(crate) watched: Arc<Watched>,
    pub(crate) floors: Floors,
    pub(crate) later: Later,
    pub(crate) register: Register,
    pub(crate) background: Background,
    /// What this client expects of the nodes.
    pub(crate) terms: Terms,
    /// Whether the log says what to do if too few nodes vote.
    pub(crate) has_advised: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long a node may take to answer. `None` for a time that fits the lease.
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) max_ttl: Ttl,
    pub(crate) quarantine: bool,
}

impl Settings {
    /// The shortest and the longest default time for an answer.
    const LIMITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

    /// How long a node usually may take to answer a request about a lease of this length: a tenth of it.
    pub(crate) fn limit(&self, ttl: Ttl) -> Duration {
        let (shortest, longest) = Self::LIMITS;
        self.node_timeout.unwrap_or((ttl.duration() / 10).clamp(shortest, longest))
    }

    /// How long a node usually may take to answer a request that is not about a lease of known length.
    pub(crate) fn patience(&self) -> Duration {
        self.node_timeout.unwrap_or(Self::LIMITS.1)
    }

    /// Refuses a lease that could outlive a quarantine.
    pub(crate) fn check(&self, ttl: Ttl) -> Result<(), Error> {
        if ttl <= self.max_ttl {
            return Ok(());
        }
        let (ttl, max) = (ttl.duration(), self.max_ttl.duration());
        let message = format!(
            "a lease of {ttl:?} is longer than the {max:?} after which a node that has forgotten its \
             leases votes again: see Builder::max_ttl"
        );
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }
}

impl<N: QuorumNode> Core<N> {
    /// How long the slowest node may take to answer, where the nodes of the quorum have this limit.
    pub(crate) fn longest(&self, usual: Duration) -> Duration {
        self.nodes.iter().map(|node| node.limit(usual)).max().unwrap_or(usual)
    }

    /// Sends one request to several nodes.
    pub(crate) fn ask<T, F>(
        self: &Arc<Self>,
        nodes: impl IntoIterator<Item = usize>,
        limit: Duration,
        request: impl Fn(Arc<Self>, usize) -> F,
    ) -> Asked<N, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut asked = Asked::new(self, limit);
        for node in nodes {
            asked.ask(node, request(Arc::clone(self), node));
        }
        asked
    }

    /// Prepares a request for the vote of a node. Returns the standing that the ballot has to name, if any.
    ///
    /// # Errors
    ///
    /// If the node cannot be asked, or the ballot does not stand any more when the node could be asked.
    pub(crate) async fn may_vote(
        self: &Arc<Self>,
        claim: &Claim,
        ballot: Ballot,
    ) -> Result<Option<Arc<Standing>>, Error> {
        self.nodes[ballot.node].check_votes()?;
        let expects = self.identify(ballot.node).await?;
        self.check_stands(claim, ballot)?;
        Ok(expects)
    }

    fn check_stands(&self, claim: &Claim, ballot: Ballot) -> Result<(), Error> {
        if self.claims.stands(claim, ballot, self.clock.now()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotReady, "not asked: the claim was given up"))
    }

    /// Asks a node for its vote, by this ballot. If the node does not have the expected standing any more, it is asked
    /// for its standing, and once more for its vote.
    pub(crate) async fn vote(
        self: &Arc<Self>,
        request: &Acquire,
        ballot: Ballot,
        floor: FencingToken,
        expects: Option<Arc<Standing>>,
    ) -> Result<Vote, Error> {
        let node = ballot.node;
        let mut asked = request.clone();
        asked.claim = ballot.claim(&request.claim);
        let asked = lock_core::Ballot::new(asked, floor);
        let Some(known) = expects else {
            let vote = self.nodes[node].vote(self.clock, asked).await;
            return self.noted(node, "vote", vote);
        };
        if known.max_ttl.is_some() {
            let vote = self.vote_as(node, asked.clone().expecting(known)).await?;
            if vote != Vote::Abstains {
                return Ok(vote);
            }
        }
        self.register.forget(node);
        let Some(standing) = self.identify(node).await? else { return Ok(Vote::Abstains) };
        self.check_stands(&request.claim, ballot)?;
        if standing.max_ttl.is_none() {
            return Ok(Vote::Abstains);
        }
        self.vote_as(node, asked.expecting(standing)).await
    }

    /// Asks a node for its vote if it has the expected standing.
    async fn vote_as(
        self: &Arc<Self>,
        node: usize,
        ballot: lock_core::Ballot,
    ) -> Result<Vote, Error> {
        let sent = self.clock.now();
        let vote = self.nodes[node].vote(self.clock, ballot).await;
        match &vote {
            Ok(Vote::Granted(_) | Vote::Busy { .. }) => {
                self.register.saw_member(node, sent);
                self.nodes[node].state(|state| state.lookout.clear());
            }
            // Another client has vouched for the node, but only for shorter leases than this one.
            Err(error) if error.kind() == ErrorKind::InvalidConfig => self.register.forget(node),
            _ => {}
        }
        self.noted(node, "vote", vote)
    }

    /// Has a node confirm a token to a claim as the node knows it.
    pub(crate) async fn confirm(
        self: Arc<Self>,
        node: usize,
        claim: Claim,
        token: FencingToken,
    ) -> Result<bool, Error> {
        let answer = self.nodes[node].timed(self.clock, |it| it.confirm(&claim, token)).await;
        self.noted(node, "confirm", answer)
    }

    /// Asks a node to renew a claim as the node knows it.
    pub(crate) async fn renew(
        self: Arc<Self>,
        node: usize,
        request: Renew,
    ) -> Result<Renewal, Error> {
        self.nodes[node].check_answers()?;
        let renewed = self.nodes[node].renew(self.clock, request);
        let (answer, member) = join(renewed, self.stays_member(node, LOOK / 2)).await;
        let answer = match answer {
            Renewal::Unknown(error) => Err(error),
            known => Ok(known),
        };
        let answer = self.noted(node, "renew", answer)?;
        // A node that is not a member any more may have voted for another client since.
        member?;
        self.stays_member(node, LOOK).await?;
        Ok(answer)
    }

    /// Releases a dead ballot. If the future is dropped or fails, the release is still owed.
    pub(crate) async fn release(self: Arc<Self>, owed: Owed<N>) -> Result<Released, Error> {
        let number = owed.node();
        self.nodes[number].check_answers()?;
        let answer = self.nodes[number].backend.release(&owed.released()).await;
        if is_final(&answer) {
            owed.settle();
        }
        self.noted(number, "release", answer)
    }

    /// The deadline of a lease at a node, on the clock of the quorum: the nodes may date their leases on other clocks.
    pub(crate) fn dated(&self, node: usize, valid_until: Instant) -> Instant {
        let clock = self.nodes[node].backend.clock();
        if clock == self.clock {
            return valid_until;
        }
        // In this order, so that the deadline is rather too early.
        let now = self.clock.now();
        now + valid_until.saturating_duration_since(clock.now())
    }

    /// Makes a request to a node, and notes the answer.
    pub(crate) async fn call<'a, T, F>(
        &'a self,
        node: usize,
        verb: &str,
        request: impl FnOnce(&'a N) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let answer = request(&self.nodes[node].backend).await;
        self.noted(node, verb, answer)
    }

    /// Notes an answer. After a connection has broken, the next one may lead to another server.
    pub(crate) fn noted<T>(
        &self,
        node: usize,
        verb: &str,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unreachable) {
            self.register.forget(node);
        }
        self.nodes[node].noted(verb, answer)
    }
}
