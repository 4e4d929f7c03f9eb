//! The store that all clients share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc;

use super::connection::{Connection, unreachable};
use super::entry::Entry;
use super::fence::Micros;
use super::watchers::{Hints, Watcher, tell};
use crate::Watch;
use crate::{Acquire, Attempt, Claim, Clock, Error, Hint, Instant, Key, Released, Renew, Renewal};

/// Below this many keys nobody looks for idle ones.
const MIN_SWEEP: usize = 64;

/// Every key's entry, behind one lock that is never held across an await.
#[derive(Debug, Default)]
pub(super) struct Store {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// How many entries there may be before the idle ones are looked for.
    sweep_at: usize,
    last_watch: u64,
}

impl Store {
    /// Carries out a request that was sent at `sent` and has arrived now.
    pub(super) fn acquire(&self, request: &Acquire, sent: Instant) -> Result<Attempt, Error> {
        let now = Clock::tokio().now();
        self.lock().entry(&request.claim.key, now).acquire(request, sent, now)
    }

    pub(super) fn renew(&self, request: &Renew, sent: Instant) -> Renewal {
        let now = Clock::tokio().now();
        let mut state = self.lock();
        let entry = state.entries.get_mut(&request.claim.key);
        if entry.is_some_and(|entry| entry.renew(&request.claim, request.ttl, now)) {
            Renewal::until(request.ttl.valid_until(sent))
        } else {
            Renewal::Lost
        }
    }

    pub(super) fn release(&self, claim: &Claim) -> Released {
        let now = Clock::tokio().now();
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(&claim.key) else { return Released::NotHeld };
        if !entry.release(claim, now) {
            return Released::NotHeld;
        }
        let contended = !entry.watchers.is_empty();
        let audience = entry.watchers.audience();
        drop(state);
        tell(audience, Hint::Released);
        Released::Freed { contended }
    }

    pub(super) fn watch(
        self: &Arc<Self>,
        key: &Key,
        connection: &Arc<Connection>,
    ) -> Result<Watch, Error> {
        let now = Clock::tokio().now();
        let mut state = self.lock();
        // Asked under the lock, because `end_watches` comes after the cut and takes it too.
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
        // Wakes their users, which is why the store is let go of first.
        drop(ended);
    }

    /// Gives the watches of one client a hint.
    pub(super) fn hint(&self, key: &Key, connection: &Arc<Connection>, hint: Hint) {
        let state = self.lock();
        let entry = state.entries.get(key);
        let audience = entry.map(|entry| entry.watchers.audience_of(connection));
        drop(state);
        tell(audience.unwrap_or_default(), hint);
    }

    pub(super) fn forget(&self) {
        self.lock().entries.values_mut().for_each(Entry::forget_leases);
    }

    pub(super) fn live_leases(&self) -> usize {
        let now = Clock::tokio().now();
        self.lock().entries.values().map(|entry| entry.live_leases(now)).sum()
    }

    /// A panic under the lock leaves nothing half done that a later request could trip over.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn entry(&mut self, key: &Key, now: Instant) -> &mut Entry {
        if self.entries.len() >= self.sweep_at.max(MIN_SWEEP) && !self.entries.contains_key(key) {
            self.sweep(now);
        }
        self.entries.entry(key.clone()).or_default()
    }

    /// Throws the idle entries away. Done once their number may have doubled, so that the cost of
    /// looking is shared by as many insertions.
    fn sweep(&mut self, now: Instant) {
        let micros = Micros::now();
        self.entries.retain(|_, entry| !entry.is_idle(now, micros));
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
        let store = Store::default();
        let ttl = Ttl::new(Duration::from_secs(1)).unwrap();
        for index in 0..10_000 {
            let key = Key::new(format!("key {index}")).unwrap();
            let claim = Claim::exclusive(key, OwnerToken::generate().unwrap());
            let attempt = store.acquire(&Acquire::new(claim.clone(), ttl), Clock::tokio().now());
            assert!(matches!(attempt, Ok(Attempt::Granted(_))));
            if index % 2 == 0 {
                assert_eq!(store.release(&claim), Released::Freed { contended: false });
            } else if index % 20 == 1 {
                tokio::time::advance(ttl.duration()).await;
            }
        }
        let kept = store.lock().entries.len();
        assert!(kept <= 2 * MIN_SWEEP, "{kept}");
    }
}
