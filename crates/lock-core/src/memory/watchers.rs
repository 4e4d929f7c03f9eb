//! The watches of a key.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use futures::stream::Stream;

use super::connection::Connection;
use super::post::Post;
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

    pub(super) fn remove_all_of(&mut self, client: &Arc<Connection>) -> Vec<Watcher> {
        self.0.extract_if(.., |watcher| watcher.is_of(client)).collect()
    }

    pub(super) fn remove_all(&mut self) -> Vec<Watcher> {
        std::mem::take(&mut self.0)
    }

    /// Whether a message can be sent to this client. A muted client counts, because its messages are lost on the
    /// way, which the store cannot know.
    pub(super) fn reach(&self, client: &Arc<Connection>) -> bool {
        !client.is_cut() && self.0.iter().any(|watcher| watcher.is_of(client))
    }

    /// Writes a hint to all watches. Returns how many other clients than `sender` have one.
    pub(super) fn tell_all(&self, hint: Hint, sender: &Arc<Connection>, post: &mut Post) -> u32 {
        for watcher in self.0.iter().filter(|watcher| !watcher.connection.is_muted()) {
            post.add(&watcher.hints, hint.clone());
        }
        let others = self.0.iter().filter(|watcher| !watcher.is_of(sender));
        let others: HashSet<_> = others.map(|it| Arc::as_ptr(&it.connection)).collect();
        others.len().try_into().unwrap_or(u32::MAX)
    }

    /// Writes a hint to the watches of one client.
    pub(super) fn tell(&self, client: &Arc<Connection>, hint: Hint, post: &mut Post) {
        if !client.is_muted() {
            self.tell_although_muted(client, hint, post);
        }
    }

    /// Writes a hint to the watches of one client, even if its hints are muted.
    pub(super) fn tell_although_muted(
        &self,
        client: &Arc<Connection>,
        hint: Hint,
        post: &mut Post,
    ) {
        for watcher in self.0.iter().filter(|watcher| watcher.is_of(client)) {
            post.add(&watcher.hints, hint.clone());
        }
    }
}

impl Watcher {
    fn is_of(&self, client: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.connection, client)
    }
}

/// One watch, as its user sees it. It removes itself from the list when it is dropped.
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
