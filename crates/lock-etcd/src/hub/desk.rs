//! One stream of watches, and what its messages mean.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use lock_core::{Claim, Error, Hint, Key};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::session::{Ready, Waiting};
use super::{Command, Hub};
use crate::link::{Event, Feed, Link, WatchCreate, Watched};
use crate::naming::Names;
use crate::{failure, news};

/// For so long, a right that is missing after a login counts as missing.
const DENIED: Duration = Duration::from_secs(60);

/// What a watch of the stream is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topic {
    /// The key of the session, where others put news.
    Session,
    /// The bell of a lock.
    Bell(Key),
    /// The life of a lease, whose end makes room for this claim.
    Life(Claim, i64),
}

/// How to go on.
pub(super) enum Next {
    Go,
    /// All watches with which the stream began are there.
    Complete,
    /// The stream is broken.
    Reopen,
    /// The session is over.
    Over,
}

/// The stream of a session.
pub(super) struct Desk<'a> {
    pub(super) hub: &'a Hub,
    link: &'a Link,
    names: &'a Names,
    pub(super) session: i64,
    feed: Option<Feed>,
    topics: HashMap<i64, Topic>,
    last_id: i64,
    /// The revision at which the session was made, until a stream is complete.
    made_at: i64,
    /// The watches that were asked for, in order, and that have no answer yet. The server answers in this order.
    asked: VecDeque<i64>,
    /// The watches that the server has not confirmed yet, and the callers that wait for the answer.
    unconfirmed: HashMap<i64, Waiting>,
    /// Those of them with which the stream began.
    beginning: HashSet<i64>,
    /// The callers that wait for the next stream.
    waiting: Waiting,
    /// When a right was last missing, and the client logged in again.
    denied: Option<Instant>,
}

impl<'a> Desk<'a> {
    pub(super) fn new(
        hub: &'a Hub,
        link: &'a Link,
        names: &'a Names,
        session: i64,
        made_at: i64,
        waiting: Waiting,
    ) -> Self {
        Self {
            hub,
            link,
            names,
            session,
            feed: None,
            topics: HashMap::new(),
            last_id: 0,
            made_at,
            asked: VecDeque::new(),
            unconfirmed: HashMap::new(),
            beginning: HashSet::new(),
            waiting,
            denied: None,
        }
    }

    /// Opens a stream with the watches that are needed now.
    pub(super) async fn open(&mut self) -> Result<(), Error> {
        let first = self.begin();
        self.feed = Some(self.link.feed(first).await?);
        Ok(())
    }

    /// The watches with which a stream begins.
    fn begin(&mut self) -> Vec<WatchCreate> {
        self.feed = None;
        self.topics.clear();
        self.asked.clear();
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        self.waiting.extend(unconfirmed.into_values().flatten());
        // News may come as soon as the session is made.
        let mut first = vec![self.create(Topic::Session, self.made_at)];
        let mut bells = HashMap::new();
        for key in self.hub.keys() {
            let create = self.create(Topic::Bell(key.clone()), 0);
            bells.insert(key, create.watch_id);
            first.push(create);
        }
        self.beginning = first.iter().map(|create| create.watch_id).collect();
        for (key, ready) in std::mem::take(&mut self.waiting) {
            // If there is no bell, the caller is gone.
            let id = bells.get(&key);
            if let Some(waiting) = id.and_then(|id| self.unconfirmed.get_mut(id)) {
                waiting.push((key, ready));
            }
        }
        first
    }

    /// Answers all that wait.
    pub(super) fn refuse(&mut self, error: &Error) {
        let unconfirmed = self.unconfirmed.values_mut().flat_map(std::mem::take);
        answer(self.waiting.drain(..).chain(unconfirmed), &Err(error.clone()));
    }

    /// A new watch, from the revision after this one on, or from now on.
    fn create(&mut self, topic: Topic, revision: i64) -> WatchCreate {
        self.last_id += 1;
        let key = match &topic {
            Topic::Session => self.names.alive(self.session),
            Topic::Bell(key) => self.names.bell(key),
            Topic::Life(_, lease) => self.names.alive(*lease),
        };
        self.topics.insert(self.last_id, topic);
        self.unconfirmed.insert(self.last_id, Waiting::new());
        self.asked.push_back(self.last_id);
        let start_revision = if revision > 0 { revision + 1 } else { 0 };
        let watch_id = self.last_id;
        WatchCreate { key, range_end: Vec::new(), start_revision, watch_id }
    }

    fn watch(&mut self, topic: Topic, revision: i64) -> i64 {
        let create = self.create(topic, revision);
        let id = create.watch_id;
        if let Some(feed) = &self.feed {
            feed.watch(create);
        }
        id
    }

    fn cancel(&mut self, id: i64) {
        self.topics.remove(&id);
        self.unconfirmed.remove(&id);
        if let Some(feed) = &self.feed {
            feed.cancel(id);
        }
    }

    fn id_of(&self, topic: &Topic) -> Option<i64> {
        self.topics.iter().find(|(_, is)| *is == topic).map(|(id, _)| *id)
    }

    pub(super) fn obey(&mut self, command: Command) -> Next {
        match command {
            Command::Listen { key, ready } => self.listen(key, ready),
            Command::Unlisten { key } if !self.hub.has_ears(&key) => {
                self.cancel_all(|topic| matches!(topic, Topic::Life(claim, _) if claim.key == key));
                if let Some(id) = self.id_of(&Topic::Bell(key)) {
                    self.cancel(id);
                }
            }
            Command::Unlisten { .. } => {}
            Command::Await { claim, leases, revision } => {
                self.await_ends(&claim, &leases, revision);
            }
            Command::Over { session } if session == self.session => return Next::Over,
            Command::Over { .. } => {}
        }
        Next::Go
    }

    fn listen(&mut self, key: Key, ready: Ready) {
        let topic = Topic::Bell(key.clone());
        let id = self.id_of(&topic).unwrap_or_else(|| self.watch(topic, 0));
        match self.unconfirmed.get_mut(&id) {
            Some(waiting) => waiting.push((key, ready)),
            None => {
                let _gone = ready.send(Ok(()));
            }
        }
    }

    /// Cancels the watches of such topics.
    fn cancel_all(&mut self, is_over: impl Fn(&Topic) -> bool) {
        let over = self.topics.iter().filter(|(_, topic)| is_over(topic)).map(|(id, _)| *id);
        let over: Vec<_> = over.collect();
        over.into_iter().for_each(|id| self.cancel(id));
    }

    /// Watches these leases for a claim, and no others.
    fn await_ends(&mut self, claim: &Claim, leases: &[i64], revision: i64) {
        self.cancel_all(|topic| match topic {
            Topic::Life(of, lease) => of == claim && !leases.contains(lease),
            _ => false,
        });
        for lease in leases {
            let topic = Topic::Life(claim.clone(), *lease);
            if self.id_of(&topic).is_none() {
                self.watch(topic, revision);
            }
        }
    }

    /// Handles the next message of the stream.
    pub(super) async fn next(&mut self) -> Next {
        let message = match &mut self.feed {
            Some(feed) => feed.next().await,
            None => std::future::pending().await,
        };
        match message {
            Ok(watched) => self.handle(watched),
            Err(fault) => {
                tracing::debug!(error = %fault.error, "the stream of watches has ended");
                Next::Reopen
            }
        }
    }

    fn handle(&mut self, watched: Watched) -> Next {
        let id = self.identify(&watched);
        if watched.canceled {
            return self.canceled(id, &watched);
        }
        if watched.created {
            answer(self.unconfirmed.remove(&id).into_iter().flatten(), &Ok(()));
            return self.answered(id);
        }
        let Some(topic) = self.topics.get(&id).cloned() else { return Next::Go };
        for event in &watched.events {
            if matches!(self.event(&topic, event), Next::Over) {
                return Next::Over;
            }
        }
        Next::Go
    }

    /// The number of the watch that a message is about. The server refuses to create a watch without naming the watch.
    fn identify(&mut self, watched: &Watched) -> i64 {
        if !watched.created {
            return watched.watch_id;
        }
        let first = self.asked.front().copied();
        let id = if watched.watch_id > 0 { Some(watched.watch_id) } else { first };
        if id == first {
            self.asked.pop_front();
        } else {
            self.asked.retain(|asked| Some(*asked) != id);
        }
        id.unwrap_or(watched.watch_id)
    }

    /// The server has answered the request for a watch.
    fn answered(&mut self, id: i64) -> Next {
        if self.beginning.remove(&id) && self.beginning.is_empty() {
            self.made_at = 0;
            return Next::Complete;
        }
        Next::Go
    }

    /// The server ends a watch: it was asked to, the revision to begin with is compacted, the proof of who the client
    /// is has expired, or a right is missing.
    fn canceled(&mut self, id: i64, watched: &Watched) -> Next {
        let topic = self.topics.remove(&id);
        let waiting = self.unconfirmed.remove(&id).unwrap_or_default();
        let status = refusal(&watched.cancel_reason);
        if failure::wants_new_token(&status) || self.needs_login(&status) {
            tracing::debug!(%status, "the stream of watches needs another login");
            // The watches that exist go on, but no other one can be created.
            if let Some(feed) = &self.feed {
                feed.give_up();
            }
            self.waiting.extend(waiting);
            return Next::Reopen;
        }
        match topic {
            Some(Topic::Life(claim, _)) => {
                // The lease may be over. A claim that asks again finds out.
                self.hub.tell(&claim.key, &Hint::Expired);
                self.answered(id)
            }
            Some(Topic::Bell(key)) if watched.created => {
                answer(waiting.into_iter(), &Err(failure::of(status)));
                // A claim that has listened before hears nothing more. Its client listens anew, and learns why it
                // cannot.
                self.hub.deafen(&key);
                self.answered(id)
            }
            // This client canceled it.
            None if id > 0 => self.answered(id),
            _ => {
                tracing::debug!(%status, "the server has ended a watch");
                self.made_at = 0;
                self.waiting.extend(waiting);
                let error = failure::of(status);
                if !error.is_retryable() {
                    self.refuse(&error);
                }
                Next::Reopen
            }
        }
    }

    /// Whether another login may undo this refusal: the cluster has got users, or has changed their rights. A stream is
    /// told in both cases that a right is missing, so the client makes sure of that from time to time.
    fn needs_login(&mut self, status: &Status) -> bool {
        let Some(feed) = &self.feed else { return false };
        let is_denied = status.code() == Code::PermissionDenied && feed.has_user();
        let is_sure = self.denied.is_some_and(|denied| denied.elapsed() < DENIED);
        if is_denied && !is_sure {
            self.denied = Some(Instant::now());
            return true;
        }
        feed.has_user() && failure::wants_user(status)
    }

    fn event(&mut self, topic: &Topic, event: &Event) -> Next {
        const PUT: i32 = 0;
        let value = event.kv.as_ref().map(|kv| kv.value.as_slice()).unwrap_or_default();
        match topic {
            Topic::Session if event.kind == PUT => {
                news::read(value).into_iter().for_each(|news| self.hub.deliver(news));
            }
            Topic::Session => return Next::Over,
            Topic::Bell(key) if event.kind == PUT => {
                for hint in news::rung(value) {
                    self.hub.tell(key, &hint);
                }
            }
            Topic::Life(claim, _) if event.kind != PUT && self.hub.waits(claim) => {
                self.hub.tell(&claim.key, &Hint::Expired);
            }
            Topic::Bell(_) | Topic::Life(..) => {}
        }
        Next::Go
    }
}

/// A caller that is gone needs no answer.
fn answer(waiting: impl Iterator<Item = (Key, Ready)>, with: &Result<(), Error>) {
    for (_, ready) in waiting {
        let _gone = ready.send(with.clone());
    }
}

/// Why the server ends a watch. It says so in words alone.
fn refusal(reason: &str) -> Status {
    if reason.contains("permission denied") {
        Status::permission_denied(reason)
    } else if reason.contains("invalid auth token") {
        Status::unauthenticated(reason)
    } else if reason.contains("auth store is old") || reason.contains("user name is empty") {
        Status::invalid_argument(reason)
    } else {
        Status::unavailable(reason)
    }
}
