//! The connection on which messages come.

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use tokio::time;

use super::channel::{Channel, Generation};
use super::listening::Listening;
use super::notifications;
use super::registry::Registry;
use super::tracking::{self, Tracking};
use crate::keys::Keeping;
use crate::link::{Dedicated, Link, Live};
use crate::scripts::LISTEN;
use crate::wire::{Call, Failure, Version};

/// How many channels one command subscribes to.
const BATCH: usize = 256;

/// The connection on which messages come: with RESP3 the one that requests share, with RESP2 one of
/// its own, which is given up together with the shared one.
#[derive(Debug)]
pub(super) struct Subscriber {
    link: Link,
    live: Arc<Live>,
    dedicated: Option<Dedicated>,
    tracking: Option<Tracking>,
    sources: Sources,
    listening: Listening,
}

/// Where hints come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) releases: bool,
    pub(super) keyspace: bool,
    pub(super) tracking: bool,
}

impl Subscriber {
    pub(super) async fn open(
        link: &Link,
        registry: &Arc<Registry>,
        generation: Generation,
        listening: Listening,
    ) -> Result<Self, Error> {
        let live = link.connected().await?;
        let keyspace = notifications::prepare(&live, listening.notifications).await?;
        let dedicated = match live.connection().version() {
            Version::Resp2 => Some(link.listen().await?),
            Version::Resp3 => None,
        };
        let tracking = match &dedicated {
            None if listening.tracking => Tracking::start(&live, registry, generation).await?,
            _ => None,
        };
        // Whoever hears anything hears of new values, which are told together with releases.
        let releases = listening.release_messages || keyspace || tracking.is_some();
        let sources = Sources { releases, keyspace, tracking: tracking.is_some() };
        Ok(Self { link: link.clone(), live, dedicated, tracking, sources, listening })
    }

    pub(super) fn sources(&self) -> Sources {
        self.sources
    }

    /// The connection that requests share.
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

    /// Subscribes, and awaits the confirmation. Returns the channels that this user may not hear.
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
                // One channel that is not permitted fails the whole command.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    self.subscribe_singly(batch, &mut refused).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// Begins to track locks, if the server does that.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn track(
        &self,
        registry: &Registry,
        locks: impl IntoIterator<Item = Channel>,
    ) -> Result<(), Error> {
        if self.tracking.is_some() {
            let locks = locks.into_iter().collect::<Vec<_>>();
            let looks = locks.iter().map(|lock| tracking::look(&self.live, registry, lock, false));
            futures::future::try_join_all(looks).await?;
        }
        Ok(())
    }

    /// Has the releases of these locks be told, each by its key and that of its state. A server or a user that
    /// does not allow it leaves the other sources of hints. Returns, for each lock in turn, the error if its slot is
    /// being moved, so that it cannot be written now.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn listen<'a>(
        &self,
        locks: impl Iterator<Item = [&'a [u8]; 2]>,
    ) -> Result<Vec<Option<Error>>, Error> {
        let Listening { release_messages, retention, .. } = self.listening;
        if !release_messages {
            return Ok(locks.map(|_| None).collect());
        }
        let calls = locks.map(|[lock, state]| async move {
            let mut call =
                Call::new(&LISTEN, 2, lock.len() + state.len()).keeping(Keeping::for_ms(retention));
            call.bytes(lock).bytes(state);
            let outcome = match self.live.run(call).await {
                Err(Failure::Moving(error)) => return Ok(Some(error)),
                outcome => outcome.map_err(Failure::into_error),
            };
            match outcome {
                Err(error) if is_of_connection(error.kind()) => Err(error),
                Err(error) => {
                    tracing::debug!(%error, "releases of a lock may not be told");
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
        let settings = self.link.settings();
        time::timeout(settings.command_timeout, request).await.unwrap_or_else(|_| {
            let address = &settings.endpoint.address;
            Err(Error::new(ErrorKind::Timeout, format!("{address} did not confirm a subscription")))
        })
    }
}

/// Whether an error is that of a connection rather than what the server says of one lock.
fn is_of_connection(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Protocol)
}
