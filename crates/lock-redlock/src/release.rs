//! Ends a lease on all nodes.

use std::sync::Arc;

use lock_core::{Claim, Error, QuorumNode, Released};

use crate::actor::Owed;
use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::inner::Core;
use crate::quorum::{NodeSet, Quorum};

/// Releases the ballots of a claim. Returns when a quorum has no ballot of the claim and is free for other claims. The
/// other releases go on in the background, which repeats them at unreachable nodes.
pub(crate) async fn release<N: QuorumNode>(
    core: &Arc<Core<N>>,
    claim: &Claim,
) -> Result<Released, Error> {
    let now = core.clock.now();
    let (held, ballots, unheard) = core.claims.end(claim, now);
    let was_valid = held.is_some_and(|held| held.valid_until > now);
    let is_there = |node: &usize| !core.nodes[*node].is_away();
    let there = (0..core.quorum.nodes()).filter(is_there).collect();
    let mut count = Count::new(core.quorum, &ballots, (there, unheard), was_valid);
    let mut asked = Asked::new(core, core.settings.patience());
    for ballot in ballots {
        asked.ask(ballot.node, Arc::clone(core).release(Owed::release(core, claim, ballot)));
    }
    while asked.has_ready() || count.is_open(asked.open().len()) {
        let Some((node, released)) = asked.next().await else { break };
        if let Some(released) = released {
            count.note(node, released);
        }
    }
    tracing::debug!(target: "lock_redlock", key = %claim.key, ?count, "release");
    let answer = match count.outcome() {
        Some(released) => {
            core.watched.released(&claim.key, count.told);
            Ok(released)
        }
        None => Err(asked.failure("released it", count.rid().len())),
    };
    asked.finish();
    answer
}

/// The answers of the nodes to the releases of one claim.
#[derive(Debug)]
struct Count {
    quorum: Quorum,
    /// How many ballots each node still has to release.
    left: Vec<usize>,
    /// The nodes that are free for other clients once they have no ballot of the claim: neither a missing node without
    /// a ballot, nor a node whose vote may arrive after its release. Such a vote is then released once more.
    reachable: NodeSet,
    freed: usize,
    /// The greatest number of other clients that heard of the release at one node.
    told: u32,
    was_valid: bool,
}

impl Count {
    /// The nodes in `there` are not known to be missing. The votes of the nodes in `unheard` may still arrive.
    fn new(
        quorum: Quorum,
        ballots: &[Ballot],
        (there, unheard): (NodeSet, NodeSet),
        was_valid: bool,
    ) -> Self {
        let mut left = vec![0; quorum.nodes()];
        ballots.iter().for_each(|ballot| left[ballot.node] += 1);
        let is_reachable = |node: &usize| match left[*node] {
            0 => there.contains(*node),
            _ => !unheard.contains(*node),
        };
        let reachable = (0..left.len()).filter(is_reachable).collect();
        Self { quorum, left, reachable, freed: 0, told: 0, was_valid }
    }

    fn note(&mut self, node: usize, released: Released) {
        self.left[node] -= 1;
        if let Released::Freed { told } = released {
            self.freed += 1;
            self.told = self.told.max(told);
        }
    }

    /// The nodes that have no ballot of the claim, or no longer have one.
    fn rid(&self) -> NodeSet {
        (0..self.left.len()).filter(|&node| self.left[node] == 0).collect()
    }

    /// Whether to wait on, if `open` nodes still have to answer.
    ///
    /// A node without a ballot has never voted, or has heard of the release before. If the lease was valid, the
    /// release waits until a node says that it had a ballot, or all nodes have answered.
    fn is_open(&self, open: usize) -> bool {
        let (rid, needed) = (self.rid(), self.quorum.needed());
        let unfree = self.reachable.without(rid).len();
        let is_free = self.reachable.len() - unfree >= needed.min(self.reachable.len());
        let is_decided = is_free && rid.len() >= needed && (self.freed > 0 || !self.was_valid);
        !is_decided && rid.len() + open >= needed
    }

    /// The answer to the caller, if enough nodes are rid of the claim. A few votes are no lease.
    fn outcome(&self) -> Option<Released> {
        let (rid, needed) = (self.rid().len(), self.quorum.needed());
        let was_held = self.was_valid || self.freed + self.quorum.nodes() - rid >= needed;
        let released = match self.freed > 0 && was_held {
            true => Released::Freed { told: self.told },
            false => Released::NotHeld,
        };
        (rid >= needed).then_some(released)
    }
}
