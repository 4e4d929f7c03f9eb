//! Who listens to what.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Acquire, Clock, Hint, OwnerToken};
use tokio::sync::Notify;

use super::audience::Audience;
use super::entering::Sample;
use super::inbox::{Inbox, Message};
use super::mailbox::Mailbox;
use super::tracking::Seen;
use crate::wire::Push;

/// The name of a channel, or the key of a lock.
pub(crate) type Channel = Arc<[u8]>;

/// Tells watchers apart.
pub(crate) type Id = u64;

/// Tells the tasks of a hub apart, which follow one another.
pub(super) type Generation = u64;

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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};
    use std::time::Duration;

    use futures::FutureExt as _;
    use futures::task::noop_waker;
    use lock_core::{Claim, Grant, Instant, Key, OwnerToken, Ttl};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::wire::garbage;

    #[test]
    fn a_channel_is_heard_from_its_confirmation_to_the_end_of_the_connection() {
        let registry = Registry::default();
        let channel = Channel::from(&b"lock:{a}:released@0"[..]);
        let pieces: [&[u8]; 2] = [b"lock:{a}", b":released@0"];
        assert!(registry.add(&channel, Topic::Releases, 1, &Arc::default()));
        assert!(!registry.hears(pieces));
        registry.confirm(0, [&channel]);
        assert!(registry.hears(pieces));
        // A second listener needs no other confirmation.
        assert!(!registry.add(&channel, Topic::Releases, 2, &Arc::default()));
        assert!(registry.hears(pieces));
        registry.disconnect(0);
        assert!(!registry.hears(pieces));
        registry.confirm(0, [&channel]);
        assert!(!registry.remove(&channel, 1) && registry.remove(&channel, 2));
        assert!(!registry.hears(pieces));
    }

    #[test]
    fn the_inbox_is_for_locks_that_are_watched_while_it_is_heard() {
        let inbox = Channel::from(&b"lock:inbox:7"[..]);
        let registry = Registry::new(Some(Arc::clone(&inbox)));
        let lock = Channel::from(&b"lock:{a}"[..]);
        registry.enter(&lock, 1, &Arc::default());
        assert_eq!(registry.inbox_for(&lock), None);
        registry.confirm(0, [&inbox]);
        assert_eq!(registry.inbox_for(&lock), Some(Inbox(Arc::clone(&inbox))));
        assert_eq!(registry.inbox_for(b"lock:{b}"), None);
        registry.disconnect(0);
        assert_eq!(registry.inbox_for(&lock), None);
        registry.confirm(0, [&inbox]);
        registry.leave(&lock, 1);
        assert_eq!(registry.inbox_for(&lock), None);
    }

    /// Whether somebody was woken, which is then forgotten.
    fn is_woken(bell: &Notify) -> bool {
        bell.notified().now_or_never().is_some()
    }

    #[test]
    fn the_reader_of_the_latest_task_reads_what_changed() {
        let registry = Registry::default();
        let (lock, other) = (Channel::from(LOCK), Channel::from(&b"lock:{b}"[..]));
        registry.enter(&lock, 1, &Arc::default());
        registry.enter(&other, 2, &Arc::default());
        let [first, second, late] = [(); 3].map(|()| Arc::new(Notify::new()));
        let older = registry.take_over();
        registry.wake_reader(older, Arc::clone(&first));
        registry.hear(Push::Invalid { key: LOCK });
        assert!(is_woken(&first));
        // It is displaced before it has looked, by one who has to.
        registry.wake_reader(older, Arc::clone(&second));
        assert!(is_woken(&first) && is_woken(&second));
        assert_eq!(registry.changed(&first), None);
        assert_eq!(registry.changed(&second), Some(HashSet::from([lock])));
        let newer = registry.take_over();
        assert!(is_woken(&second));
        registry.wake_reader(newer, Arc::clone(&first));
        registry.wake_reader(older, Arc::clone(&late));
        assert!(is_woken(&late) && !is_woken(&first));
        assert_eq!(registry.changed(&late), None);
        registry.hear(Push::Invalid { key: &other });
        assert!(is_woken(&first));
        // What nobody watches any more is not read.
        registry.leave(&other, 2);
        assert_eq!(registry.changed(&first), Some(HashSet::new()));
    }

    #[test]
    fn a_new_value_is_no_release() {
        assert_eq!(Topic::Releases.hint(b"released"), Some(Hint::Released));
        assert_eq!(Topic::Releases.hint(b"changed"), Some(Hint::Changed));
    }

    #[test]
    fn what_others_do_to_a_key_is_told_and_what_we_do_is_not() {
        for (event, hint) in [
            (&b"del"[..], Some(Hint::Released)),
            (b"move_from", Some(Hint::Released)),
            (b"evicted", Some(Hint::Expired)),
            (b"set", Some(Hint::Changed)),
            (b"rename_to", Some(Hint::Changed)),
            (b"restore", Some(Hint::Changed)),
            (b"setrange", None),
            (b"expire", None),
            (b"persist", None),
        ] {
            assert_eq!(Topic::Keyspace.hint(event), hint);
        }
    }

    const LOCK: &[u8] = b"lock:{a}";
    const INBOX: &[u8] = b"lock:inbox:7";
    const NOON: u64 = 1_795_000_000_000_000;

    /// What the server says, or something like it.
    #[derive(Clone, Debug)]
    enum Said {
        /// This claim was granted, so many microseconds after it took its place, for so many milliseconds.
        Granted {
            who: u8,
            lock: &'static [u8],
            after: i64,
            lease: u64,
        },
        On(Vec<u8>, Vec<u8>),
        Invalid(Vec<u8>),
        AllInvalid,
    }

    fn said() -> impl Strategy<Value = Said> {
        let channel = || {
            let known =
                select(vec![INBOX, b"lock:{a}:released@0", b"__keyspace@0__:lock:{a}", LOCK, b""]);
            prop_oneof![5 => known.prop_map(<[u8]>::to_vec), 1 => garbage::texts()]
        };
        let payload = prop_oneof![
            garbage::texts(),
            garbage::texts().prop_map(|text| [b"granted ", &text[..]].concat()),
            select(vec!["released", "changed", "del", "expired", "set", "wanted lock:{a}", "ask"])
                .prop_map(|text| text.as_bytes().to_vec()),
        ];
        let lease = prop_oneof![select(vec![0, 1, 1_000, 86_400_000, u64::MAX]), any::<u64>()];
        let after =
            prop_oneof![-3_000_000..3_000_000i64, select(vec![0, -(NOON as i64), i64::MAX])];
        prop_oneof![
            3 => (0..4u8, select(vec![LOCK, b"lock:{b}", b""]), after, lease)
                .prop_map(|(who, lock, after, lease)| Said::Granted { who, lock, after, lease }),
            3 => (channel(), payload).prop_map(|(channel, payload)| Said::On(channel, payload)),
            1 => channel().prop_map(Said::Invalid),
            1 => Just(Said::AllInvalid),
        ]
    }

    fn owner(who: u8) -> OwnerToken {
        OwnerToken::from_bytes([who; 16])
    }

    /// The grants that are told, with what was granted.
    fn grants(mailbox: &Mailbox) -> Vec<(OwnerToken, Grant)> {
        let waker = noop_waker();
        let mut grants = Vec::new();
        while let Poll::Ready(Some(hint)) = mailbox.poll_next(&Context::from_waker(&waker)) {
            if let Hint::Granted { owner, grant: Some(grant) } = hint {
                grants.push((owner, grant));
            }
        }
        grants
    }

    proptest! {
        /// Whatever is pushed, a grant is only for a claim that waits, at most once, of this lock, and no
        /// longer than what that claim expects.
        #[test]
        fn pushes_grant_only_what_is_waited_for(said in prop::collection::vec(said(), 0..20)) {
            let registry = Registry::new(Some(INBOX.into()));
            let (lock, mailbox) = (Channel::from(LOCK), Arc::<Mailbox>::default());
            registry.enter(&lock, 1, &mailbox);
            registry.add(&Channel::from(&b"lock:{a}:released@0"[..]), Topic::Releases, 1, &mailbox);
            registry.add(&Channel::from(&b"__keyspace@0__:lock:{a}"[..]), Topic::Keyspace, 1, &mailbox);
            registry.confirm(0, [&Channel::from(INBOX)]);
            let ttl = Ttl::new(Duration::from_secs(9)).unwrap();
            let sent = Clock::boot().now();
            for who in [0, 1] {
                let claim = Claim::exclusive(Key::new("a").unwrap(), owner(who));
                registry.inbox_of(LOCK, &Acquire::new(claim, ttl).queued());
            }
            // Of the other it is not known how the clocks stood.
            registry.compare(LOCK, owner(0), Sample { sent, seen: NOON });
            let (mut proper, mut entered) = (false, Vec::new());
            for said in &said {
                match said {
                    Said::Granted { who, lock, after, lease } => {
                        let owner = owner(*who);
                        let digits = String::from_utf8_lossy(owner.expose());
                        let at = NOON.saturating_add_signed(*after);
                        let lock = String::from_utf8_lossy(lock);
                        let payload = format!("granted {digits} 7 9 {lease} {at} 1 {lock}");
                        let payload = payload.as_bytes();
                        proper |= *who == 0 && lock.as_bytes() == LOCK;
                        registry.hear(Push::Message { channel: INBOX, payload });
                    }
                    Said::On(channel, payload) => registry.hear(Push::Message { channel, payload }),
                    Said::Invalid(key) => registry.hear(Push::Invalid { key }),
                    Said::AllInvalid => registry.hear(Push::AllInvalid),
                }
                entered.extend(grants(&mailbox));
            }
            prop_assert!(entered.len() <= 1);
            for (who, grant) in entered {
                prop_assert!(proper && who == owner(0));
                let latest = Clock::boot().now() + ttl.claim().duration();
                prop_assert!(grant.valid_until < latest && grant.valid_until > Instant::from_nanos(0));
            }
        }
    }
}
