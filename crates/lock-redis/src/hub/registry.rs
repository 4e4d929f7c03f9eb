//! Who listens to what.

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Acquire, Clock, Hint, OwnerToken};
use tokio::sync::Notify;

use super::audience::Audience;
use super::channel::{Channel, Generation, Id, Seen};
use super::entering::Sample;
use super::inbox::{Inbox, Message};
use super::mailbox::Mailbox;
use crate::wire::Push;

/// What is said on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Our own scripts say that they released the lock, or wrote the value beside it.
    Releases,
    /// The server says which command changed the key.
    Keyspace,
}

/// Who listens to what.
///
/// The hub's task changes it; connections read it, right where a message arrives, so that a hint
/// reaches its watcher without passing through another task.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// The channel on which this client alone is told, if it wants to be.
    inbox: Option<Channel>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    channels: HashMap<Channel, Listeners>,
    /// The watchers of each lock, by its key.
    locks: HashMap<Channel, Audience>,
    /// Whether the server has said that it sends what is said on the inbox.
    hears_inbox: bool,
    /// The latest task: what one before it says does not count any more.
    latest: Generation,
    /// Wakes whoever reads keys that may have changed, if anybody does.
    reader: Option<Arc<Notify>>,
    /// The locks that are watched and may have changed since. However often the server says so of a key, it is
    /// read once, and what nobody watches is not kept.
    changed: HashSet<Channel>,
}

#[derive(Debug)]
struct Listeners {
    topic: Topic,
    /// Whether the server has said that it sends what is said on the channel.
    confirmed: bool,
    mailboxes: Vec<(Id, Arc<Mailbox>)>,
}

impl Registry {
    pub(crate) fn new(inbox: Option<Channel>) -> Self {
        Self { inbox, state: Mutex::default() }
    }

    /// Hands on what the server says.
    pub(crate) fn hear(&self, push: Push<'_>) {
        match push {
            Push::Message { channel, payload } => self.deliver(channel, payload),
            Push::Invalid { key } => self.lock().read_again(key),
            Push::AllInvalid => {
                let mut state = self.lock();
                for audience in state.locks.values() {
                    audience.tell(Hint::Resync);
                }
                state.read_all_again();
            }
        }
    }

    /// Hands a message to all who listen.
    fn deliver(&self, channel: &[u8], payload: &[u8]) {
        if self.inbox.as_deref() == Some(channel) {
            return self.deliver_to_us(payload);
        }
        let state = self.lock();
        let Some(listeners) = state.channels.get(channel) else { return };
        let Some(hint) = listeners.topic.hint(payload) else { return };
        for (_, mailbox) in &listeners.mailboxes {
            mailbox.post(hint);
        }
    }

    fn deliver_to_us(&self, payload: &[u8]) {
        let received = Clock::boot().now();
        let Some((message, lock)) = Message::read(payload) else { return };
        if let Some(audience) = self.lock().locks.get_mut(lock) {
            audience.hear(message, received);
        }
    }

    /// The channel on which the client of a request would be told about the lock: the inbox, if the
    /// lock is watched and the inbox is heard.
    pub(crate) fn inbox_for(&self, lock: &[u8]) -> Option<Inbox> {
        let state = self.lock();
        if !state.hears_inbox || !state.locks.contains_key(lock) {
            return None;
        }
        self.inbox.clone().map(Inbox)
    }

    /// The same for a request that is about to be sent, whose place in the queue is expected then.
    pub(crate) fn inbox_of(&self, lock: &[u8], request: &Acquire) -> Option<Inbox> {
        let mut state = self.lock();
        if !state.hears_inbox {
            return None;
        }
        let audience = state.locks.get_mut(lock)?;
        if request.queue {
            audience.expect(request, Clock::boot().now());
        }
        self.inbox.clone().map(Inbox)
    }

    /// Whether the store has said that a claim has a place in the queue, and nothing since.
    pub(crate) fn has_place(&self, lock: &[u8], owner: OwnerToken) -> bool {
        self.lock().locks.get(lock).is_some_and(|audience| audience.has_place(owner))
    }

    /// Notes how the clocks stood when a claim got its place in the queue.
    pub(crate) fn compare(&self, lock: &[u8], owner: OwnerToken, sample: Sample) {
        if let Some(audience) = self.lock().locks.get_mut(lock) {
            audience.compare(owner, sample);
        }
    }

    /// Notes that a claim does not wait any more. Returns whether this client watches the lock.
    pub(crate) fn forget(&self, lock: &[u8], owner: OwnerToken) -> bool {
        let mut state = self.lock();
        // Most clients watch nothing, and need not look for the lock.
        if state.locks.is_empty() {
            return false;
        }
        let audience = state.locks.get_mut(lock);
        audience.map(|audience| audience.forget(owner)).is_some()
    }

    /// Names who is woken when keys may have changed. Whoever was before is woken to find out, and so is one
    /// that comes too late, of a task before the latest.
    pub(super) fn wake_reader(&self, by: Generation, reader: Arc<Notify>) {
        let mut state = self.lock();
        if state.latest != by {
            return reader.notify_one();
        }
        if !state.changed.is_empty() {
            reader.notify_one();
        }
        if let Some(before) = state.reader.replace(reader) {
            before.notify_one();
        }
    }

    /// The locks that may have changed since this was asked before; `None` if another one reads by now, or
    /// nobody.
    pub(super) fn changed(&self, reader: &Arc<Notify>) -> Option<HashSet<Channel>> {
        let mut state = self.lock();
        let is_reader = state.reader.as_ref().is_some_and(|present| Arc::ptr_eq(present, reader));
        is_reader.then(|| std::mem::take(&mut state.changed))
    }

    /// Notes what a lock was found to hold, by a look because something `happened` to it or for the
    /// first time.
    pub(super) fn see(&self, lock: &Channel, seen: Seen, happened: bool) {
        if let Some(audience) = self.lock().locks.get_mut(lock) {
            audience.see(seen, happened);
        }
    }

    /// Whether this client watches the lock.
    pub(crate) fn watches(&self, lock: &[u8]) -> bool {
        self.lock().locks.contains_key(lock)
    }

    /// The keys of all locks that are watched.
    pub(super) fn locks(&self) -> Vec<Channel> {
        self.lock().locks.keys().cloned().collect()
    }

    /// Adds a watcher of a lock.
    pub(super) fn enter(&self, lock: &Channel, id: Id, mailbox: &Arc<Mailbox>) {
        self.lock().locks.entry(Arc::clone(lock)).or_default().add(id, mailbox);
    }

    /// Removes a watcher of a lock.
    pub(super) fn leave(&self, lock: &Channel, id: Id) {
        let mut state = self.lock();
        let Entry::Occupied(mut entry) = state.locks.entry(Arc::clone(lock)) else { return };
        if entry.get_mut().remove(id) {
            entry.remove();
            state.changed.remove(lock);
        }
    }

    /// Adds a listener. Returns whether it is the first of the channel.
    pub(super) fn add(
        &self,
        channel: &Channel,
        topic: Topic,
        id: Id,
        mailbox: &Arc<Mailbox>,
    ) -> bool {
        let listener = (id, Arc::clone(mailbox));
        match self.lock().channels.entry(Arc::clone(channel)) {
            Entry::Occupied(mut entry) => {
                entry.get_mut().mailboxes.push(listener);
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(Listeners { topic, confirmed: false, mailboxes: vec![listener] });
                true
            }
        }
    }

    /// Removes a listener. Returns whether it was the last of the channel.
    pub(super) fn remove(&self, channel: &Channel, id: Id) -> bool {
        let mut state = self.lock();
        let Entry::Occupied(mut entry) = state.channels.entry(Arc::clone(channel)) else {
            return false;
        };
        entry.get_mut().mailboxes.retain(|(listener, _)| *listener != id);
        let last = entry.get().mailboxes.is_empty();
        if last {
            entry.remove();
        }
        last
    }

    pub(super) fn has(&self, channel: &Channel) -> bool {
        self.lock().channels.contains_key(channel)
    }

    /// The channel on which this client alone is told, if it wants to be.
    pub(super) fn inbox(&self) -> Option<&Channel> {
        self.inbox.as_ref()
    }

    /// Begins the time of another task, which has heard nothing yet.
    pub(super) fn take_over(&self) -> Generation {
        let mut state = self.lock();
        state.latest += 1;
        state.hear_nothing();
        state.latest
    }

    /// Notes that the server sends what is said on these channels.
    pub(super) fn confirm<'a>(
        &self,
        by: Generation,
        confirmed: impl IntoIterator<Item = &'a Channel>,
    ) {
        let mut state = self.lock();
        if state.latest != by {
            return;
        }
        for channel in confirmed {
            if Some(channel) == self.inbox.as_ref() {
                state.hears_inbox = true;
            } else if let Some(listeners) = state.channels.get_mut(channel) {
                listeners.confirmed = true;
            }
        }
    }

    /// Notes that the server sends nothing any more.
    pub(super) fn disconnect(&self, by: Generation) {
        let mut state = self.lock();
        if state.latest == by {
            state.hear_nothing();
        }
    }

    /// Whether the server sends what is said on the channel whose name is in two pieces.
    pub(super) fn hears(&self, channel: [&[u8]; 2]) -> bool {
        let state = self.lock();
        !state.channels.is_empty()
            && state.channels.get(channel.concat().as_slice()).is_some_and(|it| it.confirmed)
    }

    /// All channels that have listeners.
    pub(super) fn channels(&self) -> Vec<Channel> {
        self.lock().channels.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn read_again(&mut self, key: &[u8]) {
        let Some((lock, _)) = self.locks.get_key_value(key) else { return };
        if let Some(reader) = &self.reader
            && self.changed.insert(Arc::clone(lock))
        {
            reader.notify_one();
        }
    }

    fn read_all_again(&mut self) {
        if let Some(reader) = &self.reader {
            self.changed.extend(self.locks.keys().cloned());
            reader.notify_one();
        }
    }

    fn hear_nothing(&mut self) {
        self.hears_inbox = false;
        self.changed.clear();
        if let Some(reader) = self.reader.take() {
            reader.notify_one();
        }
        for listeners in self.channels.values_mut() {
            listeners.confirmed = false;
        }
    }
}

impl Topic {
    /// What a message means to somebody who waits for the lock or holds it, if anything.
    ///
    /// To take a lock is to `set` it: no reason to wake up for a claim that waits, while a holder looks whether it
    /// still is one. No event tells what our scripts do to hand a lock over and to renew it.
    fn hint(self, payload: &[u8]) -> Option<Hint> {
        match (self, payload) {
            (Self::Releases, b"changed") => Some(Hint::Changed),
            (Self::Releases, _) => Some(Hint::Released),
            (Self::Keyspace, b"del" | b"rename_from" | b"move_from") => Some(Hint::Released),
            (Self::Keyspace, b"expired" | b"evicted") => Some(Hint::Expired),
            (Self::Keyspace, b"set" | b"rename_to" | b"move_to" | b"copy_to" | b"restore") => {
                Some(Hint::Changed)
            }
            (Self::Keyspace, _) => None,
        }
    }
}
