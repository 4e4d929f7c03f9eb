//! What this process knows of its claims, all handles together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use lock_core::{Claim, FencingToken, Instant, Key, TokenRange};
use tokio::sync::Notify;

use crate::quorum::NodeSet;
use crate::sweep::Sweep;

/// The claims that are held, asked for, or being given up.
///
/// An answer that comes after the decision must not end what has begun since. So a late vote is given up
/// only while nobody wants its claim ([`undo`](Self::undo)), and a node is not asked for a vote before it
/// has answered the release of the same claim ([`settled`](Self::settled)).
#[derive(Debug, Default)]
pub(crate) struct Claims {
    state: Mutex<State>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Claim, Entry>,
    sweep: Sweep,
    /// The highest token of each key that is ahead of the clock.
    last: HashMap<Key, FencingToken>,
    sweep_last: Sweep,
}

#[derive(Debug, Default)]
struct Entry {
    /// How many requests for it are under way.
    wanted: u32,
    /// The nodes that may have granted it to a request that left its votes to another.
    left: NodeSet,
    held: Option<Held>,
    releases: Vec<Release>,
}

/// A release that a node has not yet answered.
#[derive(Debug)]
struct Release {
    /// No other of this claim has the same.
    id: u64,
    node: usize,
    /// Whether the node should have answered by now.
    is_stuck: bool,
}

/// A node does not answer the release of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck;

/// A lease of a quorum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) tokens: TokenRange,
    pub(crate) valid_until: Instant,
    /// A quorum that has it until then.
    pub(crate) nodes: NodeSet,
}

impl Claims {
    /// Notes that somebody asks for a claim, until the guard is dropped.
    pub(crate) fn want(self: &Arc<Self>, claim: &Claim) -> Wanted {
        self.lock().entry(claim).wanted += 1;
        Wanted { claims: Arc::clone(self), claim: claim.clone(), is_over: false }
    }

    /// Whether somebody holds or asks for a claim.
    pub(crate) fn is_wanted(&self, claim: &Claim, now: Instant) -> bool {
        self.lock().entries.get(claim).is_some_and(|entry| entry.is_wanted(now))
    }

    pub(crate) fn hold(&self, claim: &Claim, held: Held, now: Instant) {
        let mut state = self.lock();
        state.sweep(now);
        state.entry(claim).held = Some(held);
        state.raise(&claim.key, held.tokens.last());
    }

    /// The lease, if it is not over.
    pub(crate) fn held(&self, claim: &Claim, now: Instant) -> Option<Held> {
        let state = self.lock();
        let held = state.entries.get(claim)?.held?;
        (held.valid_until > now).then_some(held)
    }

    /// Whether a claim was granted, or is asked for, since it was this: what a node said of it before says nothing.
    pub(crate) fn is_had_anew(&self, claim: &Claim, before: Option<Held>, now: Instant) -> bool {
        let state = self.lock();
        let Some(entry) = state.entries.get(claim) else { return false };
        let until = |held: Option<Held>| held.map(|held| held.valid_until);
        let held = entry.held.filter(|held| held.valid_until > now);
        entry.wanted > 0 || held.is_some() && until(held) != until(before)
    }

    /// The last token that the claim had, if that is still known, though its lease may be over.
    pub(crate) fn last_of(&self, claim: &Claim) -> Option<FencingToken> {
        Some(self.lock().entries.get(claim)?.held?.tokens.last())
    }

    pub(crate) fn renew(&self, claim: &Claim, valid_until: Instant, nodes: NodeSet) {
        if let Some(held) = self.lock().entries.get_mut(claim).and_then(|entry| entry.held.as_mut())
        {
            (held.valid_until, held.nodes) = (valid_until, nodes);
        }
    }

    /// Notes that a lease is over, and returns what it was.
    pub(crate) fn end(&self, claim: &Claim) -> Option<Held> {
        self.lock().end(claim)
    }

    /// Notes that a node is about to be asked to release a claim, until the mark is dropped.
    pub(crate) fn mark(self: &Arc<Self>, claim: &Claim, node: usize) -> Mark {
        let id = self.lock().entry(claim).begin_release(node);
        Mark { claims: Arc::clone(self), claim: claim.clone(), node, id }
    }

    /// The same, unless somebody holds or wants the claim.
    pub(crate) fn undo(self: &Arc<Self>, claim: &Claim, node: usize, now: Instant) -> Option<Mark> {
        let mut state = self.lock();
        let entry = state.entry(claim);
        if entry.is_wanted(now) {
            if entry.wanted > 0 {
                entry.left.insert(node);
            }
            return None;
        }
        let id = entry.begin_release(node);
        drop(state);
        Some(Mark { claims: Arc::clone(self), claim: claim.clone(), node, id })
    }

    /// Whether the node has still to answer a release of the claim, and whether it should have.
    pub(crate) fn releasing(&self, claim: &Claim, node: usize) -> Option<Result<(), Stuck>> {
        let state = self.lock();
        let releases = state.entries.get(claim)?.releases.iter();
        let of_node = releases.filter(|release| release.node == node);
        let is_stuck = of_node.map(|release| release.is_stuck).reduce(|a, b| a || b)?;
        Some(if is_stuck { Err(Stuck) } else { Ok(()) })
    }

    /// Waits until the node has answered every release of the claim, or should have.
    pub(crate) async fn settled(&self, claim: &Claim, node: usize) -> Result<(), Stuck> {
        loop {
            let settled = self.settled.notified();
            match self.releasing(claim, node) {
                Some(Ok(())) => settled.await,
                Some(Err(stuck)) => return Err(stuck),
                None => return Ok(()),
            }
        }
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

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn entry(&mut self, claim: &Claim) -> &mut Entry {
        self.entries.entry(claim.clone()).or_default()
    }

    fn end(&mut self, claim: &Claim) -> Option<Held> {
        let held = self.entries.get_mut(claim)?.held.take();
        self.tidy(claim);
        held
    }

    /// Forgets a claim of which nothing is to be remembered.
    fn tidy(&mut self, claim: &Claim) {
        let is_spent = |entry: &Entry| !entry.is_busy() && entry.held.is_none();
        if self.entries.get(claim).is_some_and(is_spent) {
            self.entries.remove(claim);
        }
    }

    /// Forgets leases that have run out.
    fn sweep(&mut self, now: Instant) {
        self.sweep.run(&mut self.entries, |entry| {
            entry.held = entry.held.filter(|held| held.valid_until > now);
            entry.is_busy() || entry.held.is_some()
        });
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

impl Entry {
    /// Whether somebody holds or asks for it.
    fn is_wanted(&self, now: Instant) -> bool {
        self.wanted > 0 || self.held.is_some_and(|held| held.valid_until > now)
    }

    /// Whether something is under way.
    fn is_busy(&self) -> bool {
        self.wanted > 0 || !self.releases.is_empty()
    }

    fn begin_release(&mut self, node: usize) -> u64 {
        let id = self.releases.last().map_or(0, |last| last.id + 1);
        self.releases.push(Release { id, node, is_stuck: false });
        id
    }
}

/// What comes after a round that came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another, with the votes that there are.
    Keep,
    /// Another, with none.
    Again,
    /// None.
    End,
}

/// Somebody asks for a claim.
#[derive(Debug)]
pub(crate) struct Wanted {
    claims: Arc<Claims>,
    claim: Claim,
    is_over: bool,
}

impl Wanted {
    /// The request has come to nothing, though some nodes have granted it, and of others that is unclear. Marks what
    /// they are to release, so that nobody asks them for the claim before they have.
    ///
    /// `None`, if others ask for the same claim as well, or hold it: they count on these votes, and see to them.
    pub(crate) fn give_up(
        &mut self,
        granted: NodeSet,
        unclear: NodeSet,
        next: Next,
        now: Instant,
    ) -> Option<Vec<Mark>> {
        let claims = Arc::clone(&self.claims);
        let mut state = claims.lock();
        let entry = state.entry(&self.claim);
        let is_held = entry.held.is_some_and(|held| held.valid_until > now);
        if entry.wanted > 1 || is_held {
            granted.iter().chain(unclear.iter()).for_each(|node| entry.left.insert(node));
            self.leave(&mut state);
            return None;
        }
        if next == Next::Keep {
            return Some(Vec::new());
        }
        let left = std::mem::take(&mut entry.left);
        let is_asked = |node: &usize| entry.releases.iter().any(|release| release.node == *node);
        let others = unclear.iter().filter(|node| !is_asked(node));
        let nodes: NodeSet = granted.iter().chain(others).chain(left.iter()).collect();
        let marks: Vec<_> = nodes.iter().map(|node| (node, entry.begin_release(node))).collect();
        if next == Next::End {
            entry.held = None;
            self.leave(&mut state);
        }
        drop(state);
        let mark =
            |(node, id)| Mark { claims: Arc::clone(&claims), claim: self.claim.clone(), node, id };
        Some(marks.into_iter().map(mark).collect())
    }

    fn leave(&mut self, state: &mut State) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if let Some(entry) = state.entries.get_mut(&self.claim) {
            entry.wanted = entry.wanted.saturating_sub(1);
            if entry.wanted == 0 {
                entry.left = NodeSet::default();
            }
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

/// A node has still to answer the release of a claim.
#[derive(Debug)]
pub(crate) struct Mark {
    claims: Arc<Claims>,
    claim: Claim,
    node: usize,
    id: u64,
}

impl Mark {
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn node(&self) -> usize {
        self.node
    }

    /// Notes that the node should have answered.
    pub(crate) fn stick(&self) {
        self.note(|release| release.is_stuck = true);
    }

    fn note(&self, note: impl FnOnce(&mut Release)) {
        self.change(|releases| {
            releases.iter_mut().find(|release| release.id == self.id).map(note);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Release>)) {
        let mut state = self.claims.lock();
        if let Some(entry) = state.entries.get_mut(&self.claim) {
            change(&mut entry.releases);
        }
        state.tidy(&self.claim);
        drop(state);
        self.claims.settled.notify_waiters();
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.change(|releases| releases.retain(|release| release.id != self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use lock_core::OwnerToken;

    use super::*;
    use crate::sweep;

    const NOW: Instant = Instant::from_nanos(1_000);

    fn claim() -> Claim {
        Claim::exclusive(Key::new("a").unwrap(), OwnerToken::generate().unwrap())
    }

    fn held(valid_until: Instant) -> Held {
        let tokens = TokenRange::single(FencingToken::new(7));
        Held { tokens, valid_until, nodes: NodeSet::default() }
    }

    #[test]
    fn a_late_vote_is_undone_only_if_nobody_wants_it() {
        let (claims, claim) = (Arc::new(Claims::default()), claim());
        let wanted = claims.want(&claim);
        assert!(claims.undo(&claim, 0, NOW).is_none());
        claims.hold(&claim, held(NOW + Duration::from_nanos(1)), NOW);
        drop(wanted);
        assert!(claims.undo(&claim, 0, NOW).is_none());
        assert!(claims.undo(&claim, 0, NOW + Duration::from_nanos(1)).is_some());
        claims.end(&claim);
        assert!(claims.undo(&claim, 0, NOW).is_some());
        assert!(claims.lock().entries.is_empty());
    }

    #[test]
    fn the_last_of_several_requests_gives_up_the_votes_of_all() {
        let claims = Arc::new(Claims::default());
        let (claim, now) = (claim(), Instant::from_nanos(0));
        let set = |nodes: &[usize]| nodes.iter().copied().collect::<NodeSet>();
        let none = NodeSet::default();
        let (mut first, mut second) = (claims.want(&claim), claims.want(&claim));
        // Also what is heard later of a request that has left.
        assert!(first.give_up(set(&[0]), set(&[1]), Next::Keep, now).is_none());
        assert!(claims.undo(&claim, 4, now).is_none());
        assert!(second.give_up(none, none, Next::Keep, now).is_some_and(|marks| marks.is_empty()));
        let marks = second.give_up(set(&[2]), set(&[1]), Next::End, now).unwrap();
        assert_eq!(marks.iter().map(Mark::node).collect::<NodeSet>(), set(&[0, 1, 2, 4]));
        assert!(!claims.is_wanted(&claim, now));
        assert_eq!(claims.releasing(&claim, 4), Some(Ok(())));
        drop((first, second, marks));
        assert_eq!(claims.releasing(&claim, 4), None);
        // What was left is forgotten with those who asked.
        let mut third = claims.want(&claim);
        assert!(third.give_up(none, none, Next::Again, now).is_some_and(|marks| marks.is_empty()));
    }

    #[test]
    fn a_node_is_settled_once_every_release_is() {
        let (claims, claim) = (Arc::new(Claims::default()), claim());
        let marks = [claims.mark(&claim, 1), claims.mark(&claim, 1)];
        assert_eq!(claims.settled(&claim, 0).now_or_never(), Some(Ok(())));
        let mut settled = Box::pin(claims.settled(&claim, 1));
        for mark in marks {
            assert_eq!(settled.as_mut().now_or_never(), None);
            drop(mark);
        }
        assert_eq!(settled.now_or_never(), Some(Ok(())));
        assert!(claims.lock().entries.is_empty());
    }

    #[test]
    fn a_node_that_does_not_answer_is_not_waited_for() {
        let (claims, claim) = (Arc::new(Claims::default()), claim());
        let marks = [claims.mark(&claim, 1), claims.mark(&claim, 1)];
        let mut settled = Box::pin(claims.settled(&claim, 1));
        assert_eq!(settled.as_mut().now_or_never(), None);
        marks[0].stick();
        assert_eq!(settled.now_or_never(), Some(Err(Stuck)));
        let [first, second] = marks;
        drop(first);
        assert_eq!(claims.releasing(&claim, 1), Some(Ok(())));
        drop(second);
        assert_eq!(claims.releasing(&claim, 1), None);
    }

    #[test]
    fn leases_that_ran_out_are_forgotten() {
        let claims = Arc::new(Claims::default());
        for _ in 0..10 * sweep::MIN {
            claims.hold(&claim(), held(NOW), NOW);
        }
        assert!(claims.lock().entries.len() <= 2 * sweep::MIN);
    }

    #[test]
    fn the_floor_is_above_what_is_known_and_not_behind_the_time() {
        let (claims, key) = (Claims::default(), Key::new("a").unwrap());
        let before = time();
        assert!(claims.floor(&key, 10) >= before);
        let ahead = FencingToken::new(time().get() + (1 << 40));
        claims.raise(&key, ahead);
        assert_eq!(claims.floor(&key, 10).get(), ahead.get() + 10);
        for number in 0..10 * sweep::MIN as u64 {
            claims.raise(&Key::new(number.to_string()).unwrap(), FencingToken::new(number));
        }
        assert!(claims.lock().last.len() <= 2 * sweep::MIN);
        assert_eq!(claims.floor(&key, 1).get(), ahead.get() + 1);
    }
}
