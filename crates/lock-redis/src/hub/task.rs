//! The task that keeps the subscriptions.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use lock_core::{Error, ErrorKind, Hint};
use tokio::sync::{mpsc, oneshot};
use tokio::time;

use super::channel::{Channel, Generation, Id};
use super::listening::Listening;
use super::mailbox::{Keeper, Mailbox};
use super::refusal::{InboxState, Refusal};
use super::registry::{Registry, Topic};
use super::sharding::Sharding;
use super::subscriber::{Sources, Subscriber};
use crate::link::{Link, Respite};
use crate::slot;
use crate::wire::Failure;

/// The commands for the task.
#[derive(Debug)]
pub(super) enum Command {
    Join(Join),
    Leave(Id),
}

/// A request to watch.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) id: Id,
    /// The key of the lock.
    pub(super) lock: Channel,
    /// The key of its state.
    pub(super) state: Channel,
    pub(super) releases: Channel,
    pub(super) keyspace: Channel,
    pub(super) mailbox: Arc<Mailbox>,
    /// Completed once the watcher is sure to hear.
    pub(super) done: oneshot::Sender<Result<(), Failure>>,
}

/// Keeps the subscriptions: one per channel, for any number of watchers.
#[derive(Debug)]
pub(super) struct Task {
    link: Link,
    registry: Arc<Registry>,
    generation: Generation,
    listening: Listening,
    commands: mpsc::UnboundedReceiver<Command>,
    subscriber: Option<Subscriber>,
    /// The watches that have joined, with what they joined with.
    sources: Option<Sources>,
    members: HashMap<Id, Member>,
    joining: Vec<Join>,
    /// Channels that their last listener has left.
    deserted: Vec<Channel>,
    respite: Respite,
    refusal: Option<Refusal>,
    inbox: InboxState,
    sharding: Sharding,
}

#[derive(Debug)]
struct Member {
    keeper: Keeper,
    lock: Channel,
    state: Channel,
    channels: Vec<Channel>,
}

impl Task {
    pub(super) fn new(
        link: Link,
        registry: Arc<Registry>,
        listening: Listening,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let (generation, shard_lost) = registry.take_over();
        Self {
            link,
            generation,
            registry,
            listening,
            commands,
            subscriber: None,
            sources: None,
            members: HashMap::new(),
            joining: Vec::new(),
            deserted: Vec::new(),
            respite: Respite::default(),
            refusal: None,
            inbox: InboxState::Untried,
            sharding: Sharding::new(listening.routed, shard_lost),
        }
    }

    /// Runs until no more watches can come.
    pub(super) async fn run(mut self) {
        loop {
            let orphaned = self.subscriber.is_none() && !self.members.is_empty();
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.note(command),
                    None => return,
                },
                () = ended(self.subscriber.as_ref()) => drop(self.hang_up()),
                () = time::sleep(self.respite.remaining()), if orphaned => {}
                () = self.sharding.due(), if self.subscriber.is_some() => {}
            }
            while let Ok(command) = self.commands.try_recv() {
                self.note(command);
            }
            self.settle().await;
        }
    }

    fn note(&mut self, command: Command) {
        match command {
            Command::Join(join) => self.joining.push(join),
            Command::Leave(id) => {
                self.joining.retain(|join| join.id != id);
                if let Some(member) = self.members.remove(&id) {
                    self.registry.leave(&member.lock, id);
                    for channel in member.channels {
                        if self.registry.remove(&channel, id) {
                            self.deserted.push(channel);
                        }
                    }
                }
            }
        }
    }

    /// Makes the subscriptions on the server match the listeners.
    async fn settle(&mut self) {
        if self.subscriber.is_none() {
            self.deserted.clear();
            self.decline();
            if self.joining.is_empty() && (self.members.is_empty() || self.is_early()) {
                return;
            }
            match self.resubscribe().await {
                Ok(()) => self.respite.reset(),
                Err(error) => return self.refused(error),
            }
        }
        if let Err(error) = self.seek_slot().await {
            return self.refused(error);
        }
        if let Err(error) = self.admit().await {
            return self.refused(error);
        }
        if let Err(error) = self.desert().await {
            self.fail(&error);
        }
    }

    fn is_early(&self) -> bool {
        !self.respite.remaining().is_zero()
    }

    /// Opens a connection and subscribes for all who listened on the previous one.
    async fn resubscribe(&mut self) -> Result<(), Error> {
        let subscriber =
            Subscriber::open(&self.link, &self.registry, self.generation, self.listening).await?;
        if self.sources.is_some_and(|before| before != subscriber.sources()) {
            // The configuration of the server has changed. Callers that still wait start another
            // watch.
            self.dismiss();
        }
        self.sources = Some(subscriber.sources());
        self.registry.begin_term(self.generation, subscriber.term());
        let subscriber = self.subscriber.insert(subscriber);
        let mut channels = self.registry.channels();
        // Some channels may belong to an earlier task, whose runtime no thread drives.
        if channels.is_empty() && self.members.is_empty() {
            return Ok(());
        }
        let ours = self.registry.inbox();
        channels.extend(ours.clone());
        let refused = subscriber.subscribe(&channels).await?;
        channels.retain(|channel| !is_among(&refused, channel));
        self.registry.confirm(self.generation, &channels);
        self.inbox = InboxState::after(ours.is_none_or(|inbox| is_among(&refused, &inbox)));
        for (channel, _) in refused {
            self.close(&channel);
        }
        if let Some(subscriber) = &self.subscriber {
            subscriber.track(&self.registry, self.registry.locks()).await?;
            let members = self.members.values();
            subscriber.listen(members.map(|it| [&*it.lock, &*it.state])).await?;
        }
        for member in self.members.values() {
            drop(member.keeper.0.post(Hint::Resync));
        }
        Ok(())
    }

    /// Makes the inbox one in a slot of the server, if there can be one.
    async fn seek_slot(&mut self) -> Result<(), Error> {
        let Some(subscriber) = &self.subscriber else { return Ok(()) };
        let joining = self.joining.iter().map(|join| &join.lock);
        let locks = joining.chain(self.members.values().map(|member| &member.lock));
        let slots = self.sharding.due_slots(&self.registry, locks.map(|lock| slot::slot(lock)));
        let is_another =
            self.sharding.seek(subscriber, &self.registry, self.generation, slots).await?;
        // Claims that name the former one are heard, but each message to them costs more.
        if is_another {
            self.members.values().for_each(|member| drop(member.keeper.0.post(Hint::Resync)));
        }
        Ok(())
    }

    /// Declines the joining watches, if the server has refused and the refusal still holds.
    fn decline(&mut self) {
        self.refusal.take_if(|refusal| refusal.is_over());
        if let Some(Refusal { error, .. }) = &self.refusal {
            for join in self.joining.drain(..) {
                let _ = join.done.send(Err(error.clone().into()));
            }
        }
    }

    /// Admits the joining watches.
    async fn admit(&mut self) -> Result<(), Error> {
        if self.subscriber.is_none() || self.joining.is_empty() {
            return Ok(());
        }
        let tries_inbox = self.inbox.is_to_be_tried();
        let fresh = self.enter(tries_inbox);
        let mut moving = Vec::new();
        let outcome = self.listen_to(&fresh, &mut moving).await;
        moving.resize(self.joining.len(), None);
        if let Ok(refused) = &outcome {
            let heard = fresh.iter().filter(|channel| !is_among(refused, channel));
            self.registry.confirm(self.generation, heard);
            if tries_inbox {
                let ours = self.registry.inbox();
                let refused = ours.is_none_or(|inbox| is_among(refused, &inbox));
                self.inbox = InboxState::after(refused);
            }
        }
        for (join, moving) in std::mem::take(&mut self.joining).into_iter().zip(moving) {
            self.answer(join, moving, &outcome);
        }
        outcome.map(drop)
    }

    /// Enters the joining watches in the registry. Returns the channels that the server does not send yet.
    ///
    /// The client subscribes afterwards, so that the watches miss no message that comes after the confirmation.
    fn enter(&self, tries_inbox: bool) -> Vec<Channel> {
        let mut fresh = Vec::new();
        if tries_inbox {
            fresh.extend(self.registry.inbox());
        } else if self.inbox == InboxState::Heard {
            // An earlier task may have gone since, and said that it hears nothing any more.
            self.registry.confirm(self.generation, &self.registry.inbox());
        }
        let Some(subscriber) = &self.subscriber else { return fresh };
        for join in &self.joining {
            self.registry.enter(&join.lock, join.id, &join.mailbox);
            for (topic, channel) in join.channels(subscriber.sources()) {
                if self.registry.add(channel, topic, join.id, &join.mailbox) {
                    fresh.push(Arc::clone(channel));
                }
            }
        }
        fresh
    }

    /// Subscribes to these channels, and listens to the keys of the joining watches. Returns the channels that the
    /// server refuses.
    ///
    /// `moving` becomes the failure of each watch whose slot is being moved: it ends that watch, and not the watches of
    /// other locks.
    async fn listen_to(
        &self,
        fresh: &[Channel],
        moving: &mut Vec<Option<Failure>>,
    ) -> Result<Vec<(Channel, Error)>, Error> {
        let Some(subscriber) = &self.subscriber else { return Ok(Vec::new()) };
        let refused = subscriber.subscribe(fresh).await?;
        let locks = self.joining.iter().map(|join| Arc::clone(&join.lock));
        *moving = subscriber.track(&self.registry, locks).await?;
        let locks = self.joining.iter().map(|join| [&*join.lock, &*join.state]);
        for (moving, more) in moving.iter_mut().zip(subscriber.listen(locks).await?) {
            *moving = moving.take().or(more);
        }
        Ok(refused)
    }

    /// Tells the caller of a joining watch whether it is admitted.
    fn answer(
        &mut self,
        join: Join,
        moving: Option<Failure>,
        outcome: &Result<Vec<(Channel, Error)>, Error>,
    ) {
        let Some(sources) = self.subscriber.as_ref().map(Subscriber::sources) else { return };
        let is_here = moving.is_none();
        let (mut kept, mut why) = (Vec::new(), None);
        for (_, channel) in join.channels(sources) {
            match failure_of(channel, outcome).or(moving.clone()) {
                None => kept.push(Arc::clone(channel)),
                Some(failure) => {
                    why = Some(failure);
                    if self.registry.remove(channel, join.id) && !is_here {
                        self.deserted.push(Arc::clone(channel));
                    }
                }
            }
        }
        if kept.is_empty() && !(sources.tracking && outcome.is_ok() && is_here) {
            self.registry.leave(&join.lock, join.id);
            let _ = join.done.send(Err(why.unwrap_or_else(|| nothing_to_hear().into())));
            return;
        }
        if let Some(error) = why.map(Failure::into_error) {
            tracing::debug!(%error, "a watch begins with fewer sources of hints than configured");
        }
        let Join { id, lock, state, .. } = join;
        let keeper = Keeper(join.mailbox);
        self.members.insert(id, Member { keeper, lock, state, channels: kept });
        // If the caller waits no more, its message that it left is on its way.
        let _ = join.done.send(Ok(()));
    }

    /// Ends the subscriptions without a listener.
    async fn desert(&mut self) -> Result<(), Error> {
        let Some(subscriber) = &self.subscriber else { return Ok(()) };
        let mut channels = std::mem::take(&mut self.deserted);
        channels.retain(|channel| !self.registry.has(channel));
        subscriber.unsubscribe(&channels).await
    }

    /// The connection is of no use, or there is none.
    fn fail(&mut self, error: &Error) {
        self.hang_up();
        self.respite.failed();
        for join in self.joining.drain(..) {
            let _ = join.done.send(Err(error.clone().into()));
        }
        // A protocol error on one connection need not recur on the next.
        let is_lasting = !error.is_retryable() && error.kind() != ErrorKind::Protocol;
        if is_lasting && !self.members.is_empty() {
            tracing::warn!(%error, "watches have ended");
            self.dismiss();
        }
    }

    /// No watch can be admitted. The answer is kept if every watch would get it:
    /// another question would cost a connection each time.
    fn refused(&mut self, error: Error) {
        let subscriber = self.hang_up();
        self.fail(&error);
        let lasting = matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Denied);
        if let Some(subscriber) = subscriber.filter(|_| lasting) {
            tracing::warn!(%error, "waiters rely on time alone: no subscription is possible");
            let (live, since) = (subscriber.into_live(), Instant::now());
            self.refusal = Some(Refusal { live, since, error });
        }
    }

    /// Gives up the connection that carries messages.
    fn hang_up(&mut self) -> Option<Subscriber> {
        self.registry.disconnect(self.generation);
        self.inbox = InboxState::Untried;
        self.sharding.hang_up();
        self.subscriber.take()
    }

    /// Ends the watches that have this channel alone.
    fn close(&mut self, channel: &Channel) {
        let tracked = self.sources.is_some_and(|sources| sources.tracking);
        self.members.retain(|id, member| {
            let before = member.channels.len();
            member.channels.retain(|open| open != channel);
            if member.channels.len() < before {
                self.registry.remove(channel, *id);
            }
            let stays = tracked || !member.channels.is_empty();
            if !stays {
                self.registry.leave(&member.lock, *id);
            }
            stays
        });
    }

    /// Ends all watches.
    fn dismiss(&mut self) {
        for (id, member) in self.members.drain() {
            self.registry.leave(&member.lock, id);
            for channel in &member.channels {
                self.registry.remove(channel, id);
            }
        }
    }
}

/// The task also ends with its runtime, and its watches end with it.
impl Drop for Task {
    fn drop(&mut self) {
        self.registry.disconnect(self.generation);
        self.dismiss();
    }
}

impl Join {
    fn channels(&self, sources: Sources) -> impl Iterator<Item = (Topic, &Channel)> {
        let releases = sources.releases.then_some((Topic::Releases, &self.releases));
        let keyspace = sources.keyspace.then_some((Topic::Keyspace, &self.keyspace));
        releases.into_iter().chain(keyspace)
    }
}

fn is_among(refused: &[(Channel, Error)], channel: &Channel) -> bool {
    refused.iter().any(|(refused, _)| refused == channel)
}

/// Why a watch does not hear a channel, if the server does not send the channel.
fn failure_of(
    channel: &Channel,
    outcome: &Result<Vec<(Channel, Error)>, Error>,
) -> Option<Failure> {
    let error = match outcome {
        Ok(refused) => refused.iter().find(|(refused, _)| refused == channel).map(|it| &it.1),
        Err(error) => Some(error),
    };
    error.cloned().map(Failure::from)
}

async fn ended(subscriber: Option<&Subscriber>) {
    match subscriber {
        Some(subscriber) => subscriber.ended().await,
        None => pending().await,
    }
}

fn nothing_to_hear() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "there is nothing to listen to: the server sends no keyspace notifications, and release \
         messages are switched off",
    )
}
