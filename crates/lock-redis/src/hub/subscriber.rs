//! The connection that carries messages.

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use tokio::time;

use super::channel::{Channel, Generation};
use super::listening::Listening;
use super::notifications;
use super::registry::Registry;
use super::shard::Shard;
use super::term::Term;
use super::tracking::{self, Tracking};
use crate::link::{Dedicated, Link, Live};
use crate::scripts::LISTEN;
use crate::wire::{Call, Failure, Version};

/// The most channels in one command.
const BATCH: usize = 256;

/// The connection that carries messages: with RESP3 the connection of the requests, with RESP2 one of its own, which
/// is given up together with that of the requests.
#[derive(Debug)]
pub(super) struct Subscriber {
    link: Link,
    live: Arc<Live>,
    dedicated: Option<Dedicated>,
    tracking: Option<Tracking>,
    sources: Sources,
    listening: Listening,
    term: Term,
}

/// The sources of hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) releases: bool,
    pub(super) keyspace: bool,
    pub(super) tracking: bool,
}

/// What came of a subscription to the inbox in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InSlot {
    Heard,
    /// The server does not have the slot, or does not serve it now.
    Elsewhere,
    /// The server or the user has no such channels.
    Refused,
}

impl Subscriber {
    pub(super) async fn open(
        link: &Link,
        registry: &Arc<Registry>,
        generation: Generation,
        listening: Listening,
    ) -> Result<Self, Error> {
        let live = link.connected().await?;
        let term = Term::of(&live).await?;
        let keyspace = notifications::prepare(&live, listening.notifications).await?;
        let dedicated = match live.connection().version() {
            Version::Resp2 => Some(link.listen(&live).await?),
            Version::Resp3 => None,
        };
        let tracking = match &dedicated {
            None if listening.tracking => Tracking::start(&live, registry, generation).await?,
            _ => None,
        };
        // Every client that hears any messages hears of new values: their messages share a channel with those of
        // releases.
        let releases = listening.release_messages || keyspace || tracking.is_some();
        let sources = Sources { releases, keyspace, tracking: tracking.is_some() };
        Ok(Self { link: link.clone(), live, dedicated, tracking, sources, listening, term })
    }

    /// The term of the server.
    pub(super) fn term(&self) -> Term {
        self.term
    }

    pub(super) fn sources(&self) -> Sources {
        self.sources
    }

    /// The connection of the requests.
    pub(super) fn into_live(self) -> Arc<Live> {
        self.live
    }

    /// Returns when the connection has ended.
    pub(super) async fn ended(&self) {
        match &self.dedicated {
            None => self.live.closed().await,
            Some(dedicated) => tokio::select! {
                () = self.live.closed() => {}
                () = dedicated.closed() => {}
            },
        }
    }

    /// Subscribes, and awaits the confirmation. Returns the channels that this user may not subscribe to.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn subscribe(
        &self,
        channels: &[Channel],
    ) -> Result<Vec<(Channel, Error)>, Error> {
        let mut refused = Vec::new();
        for batch in channels.chunks(BATCH) {
            match self.send(batch, true).await {
                Ok(()) => {}
                // One forbidden channel makes the whole command fail.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    self.subscribe_singly(batch, &mut refused).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// Subscribes to the inbox in a slot, under both of its names.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn subscribe_in_slot(&self, shard: &Shard) -> Result<InSlot, Error> {
        if self.dedicated.is_some() {
            return Ok(InSlot::Refused);
        }
        let named = std::slice::from_ref(&shard.named);
        let (in_slot, refused) =
            tokio::join!(self.live.subscribe_in_slot(&shard.channel), self.subscribe(named));
        let is_refused = !refused?.is_empty();
        match in_slot {
            Ok(()) => Ok(if is_refused { InSlot::Refused } else { InSlot::Heard }),
            Err(Failure::Moved(..) | Failure::Moving(_) | Failure::Later(_)) => {
                Ok(InSlot::Elsewhere)
            }
            Err(failure) => match failure.into_error() {
                // No answer is as good as a refusal: the server has confirmed the other subscription.
                error if is_of_connection(error.kind()) && error.kind() != ErrorKind::Timeout => {
                    Err(error)
                }
                error => {
                    tracing::debug!(%error, "messages for this client go to all servers of the cluster");
                    Ok(InSlot::Refused)
                }
            },
        }
    }

    /// Starts to track locks, if the server supports that. Returns one entry for each lock: the failure if another
    /// server has it.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn track(
        &self,
        registry: &Registry,
        locks: impl IntoIterator<Item = Channel>,
    ) -> Result<Vec<Option<Failure>>, Error> {
        if self.tracking.is_none() {
            return Ok(locks.into_iter().map(|_| None).collect());
        }
        let locks = locks.into_iter().collect::<Vec<_>>();
        let looks = locks.iter().map(|lock| tracking::look(&self.live, registry, lock, false));
        futures::future::try_join_all(looks).await
    }

    /// Asks for messages about the releases of these locks, each given by its key and the key of its state. If the
    /// server or its rights do not allow that, the other sources of hints remain. Returns one entry for each lock:
    /// the failure if the lock cannot be written here now, because its slot is moved or was moved.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn listen<'a>(
        &self,
        locks: impl Iterator<Item = [&'a [u8]; 2]>,
    ) -> Result<Vec<Option<Failure>>, Error> {
        let Listening { release_messages, keeping, routed, .. } = self.listening;
        if !release_messages {
            return Ok(locks.map(|_| None).collect());
        }
        let calls = locks.map(|[lock, state]| async move {
            let mut call = Call::new(&LISTEN, 2, lock.len() + state.len()).keeping(keeping);
            call.bytes(lock).bytes(state);
            let outcome = match self.live.run(call).await {
                Err(failure @ Failure::Moving(_)) => return Ok(Some(failure)),
                Err(failure @ (Failure::Moved(..) | Failure::Asks(..) | Failure::Later(_)))
                    if routed =>
                {
                    return Ok(Some(failure));
                }
                outcome => outcome.map_err(Failure::into_error),
            };
            match outcome {
                Err(error) if is_of_connection(error.kind()) => Err(error),
                Err(error) => {
                    tracing::debug!(%error, "no message tells of the releases of a lock: the server refused the subscription");
                    Ok(None)
                }
                Ok(_) => Ok(None),
            }
        });
        futures::future::try_join_all(calls).await
    }

    /// Ends subscriptions.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn unsubscribe(&self, channels: &[Channel]) -> Result<(), Error> {
        for batch in channels.chunks(BATCH) {
            self.send(batch, false).await?;
        }
        Ok(())
    }

    async fn subscribe_singly(
        &self,
        channels: &[Channel],
        refused: &mut Vec<(Channel, Error)>,
    ) -> Result<(), Error> {
        for channel in channels {
            match self.send(std::slice::from_ref(channel), true).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Denied => {
                    refused.push((Arc::clone(channel), error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn send(&self, channels: &[Channel], on: bool) -> Result<(), Error> {
        let Some(Dedicated { pubsub, .. }) = &self.dedicated else {
            let connection = self.live.connection();
            return if on {
                self.live.within(connection.subscribe(channels)).await
            } else {
                self.live.within(connection.unsubscribe(channels)).await
            };
        };
        let request = async {
            if on { pubsub.subscribe(channels).await } else { pubsub.unsubscribe(channels).await }
        };
        let limit = self.link.settings().command_timeout;
        time::timeout(limit, request).await.unwrap_or_else(|_| {
            let address = &self.live.endpoint().address;
            Err(Error::new(ErrorKind::Timeout, format!("{address} did not confirm a subscription")))
        })
    }
}

/// Whether an error concerns the connection rather than one lock.
fn is_of_connection(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Protocol)
}
