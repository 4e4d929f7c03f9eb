//! The listeners of each channel.

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Acquire, Clock, Hint, OwnerToken};
use tokio::sync::Notify;

use super::audience::{Audience, tell};
use super::channel::{Channel, Generation, Id, Seen};
use super::entering::Sample;
use super::inbox::{Inbox, Message};
use super::mailbox::{Mailbox, Woken};
use super::shard::{Shard, is_beside};
use super::term::Term;
use crate::wire::Push;

/// The subject of the messages on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Our own scripts report that they released the lock, or wrote the value beside it.
    Releases,
    /// The server reports which command changed the key.
    Keyspace,
}

/// The listeners of each channel.
///
/// The hub's task changes the registry. Connections read it where a message arrives, so a hint reaches its watcher
/// without passing through another task.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The channel for messages to this client alone, if it wants one. It names the term of the server.
    inbox: Option<Channel>,
    /// The inbox in a slot, while the server sends what is published there.
    shard: Option<Shard>,
    /// The slot of the last one.
    slot: Option<u16>,
    /// The channel in a slot to which the client is subscribing.
    sought: Option<Channel>,
    /// Woken when the server ends that subscription.
    shard_lost: Arc<Notify>,
    channels: HashMap<Channel, Listeners>,
    /// The watchers of each lock, by its key.
    locks: HashMap<Channel, Audience>,
    /// Whether the server has confirmed the subscription to the inbox.
    hears_inbox: bool,
    /// The latest task. Reports of earlier tasks do not count.
    latest: Generation,
    /// Wakes the reader of keys that may have changed, if there is one.
    reader: Option<Arc<Notify>>,
    /// The watched locks that may have changed since the last read. However often the server reports a key, the
    /// key is read once. Keys that no watcher watches are not kept.
    changed: HashSet<Channel>,
}

#[derive(Debug)]
struct Listeners {
    topic: Topic,
    /// Whether the server has confirmed the subscription to the channel.
    confirmed: bool,
    mailboxes: Vec<(Id, Arc<Mailbox>)>,
}

impl Registry {
    pub(crate) fn new(inbox: Option<Channel>) -> Self {
        Self { state: Mutex::new(State { inbox, ..State::default() }) }
    }

    /// Hands on a push of the server.
    pub(crate) fn hear(&self, push: Push<'_>) {
        match push {
            Push::Message { channel, payload } => drop(self.deliver(channel, payload)),
            Push::Ended { channel } => self.lock().lose(channel),
            Push::Invalid { key } => self.lock().read_again(key),
            Push::AllInvalid => {
                let mut woken = Woken::default();
                let mut state = self.lock();
                for audience in state.locks.values() {
                    woken.and(audience.tell(&Hint::Resync));
                }
                state.read_all_again();
                drop(state);
            }
        }
    }

    /// Hands a message to all listeners.
    fn deliver(&self, channel: &[u8], payload: &[u8]) -> Woken {
        let mut state = self.lock();
        if state.inbox.as_deref().is_some_and(|own| is_beside(own, channel)) {
            return state.deliver_to_us(payload);
        }
        let Some(listeners) = state.channels.get(channel) else { return Woken::default() };
        let hint = listeners.topic.hint(payload);
        hint.map(|hint| tell(&listeners.mailboxes, &hint)).unwrap_or_default()
    }

    /// The channel for messages to this client about the lock: the inbox, if the lock is watched and the inbox is
    /// heard.
    pub(crate) fn inbox_for(&self, lock: &[u8]) -> Option<Inbox> {
        let state = self.lock();
        if !state.hears_inbox || !state.locks.contains_key(lock) {
            return None;
        }
        state.named_inbox()
    }

    /// As [`inbox_for`](Self::inbox_for), for a request that is about to be sent. If it is to be queued, its place
    /// in the queue is expected from now on. A grant may have to be confirmed: if it is pushed, it is then a reason to
    /// ask, and no more.
    pub(crate) fn inbox_of(&self, lock: &[u8], request: &Acquire, confirms: bool) -> Option<Inbox> {
        let mut state = self.lock();
        if !state.hears_inbox {
            return None;
        }
        let audience = state.locks.get_mut(lock)?;
        if request.queue {
            audience.expect(request, confirms, Clock::boot().now());
        }
        state.named_inbox()
    }

    /// Whether the store has confirmed the place of a claim in the queue, and no later message ended it.
    pub(crate) fn has_place(&self, lock: &[u8], owner: OwnerToken) -> bool {
        self.lock().locks.get(lock).is_some_and(|audience| audience.has_place(owner))
    }

    /// Notes how the clocks stood when a claim got its place in the queue.
    pub(crate) fn compare(&self, lock: &[u8], owner: OwnerToken, sample: Sample) {
        if let Some(audience) = self.lock().locks.get_mut(lock) {
            audience.compare(owner, sample);
        }
    }

    /// Notes that a claim has stopped waiting. Returns whether this client watches the lock.
    pub(crate) fn forget(&self, lock: &[u8], owner: OwnerToken) -> bool {
        let mut state = self.lock();
        // Most clients watch no lock, and need no search.
        if state.locks.is_empty() {
            return false;
        }
        let audience = state.locks.get_mut(lock);
        audience.map(|audience| audience.forget(owner)).is_some()
    }

    /// Sets the reader that is woken when keys may have changed. Wakes the reader that it replaces, which then
    /// finds out. A reader of an earlier task comes too late, and is woken for that reason, too.
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

    /// The locks that may have changed since the last call; `None` if this reader was replaced, or there is none.
    pub(super) fn changed(&self, reader: &Arc<Notify>) -> Option<HashSet<Channel>> {
        let mut state = self.lock();
        let is_reader = state.reader.as_ref().is_some_and(|present| Arc::ptr_eq(present, reader));
        is_reader.then(|| std::mem::take(&mut state.changed))
    }

    /// Notes what a look at a lock found. The look was the first one, or something `happened` to the lock.
    pub(super) fn see(&self, lock: &Channel, seen: Seen, happened: bool) {
        let woken = self.lock().locks.get_mut(lock).map(|audience| audience.see(seen, happened));
        drop(woken);
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

    /// The channel for messages to this client alone, if it wants one.
    pub(super) fn inbox(&self) -> Option<Channel> {
        self.lock().inbox.clone()
    }

    /// Notes that a subscription to the inbox in a slot begins. `false` if there is a later task.
    pub(super) fn seek_in_slot(&self, by: Generation, shard: &Shard) -> bool {
        let mut state = self.lock();
        let is_latest = state.latest == by;
        if is_latest {
            state.sought = Some(Arc::clone(&shard.channel));
        }
        is_latest
    }

    /// Notes that the server has confirmed that subscription. `false` if it has ended the subscription since.
    pub(super) fn hear_in_slot(&self, by: Generation, shard: Shard) -> bool {
        let mut state = self.lock();
        let is_sought = state.latest == by && state.sought.as_ref() == Some(&shard.channel);
        if is_sought {
            state.sought = None;
            (state.slot, state.shard) = (Some(shard.slot), Some(shard));
        }
        is_sought
    }

    /// The slot of the last inbox in a slot, whichever task had it.
    pub(super) fn last_slot(&self) -> Option<u16> {
        self.lock().slot
    }

    /// Whether the server sends what is published on the inbox in a slot.
    pub(super) fn hears_in_slot(&self) -> bool {
        self.lock().shard.is_some()
    }

    /// Notes the term of the server that sends messages from now on.
    pub(super) fn begin_term(&self, by: Generation, term: Term) {
        let mut state = self.lock();
        if state.latest == by {
            state.shard = None;
            state.inbox = state.inbox.take().map(|inbox| term.name(&inbox).into());
        }
    }

    /// Starts the time of another task, which has heard nothing yet. It is woken when the server ends the subscription
    /// to the inbox in a slot.
    pub(super) fn take_over(&self) -> (Generation, Arc<Notify>) {
        let mut state = self.lock();
        state.latest += 1;
        state.hear_nothing();
        state.shard_lost = Arc::default();
        (state.latest, Arc::clone(&state.shard_lost))
    }

    /// Notes that the server has confirmed the subscriptions to these channels.
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
            if Some(channel) == state.inbox.as_ref() {
                state.hears_inbox = true;
            } else if let Some(listeners) = state.channels.get_mut(channel) {
                listeners.confirmed = true;
            }
        }
    }

    /// Notes that the server sends no more messages.
    pub(super) fn disconnect(&self, by: Generation) {
        let mut state = self.lock();
        if state.latest == by {
            state.hear_nothing();
        }
    }

    /// Whether the server has confirmed the subscription to the channel whose name is in two pieces.
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
    fn deliver_to_us(&mut self, payload: &[u8]) -> Woken {
        let received = Clock::boot().now();
        let Some((message, lock)) = Message::read(payload) else { return Woken::default() };
        let audience = self.locks.get_mut(lock);
        audience.map(|audience| audience.hear(message, received)).unwrap_or_default()
    }

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

    /// The inbox that claims name: the one in a slot, if there is one.
    fn named_inbox(&self) -> Option<Inbox> {
        let named = self.shard.as_ref().map(|shard| &shard.named);
        named.or(self.inbox.as_ref()).cloned().map(Inbox)
    }

    /// Notes that the server has ended a subscription in a slot.
    fn lose(&mut self, channel: &[u8]) {
        self.sought.take_if(|sought| **sought == *channel);
        if self.shard.take_if(|shard| *shard.channel == *channel).is_some() {
            self.shard_lost.notify_one();
        }
    }

    fn hear_nothing(&mut self) {
        self.hears_inbox = false;
        (self.shard, self.sought) = (None, None);
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
    /// The hint in a message, for a waiter or a holder of the lock.
    ///
    /// A lock is taken by `set`. A waiting claim has no reason to wake up for that, but a holder checks whether it
    /// still holds the lock. No event reports how our scripts hand a lock over and renew it.
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
