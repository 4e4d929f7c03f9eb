//! Ending a lease on all nodes.

use std::sync::Arc;

use lock_core::{Claim, Error, QuorumNode, Released};

use crate::actor::Owed;
use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::inner::Core;
use crate::quorum::{NodeSet, Quorum};

/// Releases the ballots of a claim. Returns when a quorum is rid of them and free for other claims. The other releases
/// go on in the background, and are repeated at nodes that cannot be reached.
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
        asked.ask(ballot.node, Arc::clone(core).release(Owed::new(core, claim, ballot)));
    }
    while asked.has_ready() || count.is_open(asked.open().len()) {
        let Some((node, released)) = asked.next().await else { break };
        if let Some(released) = released {
            count.note(node, released);
        }
    }
    tracing::debug!(target: "lock_redlock", key = %claim.key, ?count, "release");
    let answer = match count.is_enough() {
        true => {
            core.watched.released(&claim.key, count.told);
            Ok(count.outcome())
        }
        false => Err(asked.failure("released it", count.rid)),
    };
    asked.finish(|_, _, _| {});
    answer
}

/// What the nodes answer to the releases of one claim.
#[derive(Debug)]
struct Count {
    quorum: Quorum,
    /// How many ballots each node still has to release.
    left: Vec<usize>,
    /// How many nodes have no ballot, or none any more.
    rid: usize,
    /// How many of these nodes other clients can probably reach, and how many that may become.
    free: usize,
    most: usize,
    /// The nodes whose vote may arrive after its release. Then the vote is released once more.
    unheard: NodeSet,
    freed: usize,
    /// How many other clients heard of it at one node, at most.
    told: u32,
    was_valid: bool,
}

impl Count {
    /// The nodes in `there` are not known to be away.
    fn new(
        quorum: Quorum,
        ballots: &[Ballot],
        (there, unheard): (NodeSet, NodeSet),
        was_valid: bool,
    ) -> Self {
        let mut left = vec![0; quorum.nodes()];
        ballots.iter().for_each(|ballot| left[ballot.node] += 1);
        let with: NodeSet = ballots.iter().map(|ballot| ballot.node).collect();
        let without = (0..left.len()).collect::<NodeSet>().without(with);
        let free = without.len() - without.without(there).len();
        let (rid, most) = (without.len(), free + with.without(unheard).len());
        Self { quorum, left, rid, free, most, unheard, freed: 0, told: 0, was_valid }
    }

    fn note(&mut self, node: usize, released: Released) {
        self.left[node] -= 1;
        if self.left[node] == 0 {
            self.rid += 1;
            self.free += usize::from(!self.unheard.contains(node));
        }
        if let Released::Freed { told } = released {
            self.freed += 1;
            self.told = self.told.max(told);
        }
    }

    /// Whether to wait on, if `open` nodes still have to answer.
    ///
    /// A node without a ballot may never have voted, or may have heard of the release before. If the lease was valid,
    /// the release waits until a node says that it had a ballot, or all nodes have answered.
    fn is_open(&self, open: usize) -> bool {
        let is_free = self.free >= self.quorum.needed().min(self.most);
        let is_decided = is_free && self.is_enough() && (self.freed > 0 || !self.was_valid);
        !is_decided && self.rid + open >= self.quorum.needed()
    }

    fn is_enough(&self) -> bool {
        self.rid >= self.quorum.needed()
    }

    /// What to answer. A few votes are no lease.
    fn outcome(&self) -> Released {
        let unclear = self.quorum.nodes() - self.rid;
        let was_held = self.was_valid || self.freed + unclear >= self.quorum.needed();
        match self.freed > 0 && was_held {
            true => Released::Freed { told: self.told },
            false => Released::NotHeld,
        }
    }
}
