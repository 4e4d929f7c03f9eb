//! A request for a claim, from its first round to its last.

use std::sync::Arc;

use lock_core::{Claim, Error, ErrorKind, Instant};

use super::{Claims, Held, State};
use crate::ballot::Ballot;

/// What comes after a round that came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another, with the ballots that there are.
    Keep,
    /// Another, with new ones.
    Again,
    /// None.
    End,
}

/// A request asks for a claim.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(super) claims: Arc<Claims>,
    pub(super) claim: Claim,
    pub(super) turn: u32,
    pub(super) is_over: bool,
}

impl Wanted {
    /// Gives up the ballots of a lease that is over.
    pub(crate) fn give_up_lapsed(&self, now: Instant) -> Vec<Ballot> {
        let mut state = self.claims.lock();
        let entry = self.claims.entry(&mut state, &self.claim, now);
        if entry.held.is_none() || entry.valid(now).is_some() {
            return Vec::new();
        }
        entry.held = None;
        let dead = entry.bury();
        state.spent.add(&self.claim, now);
        dead
    }

    /// The ballots by which the nodes are to be asked: those that stand, and new ones elsewhere.
    pub(crate) fn ballots(&self, now: Instant) -> Result<Vec<Ballot>, Error> {
        let mut state = self.claims.lock();
        let until = now + self.claims.max_ttl;
        self.claims.entry(&mut state, &self.claim, now).until = until;
        let State { entries, spent, .. } = &mut *state;
        let current = entries.get_mut(&self.claim).filter(|entry| entry.turn == self.turn);
        let released = || Error::new(ErrorKind::NotReady, "the claim was released meanwhile");
        let entry = current.ok_or_else(released)?;
        let draw = |node| Ok(Ballot { node, owner: entry.draw(&self.claim, node, spent)? });
        (0..self.claims.nodes).map(draw).collect()
    }

    /// The claim is granted by these ballots. `None` if one of them does not stand any more.
    ///
    /// If another request for the claim was granted it meanwhile, this one has the same lease.
    pub(crate) fn win(
        &self,
        ballots: impl IntoIterator<Item = Ballot>,
        mut held: Held,
        now: Instant,
    ) -> Option<Held> {
        let mut state = self.claims.lock();
        let entry = state.entries.get_mut(&self.claim).filter(|entry| entry.turn == self.turn)?;
        if !ballots.into_iter().all(|ballot| entry.stands(ballot, now)) {
            return None;
        }
        if let Some(before) = entry.valid(now) {
            held.tokens = before.tokens;
            if before.valid_until > held.valid_until {
                held = before;
            }
        }
        entry.held = Some(held);
        entry.until = now + self.claims.max_ttl;
        state.raise(&self.claim.key, held.tokens.last());
        Some(held)
    }

    /// The request has come to nothing. Returns the ballots that are to be released.
    ///
    /// `None`, if other requests ask for the same claim as well, or hold it: they count on these ballots, and see to
    /// them. The same if the claim was released: its ballots are seen to already.
    pub(crate) fn give_up(&mut self, next: Next, now: Instant) -> Option<Vec<Ballot>> {
        let claims = Arc::clone(&self.claims);
        let mut state = claims.lock();
        let entry = claims.entry(&mut state, &self.claim, now);
        if entry.wanted > 1 || entry.turn != self.turn || entry.valid(now).is_some() {
            self.leave(&mut state);
            return None;
        }
        if next == Next::Keep {
            return Some(Vec::new());
        }
        let dead = entry.bury();
        if next == Next::End {
            entry.held = None;
        }
        if !dead.is_empty() {
            state.spent.add(&self.claim, now);
        }
        if next == Next::End {
            self.leave(&mut state);
        }
        Some(dead)
    }

    fn leave(&mut self, state: &mut State) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if let Some(entry) = state.entries.get_mut(&self.claim) {
            entry.wanted = entry.wanted.saturating_sub(1);
        }
        state.tidy(&self.claim);
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let claims = Arc::clone(&self.claims);
        self.leave(&mut claims.lock());
    }
}
