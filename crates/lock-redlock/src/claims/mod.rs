//! What this process knows of its claims, all handles together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use lock_core::{Claim, FencingToken, Instant, Key, OwnerToken};

use crate::ballot::{Ballot, Spent};
use crate::quorum::NodeSet;
use crate::sweep::Sweep;

mod entry;
mod wanted;

use entry::Entry;
pub(crate) use entry::Held;
pub(crate) use wanted::{Next, Wanted};

/// The claims that are held, asked for, or being given up, and the ballots that stand for them at the nodes.
///
/// A ballot stands from its first request until it is refused or given up. One that was given up is dead: it never
/// stands again, so its release may arrive at any time.
#[derive(Debug)]
pub(crate) struct Claims {
    nodes: usize,
    /// After this time no node has a ballot any more that was not renewed.
    max_ttl: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    entries: HashMap<Claim, Entry>,
    sweep: Sweep,
    spent: Spent,
    /// The highest token of each key that is ahead of the clock.
    last: HashMap<Key, FencingToken>,
    sweep_last: Sweep,
}

/// A claim as it is when a request begins.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) ballots: Box<[Option<OwnerToken>]>,
    pub(crate) held: Option<Held>,
    turn: Option<u32>,
}

impl View {
    /// Whether the lease is known to be over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.held.is_some_and(|held| held.valid_until <= now)
    }
}

impl Claims {
    pub(crate) fn new(nodes: usize, max_ttl: Duration) -> Self {
        let state = State {
            entries: HashMap::new(),
            sweep: Sweep::default(),
            spent: Spent::new(max_ttl),
            last: HashMap::new(),
            sweep_last: Sweep::default(),
        };
        Self { nodes, max_ttl, state: Mutex::new(state) }
    }

    /// Notes that a request asks for a claim, until the guard is dropped.
    pub(crate) fn want(self: &Arc<Self>, claim: &Claim, now: Instant) -> Wanted {
        let mut state = self.lock();
        let entry = self.entry(&mut state, claim, now);
        entry.wanted += 1;
        let turn = entry.turn;
        Wanted { claims: Arc::clone(self), claim: claim.clone(), turn, is_over: false }
    }

    /// The lease, if it is not over.
    pub(crate) fn held(&self, claim: &Claim, now: Instant) -> Option<Held> {
        self.lock().entries.get(claim)?.valid(now)
    }

    /// What there is to be renewed. Of a claim that this process does not know, another process may have the first
    /// ballots.
    pub(crate) fn view(&self, claim: &Claim) -> View {
        let mut state = self.lock();
        let known = state.entries.get(claim).map(|it| (it.ballots.clone(), it.held, Some(it.turn)));
        let (ballots, held, turn) = known.unwrap_or_else(|| {
            let first = (!state.spent.has(claim)).then_some(claim.owner);
            (vec![first; self.nodes].into(), None, None)
        });
        View { ballots, held, turn }
    }

    /// Whether a claim was granted or released, or is asked for, since it was seen so: what a node said of it before
    /// says nothing.
    pub(crate) fn has_moved(&self, claim: &Claim, seen: &View, now: Instant) -> bool {
        let state = self.lock();
        let Some(entry) = state.entries.get(claim) else { return false };
        let until = |held: Option<Held>| held.map(|held| held.valid_until);
        let held = entry.valid(now);
        entry.wanted > 0 || held.is_some() && until(held) != until(seen.held)
    }

    /// Notes a renewal of a lease. `false` if the lease is over, or was released: then nothing renews it.
    pub(crate) fn extend(
        &self,
        claim: &Claim,
        seen: &View,
        (until, nodes): (Instant, NodeSet),
        now: Instant,
    ) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(claim) else { return seen.turn.is_none() };
        if seen.turn.is_some_and(|turn| turn != entry.turn) {
            return false;
        }
        entry.until = entry.until.max(now + self.max_ttl);
        let Some(held) = &mut entry.held else { return true };
        let is_alive = held.valid_until > now;
        if is_alive && until > held.valid_until {
            (held.valid_until, held.nodes) = (until, nodes);
        }
        is_alive
    }

    /// The owner token by which a node knows the claim.
    pub(crate) fn owner_at(&self, claim: &Claim, node: usize) -> OwnerToken {
        let state = self.lock();
        state.entries.get(claim).and_then(|it| it.ballots[node]).unwrap_or(claim.owner)
    }

    /// The ballot of a lease that is held, at a node which does not have the lease.
    pub(crate) fn plant(&self, claim: &Claim, node: usize, now: Instant) -> Option<(Ballot, Held)> {
        let mut state = self.lock();
        let State { entries, spent, .. } = &mut *state;
        let entry = entries.get_mut(claim)?;
        let held = entry.valid(now)?;
        let owner = entry.draw(claim, node, spent).ok()?;
        Some((Ballot { node, owner }, held))
    }

    /// Whether a ballot stands for a claim that is held or wanted.
    pub(crate) fn stands(&self, claim: &Claim, ballot: Ballot, now: Instant) -> bool {
        self.lock().entries.get(claim).is_some_and(|entry| entry.stands(ballot, now))
    }

    /// A node has not granted a ballot. If the node was asked more than once, that may be an old answer.
    pub(crate) fn refused(&self, claim: &Claim, ballot: Ballot) {
        let mut state = self.lock();
        if let Some(entry) = state.entries.get_mut(claim)
            && !entry.repeated.contains(ballot.node)
        {
            entry.ballots[ballot.node].take_if(|owner| *owner == ballot.owner);
        }
        state.tidy(claim);
    }

    /// A node has granted a ballot, or may have. `false` if the ballot does not stand for a claim that is held or
    /// wanted: then its release is owed.
    pub(crate) fn heard(&self, claim: &Claim, ballot: Ballot, now: Instant) -> bool {
        let mut state = self.lock();
        if state.entries.get(claim).is_some_and(|entry| entry.stands(ballot, now)) {
            return true;
        }
        state.spent.add(claim, now);
        let entry = self.entry(&mut state, claim, now);
        entry.ballots[ballot.node].take_if(|owner| *owner == ballot.owner);
        entry.owe(ballot);
        false
    }

    /// A node is rid of a dead ballot.
    pub(crate) fn settled(&self, claim: &Claim, ballot: Ballot) {
        let mut state = self.lock();
        if let Some(entry) = state.entries.get_mut(claim) {
            entry.owed.retain(|owed| *owed != ballot);
        }
        state.tidy(claim);
    }

    /// The claim is released: what its lease was, and the ballots that are to be released. Where none stands, that is
    /// the first one, of which the request may be under way.
    pub(crate) fn end(&self, claim: &Claim, now: Instant) -> (Option<Held>, Vec<Ballot>) {
        let mut state = self.lock();
        let is_spent = state.spent.has(claim);
        let entry = self.entry(&mut state, claim, now);
        for ballot in entry.ballots.iter_mut().filter(|_| !is_spent) {
            ballot.get_or_insert(claim.owner);
        }
        entry.turn += 1;
        entry.until = now + self.max_ttl;
        let held = entry.held.take();
        entry.bury();
        let owed = entry.owed.clone();
        state.spent.add(claim, now);
        state.tidy(claim);
        (held, owed)
    }

    /// The last token to ask the nodes for, when so many are wanted: the same for all, at least the time,
    /// and so far above the last that is known of this key that there is room for them.
    pub(crate) fn floor(&self, key: &Key, wanted: u32) -> FencingToken {
        let known = self.lock().last.get(key).copied();
        let above = known.map(|last| last.get().saturating_add(u64::from(wanted)));
        FencingToken::new(above.unwrap_or(0)).max(time())
    }

    /// Notes a token that was given out.
    pub(crate) fn raise(&self, key: &Key, token: FencingToken) {
        self.lock().raise(key, token);
    }

    /// The entry of a claim. Claims that are over are forgotten now and then.
    fn entry<'a>(&self, state: &'a mut State, claim: &Claim, now: Instant) -> &'a mut Entry {
        if !state.entries.contains_key(claim) {
            let State { entries, sweep, .. } = state;
            sweep.run(entries, |entry| entry.wanted > 0 || entry.until > now);
        }
        state.entries.entry(claim.clone()).or_insert_with(|| Entry {
            wanted: 0,
            turn: 0,
            held: None,
            ballots: vec![None; self.nodes].into(),
            repeated: NodeSet::default(),
            owed: Vec::new(),
            until: now + self.max_ttl,
        })
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets a claim of which nothing is to be remembered.
    fn tidy(&mut self, claim: &Claim) {
        if self.entries.get(claim).is_some_and(Entry::is_over) {
            self.entries.remove(claim);
        }
    }

    /// A token that the time has overtaken says nothing any more.
    fn raise(&mut self, key: &Key, token: FencingToken) {
        let mut now = None;
        self.sweep_last.run(&mut self.last, |last| *last > *now.get_or_insert_with(time));
        let last = self.last.entry(key.clone()).or_insert(token);
        *last = token.max(*last);
    }
}

fn time() -> FencingToken {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    FencingToken::floor(since_1970.unwrap_or_default())
}

#[cfg(test)]
mod tests;
