//! What all handles of a quorum share, and what they ask single nodes.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Ballot, Claim, Clock, Error, ErrorKind, FencingToken, QuorumNode};
use lock_core::{Released, Renew, Renewal, Ttl, Vote};

use crate::asked::Asked;
use crate::background::Background;
use crate::claims::Claims;
use crate::moves::Moves;
use crate::node::Node;
use crate::owed::Owed;
use crate::quorum::Quorum;
use crate::register::Register;

/// The nodes, and what is known about them and about the claims of this process.
pub(crate) struct Core<N> {
    pub(crate) nodes: Box<[Node<N>]>,
    pub(crate) quorum: Quorum,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) claims: Arc<Claims>,
    pub(crate) moves: Moves,
    pub(crate) register: Register,
    pub(crate) background: Background,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long a node may take to answer; `None` for what fits the lease.
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) max_ttl: Ttl,
    pub(crate) quarantine: bool,
}

impl Settings {
    /// The longest and the shortest time that a node has to answer, unless it was said.
    const LIMITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

    /// How long a node may take to answer a request about a lease of this length: a tenth of it.
    pub(crate) fn limit(&self, ttl: Ttl) -> Duration {
        let (shortest, longest) = Self::LIMITS;
        self.node_timeout.unwrap_or((ttl.duration() / 10).clamp(shortest, longest))
    }

    /// How long it may take to answer a request that is not about a lease of known length.
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
    /// Asks several nodes the same.
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

    /// Asks a node for its vote, once it has answered every release of the same claim.
    ///
    /// # Errors
    ///
    /// Also if nobody holds or wants the claim any more when the node could be asked.
    pub(crate) async fn vote(
        self: Arc<Self>,
        node: usize,
        request: Arc<Acquire>,
        floor: FencingToken,
    ) -> Result<Vote, Error> {
        self.nodes[node].check_answers()?;
        self.settled(&request.claim, node).await?;
        let mut ballot = Ballot::new(Acquire::clone(&request), floor);
        if self.identify(node).await? {
            ballot = ballot.guarded();
        }
        if !self.claims.is_wanted(&request.claim, self.clock.now()) {
            return Err(Error::new(ErrorKind::NotReady, "not asked: nobody wants it any more"));
        }
        let vote = self.nodes[node].timed(self.clock, |backend| backend.vote(&ballot)).await;
        match &vote {
            // A node that forgot may be another server than before.
            Ok(Vote::Abstains(quarantine)) if self.keep(node, quarantine) => {
                self.register.forget(node);
            }
            Ok(Vote::Granted(_) | Vote::Busy { .. }) if ballot.guarded => {
                self.nodes[node].state().lookout.clear();
            }
            // So long a lease was not vouched for: somebody else has done it, for shorter ones.
            Err(error) if error.kind() == ErrorKind::InvalidConfig => self.register.forget(node),
            _ => {}
        }
        self.noted(node, "vote", vote)
    }

    /// Waits until a node has answered every release of a claim: one that comes after an answer which counts
    /// would end what that says.
    ///
    /// # Errors
    ///
    /// If the node should have answered by now.
    async fn settled(&self, claim: &Claim, node: usize) -> Result<(), Error> {
        self.claims.settled(claim, node).await.map_err(|_stuck| {
            self.nodes[node].debts.hurry();
            self.nodes[node].unheard()
        })
    }

    pub(crate) async fn confirm(
        self: Arc<Self>,
        node: usize,
        claim: Claim,
        token: FencingToken,
    ) -> Result<bool, Error> {
        let answer = self.nodes[node].timed(self.clock, |it| it.confirm(&claim, token)).await;
        self.noted(node, "confirm", answer)
    }

    /// Asks a node to renew, once it has answered every release of the same claim.
    pub(crate) async fn renew(
        self: Arc<Self>,
        node: usize,
        request: Renew,
    ) -> Result<Renewal, Error> {
        self.nodes[node].check_answers()?;
        self.settled(&request.claim, node).await?;
        let answer = match self.nodes[node].timed(self.clock, |it| it.renew(&request)).await {
            Renewal::Unknown(error) => Err(error),
            known => Ok(known),
        };
        self.noted(node, "renew", answer)
    }

    /// Releases what it is owed to release. If this is dropped, or fails, it is still owed.
    pub(crate) async fn release(self: Arc<Self>, owed: Owed<N>) -> Result<Released, Error> {
        let number = owed.node();
        self.nodes[number].check_answers()?;
        let answer = self.nodes[number].backend.release(owed.claim()).await;
        let node_is_done = answer.as_ref().map_or_else(|error| !error.is_retryable(), |_| true);
        if node_is_done {
            owed.settle();
        }
        self.noted(number, "release", answer)
    }

    /// Notes an answer. Behind a connection that broke there may be another server next time.
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
