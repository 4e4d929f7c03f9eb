//! The state that all handles of a quorum share, and the requests to single nodes.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::join;
use lock_core::{Acquire, Clock, Error, ErrorKind, FencingToken, Instant, QuorumNode};
use lock_core::{Renew, Renewal, Standing, Terms, Ttl, Vote};
use tokio::sync::mpsc;

use crate::agenda::Duty;
use crate::asked::{Asked, late};
use crate::background::{Background, within};
use crate::ballot::Ballot;
use crate::catching_up::Owed;
use crate::claims::Claims;
use crate::later::Later;
use crate::node::Node;
use crate::quorum::{NodeSet, Quorum};
use crate::register::{LOOK, Register};
use crate::watched::Watched;

/// The nodes, and what this process knows about the nodes and its claims.
pub(crate) struct Core<N> {
    pub(crate) nodes: Box<[Node<N>]>,
    pub(crate) quorum: Quorum,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) claims: Arc<Claims>,
    pub(crate) watched: Arc<Watched>,
    /// The leases for which more nodes vote later.
    pub(crate) later: mpsc::UnboundedSender<Later<N>>,
    pub(crate) register: Register,
    pub(crate) background: Background,
    /// The standing that this client expects of the nodes.
    pub(crate) terms: Terms,
    /// Whether the log has said what to do if too few nodes vote.
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

    /// How long a node usually may take to answer a request about a lease of this length: a tenth of the lease.
    pub(crate) fn limit(&self, ttl: Ttl) -> Duration {
        let (shortest, longest) = Self::LIMITS;
        self.node_timeout.unwrap_or((ttl.duration() / 10).clamp(shortest, longest))
    }

    /// How long a node usually may take to answer any other request.
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
        Err(invalid(message))
    }
}

pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

impl<N: QuorumNode> Core<N> {
    /// How long the slowest node may take to answer. `usual` is the limit of a node without a limit of its own.
    pub(crate) fn longest(&self, usual: Duration) -> Duration {
        self.nodes.iter().map(|node| node.limit(usual)).max().unwrap_or(usual)
    }

    /// How long a quorum takes to answer.
    pub(crate) fn trip(&self) -> Duration {
        let trips = self.nodes.iter().filter_map(|node| node.pace.lock().trip());
        let mut trips: Vec<_> = trips.collect();
        trips.sort_unstable();
        trips.get(self.quorum.needed() - 1).or(trips.last()).copied().unwrap_or_default()
    }

    /// The nodes that may stay silent, or not vote.
    pub(crate) fn away(&self) -> NodeSet {
        self.quorum.all().iter().filter(|&node| self.nodes[node].is_away()).collect()
    }

    /// Sends one request without a lease to several nodes.
    pub(crate) fn ask<T, F>(
        self: &Arc<Self>,
        nodes: NodeSet,
        request: impl Fn(Arc<Self>, usize) -> F,
    ) -> Asked<N, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut asked = Asked::new(self, self.settings.patience());
        for node in nodes.iter() {
            asked.ask(node, request(Arc::clone(self), node));
        }
        asked
    }

    /// Waits for the answer of a node, until its time limit. `usual` is the limit of a node without a limit of its own.
    pub(crate) async fn in_time<T>(
        &self,
        node: usize,
        usual: Duration,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = self.nodes[node].limit(usual);
        let answer = within(&self.background, self.clock, limit, answer).await;
        answer.unwrap_or_else(|| Err(late(limit)))
    }

    /// As [`vote_at_last`](Self::vote_at_last), unless the node is far behind.
    pub(crate) async fn vote(
        self: Arc<Self>,
        request: Arc<Acquire>,
        ballot: Ballot,
        floor: FencingToken,
    ) -> Result<Vote, Error> {
        self.nodes[ballot.node].check_votes()?;
        self.vote_at_last(request, ballot, floor).await
    }

    /// Asks a node for its vote, by this ballot. If the ballot was given up when the vote comes, releases the vote. If
    /// there is no answer, or the future is dropped, the ballot stays, or its release is due.
    ///
    /// # Errors
    ///
    /// Also if the node cannot be asked, or the claim was given up.
    pub(crate) async fn vote_at_last(
        self: Arc<Self>,
        request: Arc<Acquire>,
        ballot: Ballot,
        floor: FencingToken,
    ) -> Result<Vote, Error> {
        let (node, claim) = (ballot.node, &request.claim);
        let expects = self.identify(node).await?;
        self.claims.note_request(claim, ballot, self.clock.now())?;
        let owed = Owed::new(&self, claim, ballot, Duty::Vote);
        let mut asked = (*request).clone();
        asked.claim = ballot.claim(claim);
        let asked = lock_core::Ballot::new(asked, floor);
        let mut vote = self.cast(node, asked.clone(), expects.as_ref()).await?;
        if vote == Vote::Abstains && expects.is_some() {
            // The node does not have the expected standing any more.
            self.register.forget(node);
            let expects = self.identify(node).await?;
            if expects.is_some() && self.claims.wants(claim, ballot, self.clock.now()) {
                vote = self.cast(node, asked, expects.as_ref()).await?;
            }
        }
        match &mut vote {
            Vote::Granted(grant) => {
                grant.valid_until = self.dated(node, grant.valid_until);
                if !self.claims.heard(claim, ballot, self.clock.now()) {
                    // No claim wants this vote, and the vote keeps other claims out.
                    owed.release().await?;
                    return Err(Error::new(ErrorKind::NotReady, "the claim was given up"));
                }
            }
            Vote::Busy { .. } | Vote::Abstains => self.claims.refused(claim, ballot),
            _ => return Err(Error::new(ErrorKind::Protocol, "an unknown kind of vote")),
        }
        owed.answered();
        Ok(vote)
    }

    /// Asks a node for its vote, if it has the expected standing. A node in quarantine abstains.
    async fn cast(
        &self,
        node: usize,
        ballot: lock_core::Ballot,
        expects: Option<&Arc<Standing>>,
    ) -> Result<Vote, Error> {
        let ballot = match expects {
            Some(standing) if standing.max_ttl.is_none() => return Ok(Vote::Abstains),
            Some(standing) => ballot.expecting(Arc::clone(standing)),
            None => ballot,
        };
        let sent = self.clock.now();
        let vote = self.nodes[node].vote(self.clock, ballot).await;
        match &vote {
            Ok(Vote::Granted(_) | Vote::Busy { .. }) if expects.is_some() => {
                self.register.saw_member(node, sent);
                self.nodes[node].state(|state| state.lookout.clear());
            }
            // Another client has vouched for the node, but only for shorter leases.
            Err(error) if error.kind() == ErrorKind::InvalidConfig => self.register.forget(node),
            _ => {}
        }
        self.noted(node, "vote", vote)
    }

    /// Asks a node to renew this ballot of a claim. A node that has lost the ballot votes again soon, if the lease is
    /// still held then.
    pub(crate) async fn renew(
        self: Arc<Self>,
        ballot: Ballot,
        request: Renew,
    ) -> Result<Renewal, Error> {
        let (node, claim) = (ballot.node, request.claim.clone());
        self.nodes[node].check_answers()?;
        let mut request = request;
        request.claim = ballot.claim(&claim);
        let renewed = self.nodes[node].renew(self.clock, request);
        let (answer, member) = join(renewed, self.stays_member(node, LOOK / 2)).await;
        let answer = match answer {
            Renewal::Unknown(error) => Err(error),
            known => Ok(known),
        };
        let answer = self.noted(node, "renew", answer)?;
        // A node that is not a member any more may have voted for another client meanwhile.
        member?;
        self.stays_member(node, LOOK).await?;
        if matches!(answer, Renewal::Lost) {
            self.claims.lost(&claim, ballot);
            self.plant_soon(&claim);
        } else {
            self.claims.renewed(&claim, ballot);
        }
        Ok(answer)
    }

    /// The deadline of a lease at a node, on the clock of the quorum: the nodes may date their leases on other clocks.
    pub(crate) fn dated(&self, node: usize, valid_until: Instant) -> Instant {
        let clock = self.nodes[node].backend.clock();
        if clock == self.clock {
            return valid_until;
        }
        // In this order, so that an error makes the deadline too early and not too late.
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

    /// Notes an answer. After a connection has broken, the next connection may lead to another
    /// server.
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
