//! One claim: its lease, and what its nodes have said about its ballots.

use std::sync::Arc;

use lock_core::{Instant, OwnerToken};
use tokio::sync::{Notify, oneshot};

use super::{Given, Held, Outcome, View};
use crate::ballot::Ballot;
use crate::quorum::NodeSet;

/// One claim.
#[derive(Debug)]
pub(super) struct Entry {
    /// The number of this life of the claim. A claim that is released and then asked for again has a new life. A
    /// request of an earlier life stops.
    pub(super) life: u64,
    /// The repeated requests that wait for the outcome of the request under way. `None` if no request is under way.
    pub(super) asking: Option<Vec<oneshot::Sender<Outcome>>>,
    pub(super) held: Option<Held>,
    /// The owner token of the standing ballots, if there may be such ballots.
    pub(super) owner: Option<OwnerToken>,
    /// The standing ballots, and the dead ballots whose release a node has not confirmed yet. The later ballots of a
    /// node come last.
    pub(super) casts: Vec<Cast>,
    /// Rings when this process awaits a vote no longer. The first write that waits for a vote makes it.
    vote_ended: Option<Arc<Notify>>,
    /// Unless a renewal succeeds, no node has a ballot after this time.
    pub(super) until: Instant,
}

/// A ballot that was cast, and what this process knows of it.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) ballot: Ballot,
    /// How many times the node was asked for its vote.
    asked: u32,
    /// How many of these requests this process still awaits.
    awaited: u32,
    /// Whether a vote may still be under way. A release may overtake such a vote.
    is_late: bool,
    /// Whether the node has granted the ballot in answer to the last request, or renewed it after the only one.
    is_granted: bool,
    /// Whether the node has lost the ballot of a lease.
    is_lost: bool,
    /// Whether this process has given the ballot up.
    is_dead: bool,
}

impl Cast {
    pub(super) fn new(ballot: Ballot) -> Self {
        let (asked, awaited) = (0, 0);
        let (is_late, is_granted, is_lost, is_dead) = Default::default();
        Self { ballot, asked, awaited, is_late, is_granted, is_lost, is_dead }
    }

    /// Whether a second request may still bring a vote after an answer to the first.
    fn is_repeated(&self) -> bool {
        self.asked > 1
    }
}

impl Entry {
    pub(super) fn new(life: u64, until: Instant) -> Self {
        let (asking, held, owner, casts, vote_ended) = Default::default();
        Self { life, asking, held, owner, casts, vote_ended, until }
    }

    pub(super) fn valid(&self, now: Instant) -> Option<Held> {
        self.held.filter(|held| held.valid_until > now)
    }

    /// Whether the claim is held or asked for by this ballot.
    pub(super) fn wants(&self, ballot: Ballot, now: Instant) -> bool {
        let is_wanted = self.asking.is_some() || self.valid(now).is_some();
        is_wanted && self.owner == Some(ballot.owner)
    }

    /// Whether the claim was granted since `seen`, or a request for it is under way.
    pub(super) fn has_moved(&self, seen: &View, now: Instant) -> bool {
        let until = |held: Option<Held>| held.map(|held| held.valid_until);
        let held = self.valid(now);
        self.asking.is_some() || held.is_some() && until(held) != until(seen.held)
    }

    /// The ballots that stand.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Cast> {
        self.casts.iter().filter(|cast| !cast.is_dead)
    }

    /// The dead ballots.
    pub(super) fn owed(&self) -> Vec<Ballot> {
        self.casts.iter().filter(|cast| cast.is_dead).map(|cast| cast.ballot).collect()
    }

    /// Whether the claim is held or asked for by this ballot, and the process has not given the ballot up.
    pub(super) fn stands(&self, ballot: Ballot, now: Instant) -> bool {
        self.wants(ballot, now) && self.standing().any(|cast| cast.ballot == ballot)
    }

    /// The nodes whose vote for their last ballot may still be under way.
    pub(super) fn unheard(&self) -> NodeSet {
        let mut unheard = NodeSet::default();
        for cast in &self.casts {
            match cast.is_late {
                true => unheard.insert(cast.ballot.node),
                false => drop(unheard.remove(cast.ballot.node)),
            }
        }
        unheard
    }

    /// The nodes without a ballot of the lease.
    pub(super) fn lacking(&self, all: NodeSet) -> NodeSet {
        let has = self.standing().filter(|cast| !cast.is_lost);
        all.without(has.map(|cast| cast.ballot.node).collect())
    }

    /// A ballot that stands.
    fn cast(&mut self, ballot: Ballot) -> Option<&mut Cast> {
        self.casts.iter_mut().find(|cast| cast.ballot == ballot && !cast.is_dead)
    }

    /// A ballot, which may be new.
    fn any_cast(&mut self, ballot: Ballot) -> &mut Cast {
        let place = self.casts.iter().position(|cast| cast.ballot == ballot);
        let place = place.unwrap_or_else(|| {
            self.casts.push(Cast::new(ballot));
            self.casts.len() - 1
        });
        &mut self.casts[place]
    }

    /// A request for the vote of a node goes out.
    pub(super) fn note_request(&mut self, ballot: Ballot) {
        let cast = self.any_cast(ballot);
        if cast.is_dead {
            // The process has forgotten that the token of the claim was spent. So the earlier ballot ended long ago.
            *cast = Cast::new(ballot);
        }
        (cast.asked, cast.awaited) = (cast.asked + 1, cast.awaited + 1);
        (cast.is_late, cast.is_granted, cast.is_lost) = (true, false, false);
    }

    /// This process awaits a vote no longer: the node has granted the ballot, has refused it, or has not answered.
    /// Returns what the caller rings.
    pub(super) fn note_end(&mut self, ballot: Ballot, is_granted: bool) -> Option<Arc<Notify>> {
        let cast = self.cast(ballot)?;
        cast.awaited = cast.awaited.saturating_sub(1);
        cast.is_granted = is_granted;
        self.vote_ended.take()
    }

    /// A node has granted a ballot. If the node was asked more than once, another vote may still be under way. Returns
    /// what the caller rings.
    pub(super) fn note_vote(&mut self, ballot: Ballot) -> Option<Arc<Notify>> {
        let cast = self.any_cast(ballot);
        // A network may repeat a request. So the release of a ballot that was given up before its vote came is repeated.
        cast.is_late &= cast.is_repeated() || cast.is_dead;
        self.note_end(ballot, true)
    }

    /// A node has not granted a ballot. If the node was asked once, no vote can come any more, so no release is due.
    /// Returns what the caller rings.
    pub(super) fn note_refusal(&mut self, ballot: Ballot) -> Option<Arc<Notify>> {
        let vote_ended = self.note_end(ballot, false);
        self.casts.retain(|cast| cast.ballot != ballot || cast.is_repeated());
        vote_ended
    }

    /// A node has renewed a ballot. If the node was asked once for its vote, that request has arrived.
    pub(super) fn note_renewal(&mut self, ballot: Ballot) {
        if let Some(cast) = self.cast(ballot) {
            cast.is_granted |= !cast.is_repeated() && !cast.is_lost;
        }
    }

    /// A node has lost the ballot of a lease.
    pub(super) fn note_loss(&mut self, ballot: Ballot) {
        if let Some(cast) = self.cast(ballot) {
            (cast.is_lost, cast.is_granted) = (true, false);
        }
    }

    pub(super) fn given(&mut self, ballot: Ballot) -> Given {
        match self.cast(ballot) {
            Some(cast) if cast.awaited > 0 => {
                let vote_ended = self.vote_ended.get_or_insert_default();
                Given::Soon(Arc::clone(vote_ended).notified_owned())
            }
            Some(cast) if cast.is_granted => Given::Yes,
            _ => Given::No,
        }
    }

    /// Gives up a ballot. Its vote is `late` if it may still arrive.
    pub(super) fn owe(&mut self, ballot: Ballot, late: bool) {
        let cast = self.any_cast(ballot);
        cast.is_dead = true;
        cast.is_late |= late;
    }

    /// No release of a dead ballot is due any more. Returns whether its vote may still be under way.
    pub(super) fn pay(&mut self, ballot: Ballot) -> bool {
        let place = self.casts.iter().position(|cast| cast.ballot == ballot && cast.is_dead);
        place.is_some_and(|place| self.casts.remove(place).is_late)
    }

    /// Gives up the standing ballots, and returns them.
    pub(super) fn give_up(&mut self) -> Vec<Ballot> {
        (self.held, self.owner) = (None, None);
        let standing = self.casts.iter_mut().filter(|cast| !cast.is_dead);
        let bury = |cast: &mut Cast| {
            cast.is_dead = true;
            cast.ballot
        };
        standing.map(bury).collect()
    }

    /// Whether there is no lease, no request and no ballot.
    pub(super) fn is_over(&self) -> bool {
        self.asking.is_none() && self.held.is_none() && self.casts.is_empty()
    }
}
