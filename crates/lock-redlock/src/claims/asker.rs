//! The request for a claim that is under way.

use std::sync::Arc;

use lock_core::{Acquire, AcquireOutcome, Claim, Error, Instant};
use tokio::sync::oneshot;

use super::{Claims, Held, Outcome, State, released};
use crate::ballot::Ballot;

/// The right to ask the nodes for a claim. There is one for each claim at a time.
#[derive(Debug)]
pub(crate) struct Asker {
    claims: Arc<Claims>,
    claim: Claim,
    turn: u64,
}

impl Asker {
    pub(super) fn new(claims: Arc<Claims>, claim: Claim, turn: u64) -> Self {
        Self { claims, claim, turn }
    }

    /// The ballots by which to ask the nodes: those that stand, and new ones at the other nodes.
    pub(crate) fn ballots(&self, now: Instant) -> Result<Vec<Ballot>, Error> {
        let mut state = self.claims.state.lock();
        let State { entries, spent, .. } = &mut *state;
        let entry = entries.get_mut(&self.claim).filter(|entry| entry.turn == self.turn);
        let entry = entry.ok_or_else(released)?;
        entry.until = now + self.claims.max_ttl;
        let draw = |node| Ok(Ballot { node, owner: entry.draw(&self.claim, node, spent)? });
        (0..self.claims.nodes).map(draw).collect()
    }

    /// The claim is granted by these ballots. `None` if one of them does not stand any more.
    pub(crate) fn win(
        &self,
        ballots: impl IntoIterator<Item = Ballot>,
        mut held: Held,
        now: Instant,
    ) -> Option<Held> {
        let mut state = self.claims.state.lock();
        let entry = state.entries.get_mut(&self.claim).filter(|entry| entry.turn == self.turn)?;
        if !ballots.into_iter().all(|ballot| entry.stands(ballot, now)) {
            return None;
        }
        // The lease may have been renewed meanwhile.
        if let Some(before) = entry.valid(now) {
            held.tokens = before.tokens;
            if before.valid_until > held.valid_until {
                held = before;
            }
        }
        entry.held = Some(held);
        entry.until = now + self.claims.max_ttl;
        Some(held)
    }

    /// Gives up the ballots that stand, unless the claim is held or was released. Returns them.
    pub(crate) fn give_up(&self, now: Instant) -> Vec<Ballot> {
        let mut state = self.claims.state.lock();
        let entry = state.entries.get_mut(&self.claim).filter(|entry| entry.turn == self.turn);
        let dead = entry.map(|entry| entry.give_up(now)).unwrap_or_default();
        if !dead.is_empty() {
            state.spent.add(&self.claim, now);
        }
        dead
    }

    /// The request is over. Requests that wait for it get its outcome. After an error they ask for themselves.
    pub(crate) fn end(&self, request: &Acquire, outcome: &Result<AcquireOutcome, Error>) {
        let joined = self.take_joined();
        let Ok(attempt) = outcome else { return };
        for joined in joined {
            let _gone = joined.send(Ok((request.clone(), attempt.clone())));
        }
    }

    fn take_joined(&self) -> Vec<oneshot::Sender<Outcome>> {
        let mut state = self.claims.state.lock();
        let entry = state.entries.get_mut(&self.claim).filter(|entry| entry.turn == self.turn);
        let joined = entry.and_then(|entry| entry.asking.take());
        state.tidy(&self.claim);
        joined.unwrap_or_default()
    }
}

/// Requests that wait for this one ask for themselves.
impl Drop for Asker {
    fn drop(&mut self) {
        drop(self.take_joined());
    }
}
