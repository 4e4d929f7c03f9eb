//! The request under way for a claim.

use std::sync::Arc;

use lock_core::{Acquire, AcquireOutcome, Claim, Error, Instant, OwnerToken};
use tokio::sync::oneshot;

use super::entry::Entry;
use super::{Claims, Held, Outcome, State, released};
use crate::ballot::Ballot;

/// The right to ask the nodes for a claim. There is one for each claim at a time.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(super) claims: Arc<Claims>,
    pub(super) claim: Claim,
    pub(super) life: u64,
    /// Whether the request has an outcome. The next request for the claim may be under way by now.
    pub(super) is_over: bool,
}

impl Asker {
    /// The entry of the claim. `None` if the claim was released.
    fn entry<'a>(&self, state: &'a mut State) -> Option<&'a mut Entry> {
        let entry = state.entries.get_mut(&self.claim)?;
        (!self.is_over && entry.life == self.life).then_some(entry)
    }

    /// The owner token of the ballots by which to ask the nodes: that of the standing ballots; or else the token of the
    /// claim, or a fresh token if the token of the claim is spent.
    pub(crate) fn attempt(&self, now: Instant) -> Result<OwnerToken, Error> {
        let mut state = self.claims.state.lock();
        let is_spent = state.spent.has(&self.claim);
        let entry = self.entry(&mut state).ok_or_else(released)?;
        entry.until = now + self.claims.max_ttl;
        let owner = match entry.owner {
            Some(owner) => owner,
            None if is_spent => self.claim.owner.sibling()?,
            None => self.claim.owner,
        };
        entry.owner = Some(owner);
        Ok(owner)
    }

    /// The ballots with this owner token have granted the claim. `None` if one of them does not stand any more.
    pub(crate) fn win(&self, owner: OwnerToken, mut held: Held, now: Instant) -> Option<Held> {
        let mut state = self.claims.state.lock();
        let entry = self.entry(&mut state)?;
        if !held.nodes.iter().all(|node| entry.stands(Ballot { node, owner }, now)) {
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

    /// Gives up the standing ballots, unless the claim is held or was released. Returns them.
    pub(crate) fn give_up(&self, now: Instant) -> Vec<Ballot> {
        let mut state = self.claims.state.lock();
        let is_here = self.entry(&mut state).is_some();
        if is_here { state.give_up(&self.claim, now) } else { Vec::new() }
    }

    /// The request is over. The requests that wait for it get its outcome. After an error, they ask for themselves.
    pub(crate) fn end(&mut self, request: &Acquire, outcome: &Result<AcquireOutcome, Error>) {
        let joined = self.take_joined();
        self.is_over = true;
        let Ok(attempt) = outcome else { return };
        for joined in joined {
            let _gone = joined.send(Ok((request.clone(), attempt.clone())));
        }
    }

    fn take_joined(&self) -> Vec<oneshot::Sender<Outcome>> {
        let mut state = self.claims.state.lock();
        let joined = self.entry(&mut state).and_then(|entry| entry.asking.take());
        state.tidy(&self.claim);
        joined.unwrap_or_default()
    }
}

/// The requests that wait for this request ask for themselves.
impl Drop for Asker {
    fn drop(&mut self) {
        drop(self.take_joined());
    }
}
