//! One claim: its lease, and what its nodes have said about its ballots.

use std::sync::Arc;

use lock_core::Instant;
use tokio::sync::Notify;

use super::{Entry, Given, Held, View};
use crate::ballot::Ballot;

impl Entry {
    pub(super) fn new(life: u64, until: Instant) -> Self {
        let (asking, held, owner) = Default::default();
        let (standing, repeated, unheard, lost, owed) = Default::default();
        let (granted, awaited, vote_ended) = Default::default();
        Self {
            life,
            asking,
            held,
            owner,
            standing,
            repeated,
            unheard,
            lost,
            granted,
            awaited,
            vote_ended,
            owed,
            until,
        }
    }

    pub(super) fn valid(&self, now: Instant) -> Option<Held> {
        self.held.filter(|held| held.valid_until > now)
    }

    /// Whether the claim is held or asked for by this ballot.
    pub(super) fn wants(&self, ballot: Ballot, now: Instant) -> bool {
        let is_wanted = self.asking.is_some() || self.valid(now).is_some();
        is_wanted && self.owner == Some(ballot.owner)
    }

    /// Whether a node has this ballot, and the process has not given it up.
    pub(super) fn has(&self, ballot: Ballot) -> bool {
        self.owner == Some(ballot.owner) && self.standing.contains(ballot.node)
    }

    pub(super) fn stands(&self, ballot: Ballot, now: Instant) -> bool {
        self.wants(ballot, now) && self.has(ballot)
    }

    /// Whether the claim was granted since `seen`, or a request for it is under way.
    pub(super) fn has_moved(&self, seen: &View, now: Instant) -> bool {
        let until = |held: Option<Held>| held.map(|held| held.valid_until);
        let held = self.valid(now);
        self.asking.is_some() || held.is_some() && until(held) != until(seen.held)
    }

    /// A request for the vote of this node goes out.
    pub(super) fn note_request(&mut self, node: usize) {
        if self.standing.contains(node) {
            self.repeated.insert(node);
        } else {
            self.repeated.remove(node);
        }
        self.standing.insert(node);
        self.unheard.insert(node);
        self.lost.remove(node);
        self.granted.remove(node);
        self.awaited.push(node);
    }

    /// This process awaits a vote no longer: the node has granted the ballot, has refused it, or has not answered.
    /// Returns what the caller rings.
    pub(super) fn note_end(&mut self, ballot: Ballot, is_granted: bool) -> Option<Arc<Notify>> {
        if self.owner != Some(ballot.owner) {
            return None;
        }
        let place = self.awaited.iter().position(|node| *node == ballot.node);
        place.map(|place| self.awaited.swap_remove(place));
        match is_granted {
            true => self.granted.insert(ballot.node),
            false => drop(self.granted.remove(ballot.node)),
        }
        self.vote_ended.take()
    }

    pub(super) fn given(&mut self, ballot: Ballot) -> Given {
        let is_standing = self.owner == Some(ballot.owner);
        match () {
            () if is_standing && self.awaited.contains(&ballot.node) => {
                let vote_ended = self.vote_ended.get_or_insert_default();
                Given::Soon(Arc::clone(vote_ended).notified_owned())
            }
            () if is_standing && self.granted.contains(ballot.node) => Given::Yes,
            () => Given::No,
        }
    }

    /// A vote has come.
    pub(super) fn note_vote(&mut self, ballot: Ballot) {
        self.note_answer(ballot);
        if self.owner == Some(ballot.owner) {
            self.standing.insert(ballot.node);
        }
    }

    /// The answer to a request for a vote has come. If the node was asked more than once, or later by another ballot,
    /// another vote may still be under way.
    pub(super) fn note_answer(&mut self, ballot: Ballot) {
        let is_last = self.owner.is_none_or(|owner| owner == ballot.owner);
        if is_last && !self.repeated.contains(ballot.node) {
            self.unheard.remove(ballot.node);
        }
    }

    pub(super) fn owe(&mut self, ballot: Ballot, late: bool) {
        match self.owed.iter_mut().find(|(owed, _)| *owed == ballot) {
            Some((_, is_late)) => *is_late |= late,
            None => self.owed.push((ballot, late)),
        }
    }

    /// No release of the ballot is due any more. Returns whether a release was due whose vote may still be under way.
    pub(super) fn pay(&mut self, ballot: Ballot) -> bool {
        let place = self.owed.iter().position(|(owed, _)| *owed == ballot);
        place.is_some_and(|place| self.owed.remove(place).1)
    }

    pub(super) fn owed(&self) -> Vec<Ballot> {
        self.owed.iter().map(|(ballot, _)| *ballot).collect()
    }

    /// The ballot does not stand any more.
    pub(super) fn bury(&mut self, ballot: Ballot) {
        if self.has(ballot) {
            self.standing.remove(ballot.node);
        }
    }
}
