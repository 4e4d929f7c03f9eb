//! What this client hears: one session, and one stream of watches for all its keys.

mod desk;
mod places;
mod session;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures::{Stream, StreamExt};
use lock_core::hints::{Giver, Taker, hints};
use lock_core::{Claim, Clock, Error, Hint, Instant, Key, OwnerToken, Ttl};
use tokio::sync::{Notify, oneshot};

pub(crate) use self::places::Place;
use self::places::Places;
pub(crate) use self::session::run;
use crate::news::{News, What};

/// The session and the watches of a client, as its requests see them.
pub(crate) struct Hub {
    state: Mutex<State>,
    commands: UnboundedSender<Command>,
    /// A place was added, or got another end.
    pub(crate) places_changed: Notify,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    ears: HashMap<Key, Vec<Ear>>,
    places: Places,
    last_ear: u64,
    /// The client has ended.
    is_closed: bool,
}

/// The session of this client: a lease of etcd that lives as long as the client can hear.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: i64,
    /// By this instant, etcd has not ended it.
    lives_until: Instant,
}

/// One watch of a key.
struct Ear {
    id: u64,
    hints: Giver,
}

/// What the task of the hub is to do.
pub(super) enum Command {
    /// Watch the bell of a key, and say when that is sure.
    Listen { key: Key, ready: oneshot::Sender<Result<(), Error>> },
    /// The last watch of a key was dropped, unless another one was added meanwhile.
    Unlisten { key: Key },
    /// Watch these leases and no others for a claim, from the revision after this one on: their ends make room for the
    /// claim.
    Await { claim: Claim, leases: Vec<i64>, revision: i64 },
    /// A session is over.
    Over { session: i64 },
}

impl Hub {
    pub(crate) fn new() -> (Self, UnboundedReceiver<Command>) {
        let (commands, receiver) = mpsc::unbounded();
        let hub = Self { state: Mutex::default(), commands, places_changed: Notify::new() };
        (hub, receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, command: Command) {
        let _ended = self.commands.unbounded_send(command);
    }

    /// The session, if there is one.
    pub(crate) fn session(&self) -> Option<i64> {
        self.state().session.map(|session| session.id)
    }

    /// Whether this client would hear news of the key.
    pub(crate) fn listens(&self, key: &Key) -> bool {
        let state = self.state();
        state.session.is_some() && state.ears.contains_key(key)
    }

    /// A request has found that a session is over.
    pub(crate) fn over(&self, session: i64) {
        self.command(Command::Over { session });
    }

    /// Begins to listen for hints about a key.
    pub(crate) fn listen(&self, key: &Key) -> (Hearing, oneshot::Receiver<Result<(), Error>>) {
        let (giver, hints) = hints();
        let (ready, is_ready) = oneshot::channel();
        let mut state = self.state();
        state.last_ear += 1;
        let id = state.last_ear;
        let hearing = Hearing { id, key: key.clone(), hints };
        if !state.is_closed {
            state.ears.entry(key.clone()).or_default().push(Ear { id, hints: giver });
            drop(state);
            self.command(Command::Listen { key: key.clone(), ready });
        }
        (hearing, is_ready)
    }

    /// Ends all watches, and begins no other one: the client ends.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let ears = std::mem::take(&mut state.ears);
        drop(state);
        drop(ears);
    }

    /// Ends the watches of a key, which hear no more.
    fn deafen(&self, key: &Key) {
        let ears = self.state().ears.remove(key);
        drop(ears);
    }

    fn unlisten(&self, key: &Key, id: u64) {
        let mut state = self.state();
        let Some(ears) = state.ears.get_mut(key) else { return };
        let removed: Vec<_> = ears.extract_if(.., |ear| ear.id == id).collect();
        let is_last = ears.is_empty();
        if is_last {
            state.ears.remove(key);
        }
        drop(state);
        drop(removed);
        if is_last {
            self.command(Command::Unlisten { key: key.clone() });
        }
    }

    /// A claim has, or may get, a place.
    pub(crate) fn join(&self, claim: Claim, place: Place) {
        self.state().places.join(claim, place);
        self.places_changed.notify_one();
    }

    /// A claim has no place any more.
    pub(crate) fn leave(&self, claim: &Claim) {
        let left = self.state().places.leave(claim);
        if left.is_some() {
            self.await_ends(claim, Vec::new(), 0);
        }
    }

    /// The place of the claim ends now, if it has one.
    pub(crate) fn end_place(&self, claim: &Claim) {
        self.state().places.end(claim, Clock::boot().now());
        self.places_changed.notify_one();
    }

    /// Whether a claim has a place.
    pub(crate) fn has_place(&self, claim: &Claim) -> bool {
        self.state().places.has(claim)
    }

    /// Watches leases whose ends make room for this claim, and no others. There are such leases if the claim is the
    /// first in the queue.
    pub(crate) fn await_ends(&self, claim: &Claim, leases: Vec<i64>, revision: i64) {
        self.command(Command::Await { claim: claim.clone(), leases, revision });
    }

    /// Takes the places that end now, and says when the next one does.
    pub(crate) fn take_due(&self, now: Instant) -> (Vec<(Claim, Place)>, Option<Instant>) {
        let mut state = self.state();
        let (due, next) = (state.places.take_due(now), state.places.next());
        drop(state);
        due.iter().for_each(|(claim, _)| self.await_ends(claim, Vec::new(), 0));
        (due, next)
    }

    fn keys(&self) -> Vec<Key> {
        self.state().ears.keys().cloned().collect()
    }

    fn begin(&self, id: i64, lives_until: Instant) {
        self.state().session = Some(Session { id, lives_until });
    }

    fn extend(&self, id: i64, until: Instant) {
        let mut state = self.state();
        if let Some(session) = state.session.as_mut().filter(|session| session.id == id) {
            session.lives_until = session.lives_until.max(until);
        }
    }

    /// Until when the session lives for sure; `None` if it is over.
    fn lives_until(&self, id: i64) -> Option<Instant> {
        let session = self.state().session.filter(|session| session.id == id)?;
        (session.lives_until > Clock::boot().now()).then_some(session.lives_until)
    }

    /// The session is over, and with it every place.
    fn end(&self) {
        let mut state = self.state();
        state.session = None;
        state.places.clear();
    }

    /// Tells all watches of a key. Wakers run after the state is unlocked.
    fn tell(&self, key: &Key, hint: &Hint) {
        let ears = givers(self.state().ears.get(key).into_iter().flatten());
        ears.iter().for_each(|ear| ear.give(hint.clone()));
    }

    /// Tells all watches of all keys that they may have missed hints.
    fn resync(&self) {
        let ears = givers(self.state().ears.values().flatten());
        ears.iter().for_each(|ear| ear.give(Hint::Resync));
    }

    /// Passes news on to the watches of their key.
    fn deliver(&self, news: News) {
        let News { key, what } = news;
        let hint = match what {
            What::Granted { owner, number, pushed } => {
                let until = number.and_then(|number| self.deadline(&key, owner, number));
                let grant = until.map(|until| pushed.until(until));
                self.places_changed.notify_one();
                Hint::Granted { owner, grant }
            }
            What::Next { owner, after } => Hint::Next { owner, after },
            What::Contended => Hint::Contended,
            What::Expired => Hint::Expired,
        };
        self.tell(&key, &hint);
    }

    /// Until when the grant of a place that was just announced is valid. This client ends it, or else its session does.
    /// `None` if the client cannot know: it has no such place any more, or has heard of the grant before.
    fn deadline(&self, key: &Key, owner: OwnerToken, number: u32) -> Option<Instant> {
        let now = Clock::boot().now();
        let mut state = self.state();
        let ends = state.places.grant(key, owner, number, now)?;
        let lives_until = state.session?.lives_until;
        drop(state);
        let left = ends.saturating_duration_since(now);
        let own_end = now + left.saturating_sub(drift(left));
        // The clock of etcd may have run faster ever since the session was last kept alive.
        Some(own_end.min(lives_until - drift(session::SESSION)))
    }

    /// Whether no watch and no place needs a session.
    fn is_idle(&self) -> bool {
        let state = self.state();
        state.ears.is_empty() && state.places.is_empty()
    }

    fn has_ears(&self, key: &Key) -> bool {
        self.state().ears.contains_key(key)
    }

    fn waits(&self, claim: &Claim) -> bool {
        self.state().places.waits(claim)
    }
}

/// By how much two clocks may differ after this time.
fn drift(time: Duration) -> Duration {
    Ttl::new(time.max(Ttl::MIN.duration())).map_or(time, Ttl::drift)
}

fn givers<'a>(ears: impl Iterator<Item = &'a Ear>) -> Vec<Giver> {
    ears.map(|ear| ear.hints.clone()).collect()
}

/// A watch that was begun, without its hub.
pub(crate) struct Hearing {
    id: u64,
    key: Key,
    hints: Taker,
}

/// A watch, as its user sees it. It ends when it is dropped.
pub(crate) struct Hints {
    hub: std::sync::Arc<Hub>,
    hearing: Hearing,
}

impl Hints {
    pub(crate) fn new(hub: std::sync::Arc<Hub>, hearing: Hearing) -> Self {
        Self { hub, hearing }
    }
}

impl Stream for Hints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        self.hearing.hints.poll_next_unpin(context)
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.hub.unlisten(&self.hearing.key, self.hearing.id);
    }
}
