//! Brings each node up to date in the background.
//!
//! A slow or missing node catches up when it answers. In the end it gets the release of each dead ballot, and the
//! request for a vote for each held lease that it lacks. So a held lease outlives the nodes that voted at first.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use lock_core::{Acquire, Backoff, Claim, Error, FencingToken, QuorumNode, Released, Ttl, Vote};
use tokio::time::sleep;

use crate::agenda::Duty;
use crate::ballot::Ballot;
use crate::inner::Core;

/// How often to ask a node in a row to vote for a held lease, and how long after a refusal. A contender may have the
/// vote for a moment, while it waits for nodes that do not answer. Without this vote, the lease may end if one more
/// node is missing.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// A ballot that a node may have: a vote or a release of the ballot is under way. Unless the node has answered,
/// dropping this puts a dead ballot on the agenda of the node.
///
/// So no release is forgotten, whichever task ends while the request is under way.
#[must_use = "what is owed is paid when this is polled or dropped"]
pub(crate) struct Owed<N: QuorumNode> {
    core: Arc<Core<N>>,
    claim: Claim,
    ballot: Ballot,
    /// What is under way.
    duty: Duty,
    is_answered: bool,
}

impl<N: QuorumNode> Owed<N> {
    pub(crate) fn new(core: &Arc<Core<N>>, claim: &Claim, ballot: Ballot, duty: Duty) -> Self {
        let (core, claim) = (Arc::clone(core), claim.clone());
        Self { core, claim, ballot, duty, is_answered: false }
    }

    /// Releases the ballot. If the future is dropped or fails, the release stays due.
    pub(crate) async fn release(self) -> Result<Released, Error> {
        let (core, ballot) = (Arc::clone(&self.core), self.ballot);
        let answer = core.release(&self.claim, ballot).await;
        if is_final(&answer) {
            self.answered();
        }
        core.noted(ballot.node, "release", answer)
    }

    /// The node has answered the request, so the drop has nothing to do.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl<N: QuorumNode> Drop for Owed<N> {
    fn drop(&mut self) {
        let (core, now) = (&self.core, self.core.clock.now());
        let is_vote = self.duty == Duty::Vote;
        if !self.is_answered && !core.claims.missed(&self.claim, self.ballot, is_vote, now) {
            core.want(&self.claim, self.ballot, Duty::Release);
        }
    }
}

impl<N: QuorumNode> Core<N> {
    /// Asks the nodes without a ballot of a held lease to vote for the lease.
    pub(crate) fn plant(self: &Arc<Self>, claim: &Claim) {
        for ballot in self.claims.lacking(claim, self.clock.now()) {
            self.want(claim, ballot, Duty::Vote);
        }
    }

    fn want(self: &Arc<Self>, claim: &Claim, ballot: Ballot, duty: Duty) {
        let until = self.clock.now() + self.settings.max_ttl.duration();
        self.nodes[ballot.node].agenda.lock().want(claim, ballot, duty, until);
        self.work(ballot.node);
    }

    /// Starts as many requests as the agenda of a node allows. After each request comes the next item.
    fn work(self: &Arc<Self>, node: usize) {
        loop {
            let begun = self.nodes[node].agenda.lock().begin(self.clock.now());
            let Some((claim, ballot, duty)) = begun else { return };
            let core = Arc::clone(self);
            self.background.hand_over(async move {
                let work = async {
                    match duty {
                        Duty::Release => {
                            let released = core.release(&claim, ballot);
                            let limit = core.settings.patience();
                            is_final(&core.in_time(ballot.node, limit, released).await)
                        }
                        Duty::Vote => core.seek_vote(&claim, ballot).await,
                    }
                };
                // A backend that panics has failed.
                let is_done = AssertUnwindSafe(work).catch_unwind().await.unwrap_or(false);
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
        // Without a handle, no task waits for a missing node.
        if !is_done && !self.background.is_open() {
            agenda.clear();
        }
        drop(agenda);
        self.work(ballot.node);
    }

    /// Asks the node to release a dead ballot. If a vote of the ballot may still arrive, the release is repeated.
    async fn release(self: &Arc<Self>, claim: &Claim, ballot: Ballot) -> Result<Released, Error> {
        let answer = self.nodes[ballot.node].backend.release(&ballot.claim(claim)).await;
        if is_final(&answer) && self.claims.freed(claim, ballot) {
            self.end_again(ballot.node, ballot.claim(claim));
        }
        answer
    }

    /// Repeats a release, with longer and longer pauses, until the lease of a vote would have ended. So a late vote stays
    /// for about as long as it was late, and not for a whole lease.
    fn end_again(self: &Arc<Self>, node: usize, ballot: Claim) {
        let Some(ending) = self.nodes[node].ends_again() else { return };
        let core = Arc::clone(self);
        self.background.spawn_while_open(async move {
            let _ending = ending;
            let (patience, longest) = (core.settings.patience(), core.settings.max_ttl.duration());
            let (end, mut pauses) = (core.clock.now() + longest, Backoff::new(patience, longest));
            while core.clock.now() + pauses.pause() < end {
                sleep(pauses.fail()).await;
                let released = core.nodes[node].backend.release(&ballot);
                let _answer = core.in_time(node, patience, released).await;
            }
        });
    }

    /// Asks the node for its vote for a held lease, and repeats that a few times after a refusal. Returns whether the
    /// node has answered, or the vote is not wanted any more.
    async fn seek_vote(self: &Arc<Self>, claim: &Claim, ballot: Ballot) -> bool {
        for _ in 0..TRIES {
            let Some((request, floor)) = self.rest(claim, ballot) else { return true };
            let limit = self.settings.limit(request.ttl);
            let vote = Arc::clone(self).vote_at_last(request, ballot, floor);
            match self.in_time(ballot.node, limit, vote).await {
                Ok(Vote::Busy { .. }) => sleep(PAUSE).await,
                vote => {
                    return is_final(&vote) || !self.claims.wants(claim, ballot, self.clock.now());
                }
            }
        }
        true
    }

    /// The request for a vote for the rest of a held lease, so that this vote ends with the other votes; and the token
    /// that the node has to know. `None` if the lease is over or nearly over, or the ballot was given up.
    pub(crate) fn rest(
        &self,
        claim: &Claim,
        ballot: Ballot,
    ) -> Option<(Arc<Acquire>, FencingToken)> {
        let now = self.clock.now();
        let held = self.claims.held(claim, now);
        let held = held.filter(|_| self.claims.wants(claim, ballot, now))?;
        let ttl = Ttl::new(held.valid_until.saturating_duration_since(now)).ok()?;
        Some((Arc::new(Acquire::new(claim.clone(), ttl)), held.tokens.last()))
    }
}

/// Whether the answer of a node is final: the node would answer a repetition alike.
fn is_final<T>(answer: &Result<T, Error>) -> bool {
    answer.as_ref().map_or_else(|error| !error.is_retryable(), |_| true)
}
