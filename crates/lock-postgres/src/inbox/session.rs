//! One listening connection: the news that it hears, and the watches that get them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::UnboundedSender;
use lock_core::{Clock, Hint, OwnerToken};

use super::news::{News, Placed, What};

/// A listening connection: its name in the database, and the watches that it serves.
#[derive(Debug)]
pub(crate) struct Session {
    /// 32 random hexadecimal digits. The channel is `lock_` and these.
    pub(crate) name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    watches: HashMap<Vec<u8>, Vec<(i64, UnboundedSender<Hint>)>>,
    /// When the server gave the claims of this client their places.
    places: HashMap<OwnerToken, Placed>,
}

impl Session {
    pub(crate) fn new(name: String) -> Self {
        Self { name, state: Mutex::default() }
    }

    /// Returns whether the connection still listens.
    pub(crate) fn add(&self, key: &[u8], watch: i64, hints: UnboundedSender<Hint>) -> bool {
        let mut state = self.state();
        if !state.is_over {
            state.watches.entry(key.to_vec()).or_default().push((watch, hints));
        }
        !state.is_over
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

    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
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
        for listener in listeners {
            let _gone = listener.unbounded_send(hint.clone());
        }
    }

    /// Ends all watches.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        let ended = std::mem::take(&mut state.watches);
        drop(state);
        drop(ended);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
