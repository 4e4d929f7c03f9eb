//! What all handles of this process know of its claims.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Claim, Error, ErrorKind, Instant, OwnerToken, TokenRange,
};
use tokio::sync::oneshot;

use crate::ballot::{Ballot, Spent};
use crate::guarded::Guarded;
use crate::quorum::NodeSet;
use crate::sweep::Sweep;

mod asker;

pub(crate) use asker::Asker;

/// The claims that are held, asked for, or being given up, and the ballots that stand for them at the nodes.
///
/// A ballot stands from its first request until it is refused or given up. One that was given up is dead: it never
/// stands again, so its release may arrive at any time.
#[derive(Debug)]
pub(crate) struct Claims {
    nodes: usize,
    /// A ballot that is not renewed ends within this time at each node.
    max_ttl: Duration,
    state: Guarded<State>,
}

#[derive(Debug)]
struct State {
    entries: HashMap<Claim, Entry>,
    sweep: Sweep,
    spent: Spent,
    /// The number of the last turn.
    turns: u64,
}

/// One claim.
#[derive(Debug)]
struct Entry {
    /// Which turn it is: a claim that is released and asked for again has another turn. A request of an earlier turn goes
    /// no further.
    turn: u64,
    /// The request under way, if there is one: the repeated requests that wait for its outcome.
    asking: Option<Vec<oneshot::Sender<Outcome>>>,
    held: Option<Held>,
    /// The owner token of the ballot that stands at each node.
    ballots: Box<[Option<OwnerToken>]>,
    /// The nodes that were asked more than once for the ballot that stands.
    repeated: NodeSet,
    /// The nodes whose vote may still be under way. A release may overtake such a vote.
    unheard: NodeSet,
    /// The dead ballots that a node has not yet confirmed as gone.
    owed: Vec<Ballot>,
    /// After this time no node has a ballot, unless the lease is renewed.
    until: Instant,
}

/// A lease of a quorum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) tokens: TokenRange,
    pub(crate) valid_until: Instant,
    /// The nodes that have the lease until `valid_until`, at least a quorum.
    pub(crate) nodes: NodeSet,
}

/// The outcome of a request that others wait for. An error says that the claim was released.
pub(crate) type Outcome = Result<(Acquire, AcquireOutcome), Error>;

/// How a request for a claim begins.
pub(crate) enum Begun {
    /// It is the only one. The ballots of a lease that is over have to be released.
    First(Asker, Vec<Ballot>),
    /// It waits for the outcome of the one before. If there is none, it begins again.
    Joined(oneshot::Receiver<Outcome>),
}

/// A claim as it is when a renewal begins.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) ballots: Box<[Option<OwnerToken>]>,
    pub(crate) held: Option<Held>,
    turn: Option<u64>,
}

impl View {
    /// Whether the lease is known to be over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.held.is_some_and(|held| held.valid_until <= now)
    }
}

/// The end of a turn.
struct Ended {
    held: Option<Held>,
    buried: Vec<Ballot>,
    joined: Vec<oneshot::Sender<Outcome>>,
}

impl Ended {
    /// Tells the requests that waited. Wakers are code of others, so this must not run under the lock.
    fn told(self) -> (Option<Held>, Vec<Ballot>) {
        for joined in self.joined {
            let _gone = joined.send(Err(released()));
        }
        (self.held, self.buried)
    }
}

impl Claims {
    pub(crate) fn new(nodes: usize, max_ttl: Duration) -> Self {
        let (entries, sweep) = Default::default();
        let state = State { entries, sweep, spent: Spent::new(max_ttl), turns: 0 };
        Self { nodes, max_ttl, state: Guarded::new(state) }
    }

    /// Begins a request for a claim, or joins the one that is under way.
    pub(crate) fn begin(self: &Arc<Self>, request: &Acquire, now: Instant) -> Begun {
        let mut state = self.state.lock();
        let entry = self.entry(&mut state, &request.claim, now);
        if let Some(joined) = &mut entry.asking {
            let (sender, outcome) = oneshot::channel();
            joined.push(sender);
            return Begun::Joined(outcome);
        }
        entry.asking = Some(Vec::new());
        let (turn, lapsed) = (entry.turn, entry.give_up(now));
        if !lapsed.is_empty() {
            state.spent.add(&request.claim, now);
        }
        Begun::First(Asker::new(Arc::clone(self), request.claim.clone(), turn), lapsed)
    }

    /// Ends a request that takes too long, as if its caller had dropped it. Returns the ballots to release.
    pub(crate) fn overtake(&self, claim: &Claim, now: Instant) -> Vec<Ballot> {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(claim) else { return Vec::new() };
        if entry.asking.take().is_none() || entry.valid(now).is_some() {
            return Vec::new();
        }
        let ended = self.end_in(&mut state, claim, now);
        drop(state);
        ended.told().1
    }

    /// The lease, if it is not over.
    pub(crate) fn held(&self, claim: &Claim, now: Instant) -> Option<Held> {
        self.state.lock().entries.get(claim)?.valid(now)
    }

    /// The ballots to renew. If this process does not know the claim, these are the first ballots, which another
    /// process may have.
    pub(crate) fn view(&self, claim: &Claim) -> View {
        let mut state = self.state.lock();
        if let Some(Entry { ballots, held, turn, .. }) = state.entries.get(claim) {
            return View { ballots: ballots.clone(), held: *held, turn: Some(*turn) };
        }
        let first = (!state.spent.has(claim)).then_some(claim.owner);
        View { ballots: vec![first; self.nodes].into(), held: None, turn: None }
    }

    /// The lease that was seen is over. Returns the ballots to release, without those of a release that is under way:
    /// another release could overtake that one, and its caller would hear that the lease was lost.
    ///
    /// `None` if the claim was granted since it was seen, or is asked for: then the earlier answers of nodes say
    /// nothing.
    pub(crate) fn lose(&self, claim: &Claim, seen: &View, now: Instant) -> Option<Vec<Ballot>> {
        let mut state = self.state.lock();
        if state.entries.get(claim).is_some_and(|entry| entry.has_moved(seen, now)) {
            return None;
        }
        let ended = self.end_in(&mut state, claim, now);
        drop(state);
        Some(ended.told().1)
    }

    /// Notes a renewal of a lease. `false` if the lease is over, or was released: then nothing renews it.
    pub(crate) fn extend(
        &self,
        claim: &Claim,
        seen: &View,
        (until, nodes): (Instant, NodeSet),
        now: Instant,
    ) -> bool {
        let mut state = self.state.lock();
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
        let state = self.state.lock();
        state.entries.get(claim).and_then(|it| it.ballots[node]).unwrap_or(claim.owner)
    }

    /// The ballot of a held lease, at a node that does not have the lease.
    pub(crate) fn plant(&self, claim: &Claim, node: usize, now: Instant) -> Option<(Ballot, Held)> {
        let mut state = self.state.lock();
        let State { entries, spent, .. } = &mut *state;
        let entry = entries.get_mut(claim)?;
        let held = entry.valid(now)?;
        let owner = entry.draw(claim, node, spent).ok()?;
        Some((Ballot { node, owner }, held))
    }

    /// A held lease, and the nodes that have no ballot of it.
    pub(crate) fn lacking(&self, claim: &Claim, now: Instant) -> Option<(Held, NodeSet)> {
        let state = self.state.lock();
        let entry = state.entries.get(claim)?;
        let lacks = (0..self.nodes).filter(|&node| entry.ballots[node].is_none());
        Some((entry.valid(now)?, lacks.collect()))
    }

    /// Whether a ballot stands for a claim that is held or asked for.
    pub(crate) fn stands(&self, claim: &Claim, ballot: Ballot, now: Instant) -> bool {
        self.state.lock().entries.get(claim).is_some_and(|entry| entry.stands(ballot, now))
    }

    /// A node has not granted a ballot. If the node was asked more than once, that may be an old answer.
    pub(crate) fn refused(&self, claim: &Claim, ballot: Ballot) {
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(claim)
            && !entry.repeated.contains(ballot.node)
        {
            entry.ballots[ballot.node].take_if(|owner| *owner == ballot.owner);
            // No vote can come any more, so nothing is owed.
            entry.owed.retain(|owed| *owed != ballot);
            entry.unheard.remove(ballot.node);
        }
        state.tidy(claim);
    }

    /// A node has granted a ballot, or may have. `false` if the ballot does not stand for a claim that is held or
    /// asked for: then its release is owed.
    pub(crate) fn heard(&self, claim: &Claim, ballot: Ballot, now: Instant) -> bool {
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(claim)
            && entry.stands(ballot, now)
        {
            entry.note_vote(ballot.node);
            return true;
        }
        state.spent.add(claim, now);
        let entry = self.entry(&mut state, claim, now);
        entry.note_vote(ballot.node);
        entry.ballots[ballot.node].take_if(|owner| *owner == ballot.owner);
        entry.owe(ballot);
        false
    }

    /// A node is rid of a dead ballot.
    pub(crate) fn settled(&self, claim: &Claim, ballot: Ballot) {
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(claim) {
            entry.owed.retain(|owed| *owed != ballot);
        }
        state.tidy(claim);
    }

    /// Notes that the claim is released. Returns its lease, and the ballots to release, also the dead ballots that a
    /// node has not yet confirmed as gone. Also returns the nodes whose vote may arrive after its release.
    pub(crate) fn end(&self, claim: &Claim, now: Instant) -> (Option<Held>, Vec<Ballot>, NodeSet) {
        let mut state = self.state.lock();
        let entry = state.entries.get(claim);
        let (mut ballots, unheard) =
            entry.map(|it| (it.owed.clone(), it.unheard)).unwrap_or_default();
        let ended = self.end_in(&mut state, claim, now);
        drop(state);
        let (held, buried) = ended.told();
        ballots.extend(buried);
        (held, ballots, unheard)
    }

    /// Ends a turn: gives up the ballots that stand. If this process does not know the claim, these are the first
    /// ballots, which another process may have.
    fn end_in(&self, state: &mut State, claim: &Claim, now: Instant) -> Ended {
        let is_elsewhere = !state.entries.contains_key(claim) && !state.spent.has(claim);
        let entry = self.entry(state, claim, now);
        if is_elsewhere {
            entry.ballots.fill(Some(claim.owner));
        }
        entry.until = now + self.max_ttl;
        let held = entry.held.take();
        let joined = entry.asking.take().unwrap_or_default();
        let buried = entry.bury();
        state.turns += 1;
        let turn = state.turns;
        if let Some(entry) = state.entries.get_mut(claim) {
            entry.turn = turn;
        }
        state.spent.add(claim, now);
        state.tidy(claim);
        Ended { held, buried, joined }
    }

    /// The entry of a claim. Claims that are over are forgotten now and then.
    fn entry<'a>(&self, state: &'a mut State, claim: &Claim, now: Instant) -> &'a mut Entry {
        if !state.entries.contains_key(claim) {
            let State { entries, sweep, .. } = state;
            sweep.run(entries, |entry| entry.asking.is_some() || entry.until > now);
            state.turns += 1;
        }
        let turn = state.turns;
        state.entries.entry(claim.clone()).or_insert_with(|| Entry {
            turn,
            asking: None,
            held: None,
            ballots: vec![None; self.nodes].into(),
            repeated: NodeSet::default(),
            unheard: NodeSet::default(),
            owed: Vec::new(),
            until: now + self.max_ttl,
        })
    }
}

impl State {
    /// Forgets a claim of which nothing is to be remembered.
    fn tidy(&mut self, claim: &Claim) {
        let is_over = |entry: &Entry| {
            let stands = entry.ballots.iter().any(Option::is_some);
            entry.asking.is_none() && entry.held.is_none() && entry.owed.is_empty() && !stands
        };
        if self.entries.get(claim).is_some_and(is_over) {
            self.entries.remove(claim);
        }
    }
}

impl Entry {
    fn valid(&self, now: Instant) -> Option<Held> {
        self.held.filter(|held| held.valid_until > now)
    }

    fn stands(&self, ballot: Ballot, now: Instant) -> bool {
        let is_wanted = self.asking.is_some() || self.valid(now).is_some();
        is_wanted && self.ballots[ballot.node] == Some(ballot.owner)
    }

    /// Whether the claim was granted since it was seen, or is asked for.
    fn has_moved(&self, seen: &View, now: Instant) -> bool {
        let until = |held: Option<Held>| held.map(|held| held.valid_until);
        let held = self.valid(now);
        self.asking.is_some() || held.is_some() && until(held) != until(seen.held)
    }

    /// The ballot that stands at a node, or a new one: the claim's own token, or a fresh one if the claim is spent.
    fn draw(&mut self, claim: &Claim, node: usize, spent: &mut Spent) -> Result<OwnerToken, Error> {
        self.unheard.insert(node);
        if let Some(owner) = self.ballots[node] {
            self.repeated.insert(node);
            return Ok(owner);
        }
        let is_spent = spent.has(claim);
        let owner = if is_spent { claim.owner.sibling()? } else { claim.owner };
        self.repeated.remove(node);
        self.ballots[node] = Some(owner);
        Ok(owner)
    }

    /// A vote has come. If the node was asked more than once, another vote may still be under way.
    fn note_vote(&mut self, node: usize) {
        if !self.repeated.contains(node) {
            self.unheard.remove(node);
        }
    }

    fn owe(&mut self, ballot: Ballot) {
        if !self.owed.contains(&ballot) {
            self.owed.push(ballot);
        }
    }

    /// Gives up the ballots that stand, unless the claim is held, and returns them.
    fn give_up(&mut self, now: Instant) -> Vec<Ballot> {
        if self.valid(now).is_some() {
            return Vec::new();
        }
        self.held = None;
        self.bury()
    }

    /// Gives up the ballots that stand, and returns them.
    fn bury(&mut self) -> Vec<Ballot> {
        let ballots = self.ballots.iter_mut().enumerate();
        let dead = ballots.filter_map(|(node, it)| it.take().map(|owner| Ballot { node, owner }));
        let dead: Vec<_> = dead.collect();
        dead.iter().for_each(|ballot| self.owe(*ballot));
        dead
    }
}

fn released() -> Error {
    Error::new(ErrorKind::NotReady, "the claim was released meanwhile")
}

#[cfg(test)]
mod tests;
