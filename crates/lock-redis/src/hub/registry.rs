//! Who listens to which channel.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Hint;

use super::mailbox::Mailbox;

/// The name of a channel.
pub(crate) type Channel = Arc<[u8]>;

/// Tells watchers apart.
pub(crate) type Id = u64;

/// What is said on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Our own scripts say that they released the lock.
    Releases,
    /// The server says which command changed the key.
    Keyspace,
}

/// Who listens to which channel.
///
/// The hub's task changes it; connections read it, right where a message arrives, so that a hint
/// reaches its watcher without passing through another task.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<HashMap<Channel, Audience>>);

#[derive(Debug)]
struct Audience {
    topic: Topic,
    /// Whether the server has said that it sends what is said on the channel.
    confirmed: bool,
    listeners: Vec<(Id, Arc<Mailbox>)>,
}

impl Registry {
    /// Hands a message to all who listen.
    pub(crate) fn deliver(&self, channel: &[u8], payload: &[u8]) {
        let channels = self.lock();
        let Some(audience) = channels.get(channel) else { return };
        let Some(hint) = audience.topic.hint(payload) else { return };
        for (_, mailbox) in &audience.listeners {
            mailbox.post(hint);
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
        match self.lock().entry(Arc::clone(channel)) {
            Entry::Occupied(mut entry) => {
                entry.get_mut().listeners.push(listener);
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(Audience { topic, confirmed: false, listeners: vec![listener] });
                true
            }
        }
    }

    /// Removes a listener. Returns whether it was the last of the channel.
    pub(super) fn remove(&self, channel: &Channel, id: Id) -> bool {
        let mut channels = self.lock();
        let Entry::Occupied(mut entry) = channels.entry(Arc::clone(channel)) else { return false };
        entry.get_mut().listeners.retain(|(listener, _)| *listener != id);
        let last = entry.get().listeners.is_empty();
        if last {
            entry.remove();
        }
        last
    }

    pub(super) fn has(&self, channel: &Channel) -> bool {
        self.lock().contains_key(channel)
    }

    /// Notes that the server sends what is said on these channels.
    pub(super) fn confirm(&self, confirmed: &[Channel]) {
        let mut channels = self.lock();
        for channel in confirmed {
            if let Some(audience) = channels.get_mut(channel) {
                audience.confirmed = true;
            }
        }
    }

    /// Notes that the server sends nothing any more.
    pub(super) fn disconnect(&self) {
        for audience in self.lock().values_mut() {
            audience.confirmed = false;
        }
    }

    /// Whether the server sends what is said on the channel whose name is in two pieces.
    pub(super) fn hears(&self, channel: [&[u8]; 2]) -> bool {
        let channels = self.lock();
        !channels.is_empty()
            && channels.get(channel.concat().as_slice()).is_some_and(|audience| audience.confirmed)
    }

    /// All channels that have listeners.
    pub(super) fn channels(&self) -> Vec<Channel> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Channel, Audience>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    /// What a message means to somebody who waits for the lock, if anything.
    fn hint(self, payload: &[u8]) -> Option<Hint> {
        match (self, payload) {
            (Self::Releases, _) => Some(Hint::Released),
            (Self::Keyspace, b"del" | b"rename_from" | b"move_from") => Some(Hint::Released),
            (Self::Keyspace, b"expired" | b"evicted") => Some(Hint::Expired),
            // The lock was taken or renewed, which is no reason to wake up.
            (Self::Keyspace, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_heard_from_its_confirmation_to_the_end_of_the_connection() {
        let registry = Registry::default();
        let channel = Channel::from(&b"lock:{a}:released@0"[..]);
        let pieces: [&[u8]; 2] = [b"lock:{a}", b":released@0"];
        assert!(registry.add(&channel, Topic::Releases, 1, &Arc::default()));
        assert!(!registry.hears(pieces));
        registry.confirm(std::slice::from_ref(&channel));
        assert!(registry.hears(pieces));
        // A second listener needs no other confirmation.
        assert!(!registry.add(&channel, Topic::Releases, 2, &Arc::default()));
        assert!(registry.hears(pieces));
        registry.disconnect();
        assert!(!registry.hears(pieces));
        registry.confirm(std::slice::from_ref(&channel));
        assert!(!registry.remove(&channel, 1) && registry.remove(&channel, 2));
        assert!(!registry.hears(pieces));
    }
}
