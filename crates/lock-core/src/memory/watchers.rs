//! Who wants to hear about a key.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use futures::stream::Stream;

use super::connection::Connection;
use super::store::Store;
use crate::{Hint, Key};

/// The watches of one key.
#[derive(Debug, Default)]
pub(super) struct Watchers(Vec<Watcher>);

/// One watch, as the store sees it.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) id: u64,
    pub(super) connection: Arc<Connection>,
    pub(super) hints: UnboundedSender<Hint>,
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, watcher: Watcher) {
        self.0.push(watcher);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Watcher> {
        let index = self.0.iter().position(|watcher| watcher.id == id)?;
        Some(self.0.swap_remove(index))
    }

    pub(super) fn remove_all_of(&mut self, connection: &Arc<Connection>) -> Vec<Watcher> {
        self.0.extract_if(.., |watcher| Arc::ptr_eq(&watcher.connection, connection)).collect()
    }

    /// The watches that a hint reaches.
    ///
    /// The caller sends it after it let go of the store: a waker may run anything, even the `Drop`
    /// of another watch.
    pub(super) fn audience(&self) -> Vec<UnboundedSender<Hint>> {
        let hears = |watcher: &&Watcher| !watcher.connection.is_muted();
        self.0.iter().filter(hears).map(|watcher| watcher.hints.clone()).collect()
    }

    /// The watches that a hint to one client alone reaches.
    pub(super) fn audience_of(&self, connection: &Arc<Connection>) -> Vec<UnboundedSender<Hint>> {
        let hears = |watcher: &&Watcher| Arc::ptr_eq(&watcher.connection, connection);
        self.0.iter().filter(hears).map(|watcher| watcher.hints.clone()).collect()
    }
}

/// Sends a hint to everybody in `audience`; who has gone meanwhile does not hear it.
pub(super) fn tell(audience: Vec<UnboundedSender<Hint>>, hint: Hint) {
    for listener in audience {
        let _gone = listener.unbounded_send(hint);
    }
}

/// One watch, as its user sees it. It takes itself off the list when it is dropped.
pub(super) struct Hints {
    pub(super) id: u64,
    pub(super) key: Key,
    pub(super) store: Weak<Store>,
    pub(super) hints: UnboundedReceiver<Hint>,
}

impl Stream for Hints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        Pin::new(&mut self.hints).poll_next(context)
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        if let Some(store) = self.store.upgrade() {
            store.unwatch(&self.key, self.id);
        }
    }
}
