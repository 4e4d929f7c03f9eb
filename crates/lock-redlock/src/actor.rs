//! Bringing each node up to date in the background.
//!
//! A node that is slow or away catches up when it answers. It is never skipped, neither with the release of a dead
//! ballot, nor with the vote for a held lease that it lacks. So a held lease outlives the nodes that voted at first.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Claim, Error, QuorumNode, Renew, Vote};
use tokio::time::{sleep, timeout};

use crate::agenda::Duty;
use crate::ballot::Ballot;
use crate::inner::Core;

/// How often a node is asked in a row to vote for a lease that is held, and how long after a refusal. A contender has a
/// vote for a moment while it waits for nodes that do not answer. Without the vote the lease may end if one more node is
/// away.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// The release of one dead ballot. Unless the node has answered, dropping this puts the release on the node's agenda.
///
/// So no release is forgotten, whichever task ends while the release is under way.
#[must_use = "what is owed is paid when this is polled or dropped"]
pub(crate) struct Owed<N: QuorumNode> {
    core: Arc<Core<N>>,
    claim: Claim,
    ballot: Ballot,
    is_settled: bool,
}

impl<N: QuorumNode> Owed<N> {
    pub(crate) fn new(core: &Arc<Core<N>>, claim: &Claim, ballot: Ballot) -> Self {
        Self { core: Arc::clone(core), claim: claim.clone(), ballot, is_settled: false }
    }

    pub(crate) fn node(&self) -> usize {
        self.ballot.node
    }

    /// The claim that the node has to release.
    pub(crate) fn released(&self) -> Claim {
        self.ballot.claim(&self.claim)
    }

    /// The node has answered.
    pub(crate) fn settle(mut self) {
        self.is_settled = true;
        self.core.claims.settled(&self.claim, self.ballot);
    }
}

impl<N: QuorumNode> Drop for Owed<N> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.core.want(&self.claim, self.ballot, Duty::Release);
        }
    }
}

impl<N: QuorumNode> Core<N> {
    /// Asks a node to vote for a lease that is being renewed. The vote counts from the next renewal on.
    pub(crate) fn replant(self: &Arc<Self>, node: usize, renewed: &Renew) {
        if let Some((ballot, held)) = self.claims.plant(&renewed.claim, node, self.clock.now()) {
            let duty = Duty::Vote(renewed.ttl, held.tokens.last());
            self.want(&renewed.claim, ballot, duty);
        }
    }

    /// Notes that a node has granted a ballot, or may have. Returns whether the ballot stands. A dead one is released.
    pub(crate) fn heard(self: &Arc<Self>, claim: &Claim, ballot: Ballot) -> bool {
        let stands = self.claims.heard(claim, ballot, self.clock.now());
        if !stands {
            drop(Owed::new(self, claim, ballot));
        }
        stands
    }

    fn want(self: &Arc<Self>, claim: &Claim, ballot: Ballot, duty: Duty) {
        let until = self.clock.now() + self.settings.max_ttl.duration();
        self.nodes[ballot.node].agenda.lock().want(claim, ballot, duty, until);
        self.work(ballot.node);
    }

    /// Starts as many requests as the agenda of a node allows. Each request that ends goes on with the next item.
    fn work(self: &Arc<Self>, node: usize) {
        loop {
            let begun = self.nodes[node].agenda.lock().begin(self.clock.now());
            let Some((claim, ballot, duty)) = begun else { return };
            let core = Arc::clone(self);
            self.background.hand_over(async move {
                let is_done = match duty {
                    Duty::Release => core.absent(&claim, ballot).await,
                    Duty::Vote(ttl, floor) => {
                        let request = Acquire::new(claim.clone(), ttl);
                        core.held(&request, ballot, floor).await
                    }
                };
                core.worked(&claim, ballot, is_done);
            });
        }
    }

    fn worked(self: &Arc<Self>, claim: &Claim, ballot: Ballot, is_done: bool) {
        let mut agenda = self.nodes[ballot.node].agenda.lock();
        if is_done {
            agenda.done(claim, ballot);
        } else if let Some(pause) = agenda.failed(claim, ballot) {
            let (core, node) = (Arc::clone(self), ballot.node);
            self.background.hand_over(async move {
                sleep(pause).await;
                core.nodes[node].agenda.lock().resume();
                core.work(node);
            });
        }
        // Without a handle no task waits for a node that is away.
        if !is_done && !self.background.is_open() {
            agenda.clear();
        }
        drop(agenda);
        self.work(ballot.node);
    }

    /// Releases a dead ballot. Returns whether the node is done with it.
    async fn absent(&self, claim: &Claim, ballot: Ballot) -> bool {
        let (node, released) = (&self.nodes[ballot.node], ballot.claim(claim));
        let limit = node.limit(self.settings.patience());
        let answer = timeout(limit, node.backend.release(&released)).await;
        let is_done = answer.is_ok_and(|answer| is_final(&answer));
        if is_done {
            self.claims.settled(claim, ballot);
        }
        is_done
    }

    /// Asks the node to vote for a lease. Returns whether it has answered. If the lease has ended meanwhile, its ballot
    /// is released after that.
    async fn held(
        self: &Arc<Self>,
        request: &Acquire,
        ballot: Ballot,
        floor: lock_core::FencingToken,
    ) -> bool {
        let claim = &request.claim;
        let limit = self.nodes[ballot.node].limit(self.settings.limit(request.ttl));
        let Ok(Ok(expects)) = timeout(limit, self.may_vote(claim, ballot)).await else {
            return !self.claims.stands(claim, ballot, self.clock.now());
        };
        let mut answer = timeout(limit, self.vote(request, ballot, floor, expects.clone())).await;
        for _ in 1..TRIES {
            if !matches!(answer, Ok(Ok(Vote::Busy { .. }))) {
                break;
            }
            sleep(PAUSE).await;
            if !self.claims.stands(claim, ballot, self.clock.now()) {
                break;
            }
            answer = timeout(limit, self.vote(request, ballot, floor, expects.clone())).await;
        }
        if let Ok(Ok(Vote::Busy { .. } | Vote::Abstains)) = answer {
            self.claims.refused(claim, ballot);
            return true;
        }
        let has_answered = answer.is_ok_and(|answer| is_final(&answer));
        !self.heard(claim, ballot) || has_answered
    }
}

/// Whether a node has answered for good: it would answer a repetition in the same way.
pub(crate) fn is_final<T>(answer: &Result<T, Error>) -> bool {
    answer.as_ref().map_or_else(|error| !error.is_retryable(), |_| true)
}
