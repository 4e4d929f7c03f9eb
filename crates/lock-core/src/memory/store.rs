//! The store that all clients share.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::mpsc;

use super::connection::{Connection, unreachable};
use super::entry::Entry;
use super::labels::Labels;
use super::node::Node;
use super::post::Post;
use super::watchers::{Hints, Watcher};
use crate::document::{Document, Fence, Ticks, Visit};
use crate::{
    Acquire, AcquireOutcome, Claim, ClientMark, Clock, Convert, Cursor, Error, Hint, Inspection,
    Instant, Key, Label, List, Listed, Page, Released, Renew, Renewal, Watch,
};

/// Below this number of keys the store does not look for idle ones.
const MIN_SWEEP: usize = 64;

/// The entries of all keys, behind one lock that is never held across an await.
#[derive(Debug)]
pub(super) struct Store {
    state: Mutex<State>,
    pub(super) queue_limit: NonZeroU32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    entries: HashMap<Key, Entry>,
    pub(super) node: Node,
    labels: Labels,
    /// A counter above all counters that were thrown away with their entries.
    swept: Fence,
    /// The number of entries at which the store looks for idle ones.
    sweep_at: usize,
    last_watch: u64,
}

impl Store {
    /// An empty store, in which at most `queue_limit` requests may wait for one key.
    pub(super) fn new(queue_limit: NonZeroU32) -> Self {
        Self { state: Mutex::default(), queue_limit }
    }

    /// Carries out a request that this client sent at `sent` and that has arrived now.
    pub(super) fn acquire(
        &self,
        request: &Acquire,
        client: &Arc<Connection>,
        sent: Instant,
    ) -> Result<AcquireOutcome, Error> {
        self.at(&request.claim.key, client, sent, |document, mut visit| {
            document.acquire(request, &mut visit)
        })
    }

    /// Carries out a conversion that this client sent at `sent` and that has arrived now.
    pub(super) fn convert(
        &self,
        request: &Convert,
        client: &Arc<Connection>,
        sent: Instant,
    ) -> Result<AcquireOutcome, Error> {
        self.at(&request.request.claim.key, client, sent, |document, mut visit| {
            document.convert(request, &mut visit)
        })
    }

    pub(super) fn renew(
        &self,
        request: &Renew,
        client: &Arc<Connection>,
        sent: Instant,
    ) -> Renewal {
        let renewed = self.at_known(&request.claim.key, client, sent, |document, mut visit| {
            document.renew(request, &mut visit)
        });
        renewed.unwrap_or(Renewal::Lost)
    }

    pub(super) fn release(&self, claim: &Claim, client: &Arc<Connection>) -> Released {
        let sent = Clock::tokio().now();
        let released = self.at_known(&claim.key, client, sent, |document, mut visit| {
            document.release(claim, &mut visit)
        });
        released.unwrap_or(Released::NotHeld)
    }

    pub(super) fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
        client: &Arc<Connection>,
        sent: Instant,
    ) -> (Released, Option<AcquireOutcome>) {
        let attempt = self.at_known(&claim.key, client, sent, |document, mut visit| {
            document.release_and_requeue(claim, next, &mut visit)
        });
        match attempt.flatten() {
            Some(attempt) => (Released::Freed { told: 0 }, Some(attempt)),
            None => (self.release(claim, client), None),
        }
    }

    /// Applies a function to the document of a key now, and then sends the hints that it wrote.
    pub(super) fn at<T>(
        &self,
        key: &Key,
        client: &Arc<Connection>,
        sent: Instant,
        act: impl FnOnce(&mut Document<Arc<Connection>>, Visit<'_, Arc<Connection>>) -> T,
    ) -> T {
        let now = Clock::tokio().now();
        let mut post = Post::default();
        let mut state = self.lock();
        let act = |document: &mut _, visit: Visit<'_, _>| {
            act(document, visit.queueing_at_most(self.queue_limit))
        };
        let answer = state.entry(key, now).visit(client, (sent, now), &mut post, act);
        drop(state);
        post.send();
        answer
    }

    /// Does what [`at`](Self::at) does, unless the store knows nothing of the key.
    pub(super) fn at_known<T>(
        &self,
        key: &Key,
        client: &Arc<Connection>,
        sent: Instant,
        act: impl FnOnce(&mut Document<Arc<Connection>>, Visit<'_, Arc<Connection>>) -> T,
    ) -> Option<T> {
        let is_known = self.lock().entries.contains_key(key);
        is_known.then(|| self.at(key, client, sent, act))
    }

    /// Looks at the document of a key, unless the store knows nothing of the key.
    pub(super) fn look<T>(
        &self,
        key: &Key,
        look: impl FnOnce(&mut Document<Arc<Connection>>, Instant) -> T,
    ) -> Option<T> {
        let now = Clock::tokio().now();
        self.lock().entries.get_mut(key).map(|entry| look(&mut entry.document, now))
    }

    pub(super) fn introduce(&self, client: ClientMark, label: Label, keep: Duration) {
        self.lock().labels.keep(client, label, keep, Clock::tokio().now());
    }

    /// The holders and the waiters of a key; `None` if the store knows nothing of the key.
    pub(super) fn inspect(&self, key: &Key) -> Option<Inspection> {
        let now = Clock::tokio().now();
        let State { entries, labels, .. } = &mut *self.lock();
        entries
            .get_mut(key)
            .map(|entry| entry.document.inspect(&|owner| labels.of(owner, now), now))
    }

    /// One page of the locks that are held or waited for, in the order of their keys.
    pub(super) fn list(&self, list: &List) -> Page {
        let now = Clock::tokio().now();
        let State { entries, labels, .. } = &mut *self.lock();
        let after = list.from.as_ref().map(Cursor::as_bytes);
        let is_next = |key: &&Key| list.has(key) && after.is_none_or(|it| key.as_bytes() > it);
        let mut keys: Vec<Key> = entries.keys().filter(is_next).cloned().collect();
        keys.sort_unstable();
        let most = usize::try_from(list.most.get()).unwrap_or(usize::MAX);
        let is_last = keys.len() <= most;
        keys.truncate(most);
        let next = keys.last().filter(|_| !is_last).map(|key| Cursor::new(key.as_bytes()));
        let locks = keys.into_iter().filter_map(|key| {
            let document = &mut entries.get_mut(&key)?.document;
            let inspection = document.inspect(&|owner| labels.of(owner, now), now);
            let is_used = inspection.holding + inspection.waiting > 0;
            is_used.then(|| Listed::new(key, inspection))
        });
        Page::new(locks.collect(), next)
    }

    pub(super) fn watch(
        self: &Arc<Self>,
        key: &Key,
        connection: &Arc<Connection>,
    ) -> Result<Watch, Error> {
        let now = Clock::tokio().now();
        let mut state = self.lock();
        // Checked under the lock, because `end_watches` comes after the cut and takes the lock too.
        if connection.is_cut() {
            return Err(unreachable());
        }
        state.last_watch += 1;
        let id = state.last_watch;
        let (sender, hints) = mpsc::unbounded();
        let watcher = Watcher { id, connection: Arc::clone(connection), hints: sender };
        state.entry(key, now).watchers.add(watcher);
        drop(state);
        Ok(Watch::new(Hints { id, key: key.clone(), store: Arc::downgrade(self), hints }))
    }

    pub(super) fn unwatch(&self, key: &Key, id: u64) {
        let mut state = self.lock();
        let removed = state.entries.get_mut(key).and_then(|entry| entry.watchers.remove(id));
        drop(state);
        drop(removed);
    }

    /// Ends the watches of one client.
    pub(super) fn end_watches(&self, connection: &Arc<Connection>) {
        let mut state = self.lock();
        let entries = state.entries.values_mut();
        let ended: Vec<_> =
            entries.flat_map(|entry| entry.watchers.remove_all_of(connection)).collect();
        drop(state);
        // This wakes their users, so the store is unlocked first.
        drop(ended);
    }

    /// Sends a hint to the watches of one client.
    pub(super) fn hint(&self, key: &Key, connection: &Arc<Connection>, hint: Hint) {
        let mut post = Post::default();
        let state = self.lock();
        if let Some(entry) = state.entries.get(key) {
            entry.watchers.tell_although_muted(connection, hint, &mut post);
        }
        drop(state);
        post.send();
    }

    pub(super) fn forget(&self) {
        let ticks = Ticks::now();
        let mut state = self.lock();
        state.entries.values_mut().for_each(|entry| entry.document.forget(ticks));
        state.swept.forget(ticks);
        state.node.forget();
        state.labels.clear();
    }

    /// Goes on as another run of the server, to which no client is connected any more.
    pub(super) fn restart(&self) {
        let mut state = self.lock();
        state.node.restart();
        let entries = state.entries.values_mut();
        let ended: Vec<_> = entries.flat_map(|entry| entry.watchers.remove_all()).collect();
        drop(state);
        drop(ended);
    }

    pub(super) fn live_leases(&self) -> usize {
        let now = Clock::tokio().now();
        self.lock().entries.values().map(|entry| entry.document.live_leases(now)).sum()
    }

    /// Ignores poisoning: a panic under the lock leaves no state that could harm a later request.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn entry(&mut self, key: &Key, now: Instant) -> &mut Entry {
        if self.entries.len() >= self.sweep_at.max(MIN_SWEEP) && !self.entries.contains_key(key) {
            self.sweep(now);
        }
        let new = || Entry::counting_above(self.swept);
        self.entries.entry(key.clone()).or_insert_with(new)
    }

    /// Throws the idle entries away. This happens only when the number of entries may have doubled, so that as
    /// many insertions share the cost.
    fn sweep(&mut self, now: Instant) {
        let ticks = Ticks::now();
        let idle = self.entries.extract_if(|_, entry| entry.is_idle(now, ticks));
        self.swept =
            idle.fold(self.swept, |swept, (_, entry)| swept.raised_above(entry.document.fence()));
        self.sweep_at = self.entries.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{OwnerToken, Ttl};

    #[tokio::test(start_paused = true)]
    async fn idle_keys_do_not_pile_up() {
        let store = Store::new(NonZeroU32::MIN);
        let client = Arc::default();
        let ttl = Ttl::new(Duration::from_secs(1)).unwrap();
        for index in 0..10_000 {
            let key = Key::new(format!("key {index}")).unwrap();
            let claim = Claim::exclusive(key, OwnerToken::generate().unwrap());
            let request = Acquire::new(claim.clone(), ttl);
            let attempt = store.acquire(&request, &client, Clock::tokio().now());
            assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))));
            if index % 2 == 0 {
                assert_eq!(store.release(&claim, &client), Released::Freed { told: 0 });
            } else if index % 20 == 1 {
                tokio::time::advance(ttl.duration()).await;
            }
        }
        let kept = store.lock().entries.len();
        assert!(kept <= 2 * MIN_SWEEP, "{kept}");
    }
}
