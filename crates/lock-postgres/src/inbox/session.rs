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
    watches: HashMap<Vec<u8>, Vec<(i64, Giver)>>,
    /// When the server gave the claims of this client their places.
    places: HashMap<OwnerToken, Placed>,
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
            state.watches.entry(key.to_vec()).or_default().push((watch, hints));
        }
        is_alive
    }

    pub(crate) fn remove(&self, key: &[u8], watch: i64) {
        let mut state = self.state();
        let mut removed = Vec::new();
        if let Some(watches) = state.watches.get_mut(key) {
            removed.extend(watches.extract_if(.., |(id, _)| *id == watch));
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
            watches.into_iter().flatten().map(|(_, hints)| hints.clone()).collect();
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
