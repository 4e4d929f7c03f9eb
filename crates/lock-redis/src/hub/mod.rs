//! Watching: hints about keys, from one subscription per channel.

mod audience;
mod channel;
mod entering;
mod inbox;
mod listening;
mod mailbox;
pub(crate) mod notifications;
mod refusal;
mod registry;
mod shard;
mod sharding;
mod subscriber;
mod task;
mod term;
pub(crate) mod tracking;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use lock_core::{Acquire, Claim, Error, ErrorKind, Hint, OwnerToken, Watch};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time;

pub(crate) use self::channel::Channel;
use self::channel::Id;
pub(crate) use self::entering::Sample;
pub(crate) use self::inbox::{Inbox, number, tokens};
pub(crate) use self::listening::Listening;
use self::mailbox::Mailbox;
pub(crate) use self::registry::Registry;
use self::task::{Command, Join, Task};
use crate::keys::Names;
use crate::link::Link;
use crate::wire::Failure;

/// The source of watches.
#[derive(Debug)]
pub(crate) struct Hub {
    link: Link,
    registry: Arc<Registry>,
    listening: Listening,
    /// The channel to the task, which the first watch starts.
    task: Mutex<Option<mpsc::UnboundedSender<Command>>>,
}

impl Hub {
    pub(crate) fn new(link: Link, registry: Arc<Registry>, listening: Listening) -> Self {
        Self { link, registry, listening, task: Mutex::new(None) }
    }

    pub(crate) fn listening(&self) -> Listening {
        self.listening
    }

    /// Whether this client certainly hears of the releases of a lock.
    pub(crate) fn hears_releases(&self, names: &Names<'_>) -> bool {
        self.registry.hears(names.released())
    }

    /// The inbox for messages about the lock of a request; `None` if this client does not watch the lock. If the
    /// request is to be queued, a place in the queue is expected, and a pushed grant counts only if it needs no
    /// confirmation.
    pub(crate) fn inbox_of(
        &self,
        names: &Names<'_>,
        request: &Acquire,
        confirms: bool,
    ) -> Option<Inbox> {
        self.registry.inbox_of(names.lock(), request, confirms)
    }

    /// The inbox for messages about a lock that this client holds; `None` if this client does not watch the
    /// lock.
    pub(crate) fn inbox_for(&self, names: &Names<'_>) -> Option<Inbox> {
        self.registry.inbox_for(names.lock())
    }

    /// Whether this client watches the lock. Then the quick scripts do not do everything that is needed.
    pub(crate) fn watches(&self, names: &Names<'_>) -> bool {
        self.registry.watches(names.lock())
    }

    /// Whether the store has confirmed the place of a claim in the queue, and no later message ended it.
    pub(crate) fn has_place(&self, names: &Names<'_>, claim: &Claim) -> bool {
        self.registry.has_place(names.lock(), claim.owner)
    }

    /// Notes how the clocks stood when a claim got its place in the queue.
    pub(crate) fn compare(&self, names: &Names<'_>, owner: OwnerToken, sample: Sample) {
        self.registry.compare(names.lock(), owner, sample);
    }

    /// Notes that a claim has stopped waiting. Returns whether this client [watches](Self::watches) the lock.
    pub(crate) fn forget(&self, names: &Names<'_>, claim: &Claim) -> bool {
        self.registry.forget(names.lock(), claim.owner)
    }

    /// Starts to watch, and returns once no hint can be missed.
    pub(crate) async fn watch(&self, names: &Names<'_>) -> Result<Watch, Failure> {
        if self.listening.to_nothing() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "keyspace notifications, release messages and tracking are all switched off",
            )
            .into());
        }
        let mailbox = Arc::new(Mailbox::default());
        let (done, joined) = oneshot::channel();
        let ticket = Ticket::new(self.task()?);
        ticket
            .task
            .send(Command::Join(Join {
                id: ticket.id,
                lock: names.lock().into(),
                state: names.state().concat().into(),
                releases: names.released().concat().into(),
                keyspace: names.keyspace().concat().into(),
                mailbox: Arc::clone(&mailbox),
                done,
            }))
            .map_err(|_| gone())?;
        let settings = self.link.settings();
        // The task may have to connect first.
        let limit = settings.connect_timeout + settings.command_timeout;
        match time::timeout(limit, joined).await {
            Ok(Ok(outcome)) => outcome?,
            Ok(Err(_)) => return Err(gone().into()),
            Err(_) => {
                // The task may live on a runtime that no thread drives. The next watch starts another task.
                self.leave(&ticket.task);
                let origin = &settings.origin;
                let message = format!("{origin} did not confirm a subscription within {limit:?}");
                return Err(Error::new(ErrorKind::Timeout, message).into());
            }
        }
        Ok(Watch::new(Hints { mailbox, _ticket: ticket }))
    }

    /// Forgets a task. Its watches end once it runs again or the last of them is dropped.
    fn leave(&self, task: &mpsc::UnboundedSender<Command>) {
        let mut slot = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|present| present.same_channel(task)) {
            *slot = None;
        }
    }

    /// The channel to the task. Starts the task if there is none or its runtime has gone.
    fn task(&self) -> Result<mpsc::UnboundedSender<Command>, Error> {
        let runtime = Handle::try_current().map_err(|error| {
            let message = "a watch begins in the context of a tokio runtime only";
            Error::with_source(ErrorKind::InvalidConfig, message, error)
        })?;
        let mut slot = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = slot.as_ref().filter(|task| !task.is_closed()) {
            return Ok(task.clone());
        }
        let (task, commands) = mpsc::unbounded_channel();
        let (link, registry) = (self.link.clone(), Arc::clone(&self.registry));
        runtime.spawn(Task::new(link, registry, self.listening, commands).run());
        *slot = Some(task.clone());
        Ok(task)
    }
}

/// A place among the watchers. Dropping it gives the place up, without waiting.
#[derive(Debug)]
struct Ticket {
    id: Id,
    task: mpsc::UnboundedSender<Command>,
}

impl Ticket {
    fn new(task: mpsc::UnboundedSender<Command>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), task }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A task that has gone keeps nothing.
        let _ = self.task.send(Command::Leave(self.id));
    }
}

/// The hints of one watch.
struct Hints {
    mailbox: Arc<Mailbox>,
    _ticket: Ticket,
}

impl Stream for Hints {
    type Item = Hint;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        self.mailbox.poll_next(context)
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Unreachable, "the tokio runtime that kept the watches has gone")
}
