//! One claim.

use lock_core::{Claim, Error, Instant, OwnerToken, TokenRange};

use crate::ballot::{Ballot, Spent};
use crate::quorum::NodeSet;

#[derive(Debug)]
pub(super) struct Entry {
    /// How many requests for the claim are under way.
    pub(super) wanted: u32,
    /// How often the claim was released. A request that began before goes no further.
    pub(super) turn: u32,
    pub(super) held: Option<Held>,
    /// The owner token of the ballot that stands at each node.
    pub(super) ballots: Box<[Option<OwnerToken>]>,
    /// The nodes that were asked for theirs more than once.
    pub(super) repeated: NodeSet,
    /// The dead ballots of which a node has still to say that it is rid of them.
    pub(super) owed: Vec<Ballot>,
    /// No node has a ballot after this, unless the lease is renewed.
    pub(super) until: Instant,
}

/// A lease of a quorum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) tokens: TokenRange,
    pub(crate) valid_until: Instant,
    /// A quorum that has it until then.
    pub(crate) nodes: NodeSet,
}

impl Entry {
    pub(super) fn valid(&self, now: Instant) -> Option<Held> {
        self.held.filter(|held| held.valid_until > now)
    }

    pub(super) fn stands(&self, ballot: Ballot, now: Instant) -> bool {
        let is_wanted = self.wanted > 0 || self.valid(now).is_some();
        is_wanted && self.ballots[ballot.node] == Some(ballot.owner)
    }

    pub(super) fn is_over(&self) -> bool {
        let stands = self.ballots.iter().any(Option::is_some);
        self.wanted == 0 && self.held.is_none() && self.owed.is_empty() && !stands
    }

    /// The ballot that stands at a node, or a new one: the claim's own token, or a fresh one if the claim is spent.
    pub(super) fn draw(
        &mut self,
        claim: &Claim,
        node: usize,
        spent: &mut Spent,
    ) -> Result<OwnerToken, Error> {
        if let Some(owner) = self.ballots[node] {
            self.repeated.insert(node);
            return Ok(owner);
        }
        let is_spent = spent.has(claim);
        let owner = if is_spent { Ballot::fresh(&claim.owner)? } else { claim.owner };
        self.repeated.remove(node);
        self.ballots[node] = Some(owner);
        Ok(owner)
    }

    pub(super) fn owe(&mut self, ballot: Ballot) {
        if !self.owed.contains(&ballot) {
            self.owed.push(ballot);
        }
    }

    /// No ballot stands any more. Returns those that stood. The claim is spent then.
    pub(super) fn bury(&mut self) -> Vec<Ballot> {
        let ballots = self.ballots.iter_mut().enumerate();
        let dead = ballots.filter_map(|(node, it)| it.take().map(|owner| Ballot { node, owner }));
        let dead: Vec<_> = dead.collect();
        dead.iter().for_each(|ballot| self.owe(*ballot));
        dead
    }
}
