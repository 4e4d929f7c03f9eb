//! What all handles of this process know of its claims.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Claim, Error, ErrorKind, Instant, OwnerToken, TokenRange,
};
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, oneshot};

use crate::ballot::{Ballot, Spent};
use crate::guarded::Guarded;
use crate::quorum::NodeSet;
use crate::swept::Swept;

mod asker;
mod entry;

pub(crate) use asker::Asker;
use entry::{Cast, Entry};

/// The claims that this process holds, asks for, or gives up, and the ballots that stand for them at the nodes.
///
/// A ballot stands from its first request until a node refuses it or the process gives it up. A ballot that was
/// given up is dead: it never stands again, so its release may arrive at any time. The ballots that stand for a claim have
/// one owner token, and the process gives them up together.
#[derive(Debug)]
pub(crate) struct Claims {
    nodes: usize,
    /// A ballot that is not renewed ends within this time at each node.
    max_ttl: Duration,
    state: Guarded<State>,
}

#[derive(Debug)]
struct State {
    entries: Swept<Claim, Entry>,
    spent: Spent,
    /// The number of the last life of a claim.
    lives: u64,
}

/// A lease of a quorum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) tokens: TokenRange,
    pub(crate) valid_until: Instant,
    /// The nodes that have the lease until `valid_until`, at least a quorum.
    pub(crate) nodes: NodeSet,
}

/// The outcome of a request for which other requests wait. An error means that the claim was
/// released.
pub(crate) type Outcome = Result<(Acquire, AcquireOutcome), Error>;

/// How a request for a claim begins.
pub(crate) enum Begun {
    /// The request is the only one. The caller has to release the ballots of an ended lease.
    First(Asker, Vec<Ballot>),
    /// The request waits for the outcome of an earlier request. If there is no outcome, it begins
    /// again.
    Joined(oneshot::Receiver<Outcome>),
}

/// Whether a node has granted a ballot of a held lease.
#[derive(Debug)]
pub(crate) enum Given {
    /// The node has granted the ballot, and this process awaits no further vote of the node.
    Yes,
    /// This process awaits the vote of the node. The future ends when the process awaits one vote of the claim less.
    Soon(OwnedNotified),
    /// The node was not asked, has not answered the last request, has refused the ballot, or has lost it; or the lease
    /// is over.
    No,
}

/// The state of a claim when a renewal begins.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) owner: OwnerToken,
    pub(crate) standing: NodeSet,
    /// The nodes whose vote may still be under way, so that they do not know the ballot yet.
    pub(crate) unheard: NodeSet,
    pub(crate) held: Option<Held>,
    life: Option<u64>,
}

impl View {
    /// Whether the lease is known to be over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.held.is_some_and(|held| held.valid_until <= now)
    }
}

impl Claims {
    pub(crate) fn new(nodes: usize, max_ttl: Duration) -> Self {
        let state = State { entries: Swept::new(), spent: Spent::new(max_ttl), lives: 0 };
        Self { nodes, max_ttl, state: Guarded::new(state) }
    }

    /// Begins a request for a claim, or joins the request under way.
    pub(crate) fn begin(self: &Arc<Self>, request: &Acquire, now: Instant) -> Begun {
        let mut state = self.state.lock();
        let entry = self.entry(&mut state, &request.claim, now);
        if let Some(joined) = &mut entry.asking {
            let (sender, outcome) = oneshot::channel();
            joined.push(sender);
            return Begun::Joined(outcome);
        }
        entry.asking = Some(Vec::new());
        let (life, lapsed) = (entry.life, state.give_up(&request.claim, now));
        let (claims, claim) = (Arc::clone(self), request.claim.clone());
        Begun::First(Asker { claims, claim, life, is_over: false }, lapsed)
    }

    /// Ends a request that takes too long, as if its caller had dropped it. Returns the ballots to release.
    pub(crate) fn overtake(&self, claim: &Claim, now: Instant) -> Vec<Ballot> {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(claim) else { return Vec::new() };
        let Some(joined) = entry.asking.take() else { return Vec::new() };
        let ballots = if entry.valid(now).is_some() {
            drop(state);
            Vec::new()
        } else {
            self.end_life(state, claim, now).1
        };
        // These requests begin anew. Their wakers are code of others, so they run after the state is unlocked.
        drop(joined);
        ballots
    }

    /// The lease, if it is not over.
    pub(crate) fn held(&self, claim: &Claim, now: Instant) -> Option<Held> {
        self.state.lock().entries.get(claim)?.valid(now)
    }

    /// The ballots to renew. If this process does not know the claim, returns the first ballots, which another
    /// process may have.
    pub(crate) fn view(&self, claim: &Claim) -> View {
        let state = self.state.lock();
        if let Some(it) = state.entries.get(claim) {
            let (owner, held, life) = (it.owner.unwrap_or(claim.owner), it.held, Some(it.life));
            let standing = it.standing().map(|cast| cast.ballot.node).collect();
            return View { owner, standing, unheard: it.unheard(), held, life };
        }
        let nodes = if state.spent.has(claim) { 0 } else { self.nodes };
        let (standing, unheard) = ((0..nodes).collect(), NodeSet::default());
        View { owner: claim.owner, standing, unheard, held: None, life: None }
    }

    /// The `seen` lease is over. Returns the ballots to release, without the ballots of a release under way: a second
    /// release could overtake the first, whose caller would then hear that the lease was lost.
    ///
    /// `None` if the claim was granted meanwhile, or a request for it is under way: then the earlier answers of
    /// nodes say nothing.
    pub(crate) fn lose(&self, claim: &Claim, seen: &View, now: Instant) -> Option<Vec<Ballot>> {
        let state = self.state.lock();
        let has_moved = state.entries.get(claim).is_some_and(|entry| entry.has_moved(seen, now));
        if has_moved { None } else { Some(self.end_life(state, claim, now).1) }
    }

    /// Notes a renewal of a lease. `false` if the lease is over or was released: nothing renews such a lease.
    pub(crate) fn extend(
        &self,
        claim: &Claim,
        seen: &View,
        (until, nodes): (Instant, NodeSet),
        now: Instant,
    ) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(claim) else { return seen.life.is_none() };
        if seen.life.is_some_and(|life| life != entry.life) {
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

    /// The ballots of a held lease at the nodes that do not have the lease.
    pub(crate) fn lacking(&self, claim: &Claim, now: Instant) -> Vec<Ballot> {
        let state = self.state.lock();
        let Some(entry) = state.entries.get(claim).filter(|it| it.valid(now).is_some()) else {
            return Vec::new();
        };
        let owner = entry.owner.unwrap_or(claim.owner);
        let lacking = entry.lacking((0..self.nodes).collect());
        lacking.iter().map(|node| Ballot { node, owner }).collect()
    }

    /// Whether a node has granted a ballot, as far as this process knows. If this process does not know the claim,
    /// another process may have it.
    pub(crate) fn given(&self, claim: &Claim, ballot: Ballot, now: Instant) -> Given {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        match state.entries.get_mut(claim) {
            None if !state.spent.has(claim) => Given::Yes,
            Some(entry) if entry.valid(now).is_some() => entry.given(ballot),
            _ => Given::No,
        }
    }

    /// A node has renewed a ballot.
    pub(crate) fn renewed(&self, claim: &Claim, ballot: Ballot) {
        self.note(claim, |entry| entry.note_renewal(ballot));
    }

    /// A node has lost the ballot of a lease.
    pub(crate) fn lost(&self, claim: &Claim, ballot: Ballot) {
        self.note(claim, |entry| entry.note_loss(ballot));
    }

    fn note(&self, claim: &Claim, note: impl FnOnce(&mut Entry)) {
        self.state.lock().entries.get_mut(claim).map(note);
    }

    /// Notes that a node is asked for its vote by a ballot, which stands from now on.
    ///
    /// # Errors
    ///
    /// If the claim was given up.
    pub(crate) fn note_request(
        &self,
        claim: &Claim,
        ballot: Ballot,
        now: Instant,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        let entry = state.entries.get_mut(claim).filter(|it| it.wants(ballot, now));
        let given_up = || Error::new(ErrorKind::NotReady, "not asked: the claim was given up");
        entry.ok_or_else(given_up)?.note_request(ballot);
        Ok(())
    }

    /// Whether the claim is held or asked for by this ballot.
    pub(crate) fn wants(&self, claim: &Claim, ballot: Ballot, now: Instant) -> bool {
        self.state.lock().entries.get(claim).is_some_and(|entry| entry.wants(ballot, now))
    }

    /// A node has not granted a ballot. If the node was asked more than once, this answer may be an old one.
    pub(crate) fn refused(&self, claim: &Claim, ballot: Ballot) {
        let mut state = self.state.lock();
        let ended = state.entries.get_mut(claim).and_then(|entry| entry.note_refusal(ballot));
        state.tidy(claim);
        drop(state);
        wake(ended);
    }

    /// A node has granted a ballot. `false` if the claim is not held or asked for by this ballot: its release is then
    /// due.
    pub(crate) fn heard(&self, claim: &Claim, ballot: Ballot, now: Instant) -> bool {
        self.keeps(claim, ballot, false, now, |entry| entry.note_vote(ballot))
    }

    /// As [`heard`](Self::heard), for a node that may have granted a ballot. If its vote may still arrive, it is
    /// `late`, and this process awaits it no longer.
    pub(crate) fn missed(&self, claim: &Claim, ballot: Ballot, late: bool, now: Instant) -> bool {
        let end = |entry: &mut Entry| if late { entry.note_end(ballot, false) } else { None };
        self.keeps(claim, ballot, late, now, end)
    }

    /// Notes what came of a ballot. `false` if its release is due.
    fn keeps(
        &self,
        claim: &Claim,
        ballot: Ballot,
        late: bool,
        now: Instant,
        note: impl FnOnce(&mut Entry) -> Option<Arc<Notify>>,
    ) -> bool {
        let mut state = self.state.lock();
        let ended = state.entries.get_mut(claim).and_then(note);
        let is_wanted = state.entries.get(claim).is_some_and(|entry| entry.wants(ballot, now));
        if !is_wanted {
            state.spent.add(claim, now);
            self.entry(&mut state, claim, now).owe(ballot, late);
        }
        drop(state);
        wake(ended);
        is_wanted
    }

    /// A node has released a dead ballot, or did not have it. Returns whether its vote may still be under way.
    pub(crate) fn freed(&self, claim: &Claim, ballot: Ballot) -> bool {
        let mut state = self.state.lock();
        let is_late = state.entries.get_mut(claim).is_some_and(|entry| entry.pay(ballot));
        state.tidy(claim);
        is_late
    }

    /// Notes that the claim is released. Returns its lease, and the ballots to release: these include dead ballots
    /// whose release a node has not confirmed yet. Also returns the nodes whose vote may arrive after its release.
    pub(crate) fn end(&self, claim: &Claim, now: Instant) -> (Option<Held>, Vec<Ballot>, NodeSet) {
        let state = self.state.lock();
        let entry = state.entries.get(claim);
        let (mut ballots, unheard) = entry.map(|it| (it.owed(), it.unheard())).unwrap_or_default();
        let (held, buried) = self.end_life(state, claim, now);
        ballots.extend(buried);
        (held, ballots, unheard)
    }

    /// Ends a life: gives up the ballots that stand. If this process does not know the claim, gives up the first
    /// ballots, which another process may have. Returns the lease and the ballots.
    fn end_life(
        &self,
        mut guard: MutexGuard<'_, State>,
        claim: &Claim,
        now: Instant,
    ) -> (Option<Held>, Vec<Ballot>) {
        let state = &mut *guard;
        let is_elsewhere = state.entries.get(claim).is_none() && !state.spent.has(claim);
        state.lives += 1;
        let life = state.lives;
        let entry = self.entry(state, claim, now);
        if is_elsewhere {
            let owner = *entry.owner.insert(claim.owner);
            entry.casts = (0..self.nodes).map(|node| Cast::new(Ballot { node, owner })).collect();
        }
        (entry.life, entry.until) = (life, now + self.max_ttl);
        let (held, joined) = (entry.held.take(), entry.asking.take().unwrap_or_default());
        let buried = state.give_up(claim, now);
        state.tidy(claim);
        // Wakers are code of others, so they must not run under the lock.
        drop(guard);
        for joined in joined {
            let _gone = joined.send(Err(released()));
        }
        (held, buried)
    }

    /// The entry of a claim. Now and then, forgets claims that are over.
    fn entry<'a>(&self, state: &'a mut State, claim: &Claim, now: Instant) -> &'a mut Entry {
        let State { entries, lives, .. } = state;
        let is_over = |entry: &Entry| entry.asking.is_none() && entry.until <= now;
        entries.entry(claim.clone(), is_over, || {
            *lives += 1;
            Entry::new(*lives, now + self.max_ttl)
        })
    }
}

impl State {
    /// Gives up the ballots that stand, unless the claim is held, and returns them.
    fn give_up(&mut self, claim: &Claim, now: Instant) -> Vec<Ballot> {
        let Some(entry) = self.entries.get_mut(claim).filter(|it| it.valid(now).is_none()) else {
            return Vec::new();
        };
        let dead = entry.give_up();
        if !dead.is_empty() {
            self.spent.add(claim, now);
        }
        dead
    }

    /// Forgets a claim without a lease, a request or a ballot.
    fn tidy(&mut self, claim: &Claim) {
        if self.entries.get(claim).is_some_and(Entry::is_over) {
            self.entries.remove(claim);
        }
    }
}

/// Wakes the writes that wait for a vote. Wakers are code of others, so they must not run under the lock.
fn wake(vote_ended: Option<Arc<Notify>>) {
    if let Some(vote_ended) = vote_ended {
        vote_ended.notify_waiters();
    }
}

fn released() -> Error {
    Error::new(ErrorKind::NotReady, "the claim was released meanwhile")
}

#[cfg(test)]
mod tests;
