//! One listening connection: the news that it hears, and the watches that get them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::hints::Giver;
use lock_core::{Clock, Hint, OwnerToken};
use tokio::sync::oneshot;

use super::news::{News, Placed, What};
use crate::link::MayEnd;

/// A listening connection: its name in the database, and the watches that it serves.
#[derive(Debug)]
pub(crate) struct Session {
    /// 32 random hexadecimal digits. The channel is `lock_` and these.
    pub(crate) name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` once the session is over. Dropping it closes the connection.
    alive: Option<oneshot::Sender<()>>,
    watches: HashMap<Vec<u8>, Vec<Ear>>,
    /// When the server gave the claims of this client their places.
    places: HashMap<OwnerToken, Placed>,
}

/// One watch of a key.
#[derive(Debug)]
struct Ear {
    watch: i64,
    hints: Giver,
    /// The database has confirmed the watch.
    is_known: bool,
}

impl MayEnd for Session {
    fn is_over(&self) -> bool {
        self.state().alive.is_none()
    }
}

impl Session {
    /// The session, and a receiver that resolves when the session has ended.
    pub(crate) fn new(name: String) -> (Self, oneshot::Receiver<()>) {
        let (alive, ended) = oneshot::channel();
        let state = State { alive: Some(alive), ..State::default() };
        (Self { name, state: Mutex::new(state) }, ended)
    }

    /// Returns whether the connection still listens.
    pub(crate) fn add(&self, key: &[u8], watch: i64, hints: Giver) -> bool {
        let mut state = self.state();
        let is_alive = state.alive.is_some();
        if is_alive {
            let ear = Ear { watch, hints, is_known: false };
            state.watches.entry(key.to_vec()).or_default().push(ear);
        }
        is_alive
    }

    /// The database has confirmed the watch with this number.
    pub(crate) fn confirm(&self, key: &[u8], watch: i64) {
        let mut state = self.state();
        let ears = state.watches.get_mut(key).into_iter().flatten();
        ears.filter(|ear| ear.watch == watch).for_each(|ear| ear.is_known = true);
    }

    /// The number of the latest watch of the key that the database has confirmed.
    pub(crate) fn known(&self, key: &[u8]) -> Option<i64> {
        let state = self.state();
        state.watches.get(key)?.iter().filter(|ear| ear.is_known).map(|ear| ear.watch).max()
    }

    /// Ends the watches of a key that the database had confirmed when `latest` was the latest one, because the database
    /// has forgotten them. Their users then watch again.
    pub(crate) fn end_watches(&self, key: &[u8], latest: i64) {
        self.remove_if(key, |ear| ear.is_known && ear.watch <= latest);
    }

    pub(crate) fn remove(&self, key: &[u8], watch: i64) {
        self.remove_if(key, |ear| ear.watch == watch);
    }

    fn remove_if(&self, key: &[u8], is_over: impl Fn(&Ear) -> bool) {
        let mut state = self.state();
        let mut removed = Vec::new();
        if let Some(watches) = state.watches.get_mut(key) {
            removed.extend(watches.extract_if(.., |ear| is_over(ear)));
            if watches.is_empty() {
                state.watches.remove(key);
            }
        }
        drop(state);
        drop(removed);
    }

    pub(crate) fn placed(&self, owner: OwnerToken, placed: Placed) {
        self.state().places.insert(owner, placed);
    }

    pub(crate) fn unplaced(&self, owner: OwnerToken) {
        self.state().places.remove(&owner);
    }

    /// Passes news on to the watches of the key. Wakers run after the state is unlocked.
    pub(crate) fn deliver(&self, payload: &str) {
        let Some(news) = News::of(payload) else { return };
        let mut state = self.state();
        let mut hint = Hint::from(&news.what);
        if let (What::Granted { owner, pushed }, Hint::Granted { grant, .. }) =
            (&news.what, &mut hint)
            && let Some(placed) = state.places.remove(owner)
        {
            *grant = pushed.grant(placed, Clock::boot().now());
        }
        let watches = state.watches.get(&news.key);
        let listeners: Vec<_> =
            watches.into_iter().flatten().map(|ear| ear.hints.clone()).collect();
        drop(state);
        for listener in &listeners {
            listener.give(hint.clone());
        }
    }

    /// Closes the connection, and ends all watches.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        let ended = (state.alive.take(), std::mem::take(&mut state.watches));
        drop(state);
        drop(ended);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
