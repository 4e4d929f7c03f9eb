//! Opening connections.

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use tokio::task::AbortHandle;
use tokio::time;

use super::live::{End, Live, spawn};
use super::settings::{Hear, Settings};
use super::stream::{Stream, dial};
use crate::options::Protocol;
use crate::scripts;
use crate::wire::{Connection, Driver, Failure, PubSub, Push, Version};

/// Opens the connection that requests share, within the time limit.
pub(super) async fn connect(settings: &Settings, hear: &Hear) -> Result<Arc<Live>, Error> {
    limited(settings, async {
        let (connection, driver) = greet(settings, hear).await?;
        let live = Live::start(connection, driver, &settings.endpoint, settings.command_timeout)?;
        if live.connection().version() == Version::Resp2 {
            meet(live.connection()).await?;
        }
        for script in scripts::usual() {
            live.connection().preload(script).await;
        }
        Ok(Arc::new(live))
    })
    .await
}

/// Waits for the server to say whether it wants a password. RESP2 has no greeting in which it would,
/// and on whoever sends as many words as our requests have before giving one it hangs up.
async fn meet(connection: &Connection) -> Result<(), Error> {
    match connection.load(&scripts::RENEW).await {
        Err(Failure::NoAuth(error)) => Err(error),
        // Whatever else is wrong will be said again when it matters.
        _ => Ok(()),
    }
}

/// A connection that only listens, with its own task.
#[derive(Debug)]
pub(crate) struct Dedicated {
    pub(crate) pubsub: PubSub,
    end: Arc<End>,
    task: AbortHandle,
}

impl Dedicated {
    /// Opens a connection that only listens, within the time limit.
    pub(super) async fn open(settings: &Settings, hear: &Hear) -> Result<Self, Error> {
        limited(settings, async {
            let hear = of_connection(hear);
            let (pubsub, driver) = match dial(settings).await? {
                Stream::Tcp(stream) => PubSub::open(stream, &settings.endpoint, hear).await?,
                #[cfg(unix)]
                Stream::Unix(stream) => PubSub::open(stream, &settings.endpoint, hear).await?,
                #[cfg(feature = "tls")]
                Stream::Tls(stream) => PubSub::open(stream, &settings.endpoint, hear).await?,
            };
            let (end, task) = spawn(driver);
            Ok(Self { pubsub, end, task })
        })
        .await
    }

    /// Returns when the connection has ended.
    pub(crate) async fn closed(&self) {
        self.end.reached().await;
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens a connection in the newest version of the protocol that is wanted and understood.
async fn greet(settings: &Settings, hear: &Hear) -> Result<(Connection, Driver), Error> {
    let first = match settings.protocol {
        Protocol::Resp2 => Version::Resp2,
        Protocol::Resp3 | Protocol::Auto => Version::Resp3,
    };
    match open(settings, hear, first).await {
        Err(Failure::NoResp3(error)) if settings.protocol == Protocol::Auto => {
            tracing::debug!(server = %settings.endpoint, %error, "falls back to RESP2");
            open(settings, hear, Version::Resp2).await.map_err(Failure::into_error)
        }
        outcome => outcome.map_err(Failure::into_error),
    }
}

async fn open(
    settings: &Settings,
    hear: &Hear,
    version: Version,
) -> Result<(Connection, Driver), Failure> {
    let (endpoint, hear) = (&settings.endpoint, of_connection(hear));
    match dial(settings).await? {
        Stream::Tcp(stream) => Connection::open(stream, endpoint, version, hear).await,
        #[cfg(unix)]
        Stream::Unix(stream) => Connection::open(stream, endpoint, version, hear).await,
        #[cfg(feature = "tls")]
        Stream::Tls(stream) => Connection::open(stream, endpoint, version, hear).await,
    }
}

/// The closure that a connection owns.
fn of_connection(hear: &Hear) -> impl Fn(Push<'_>) + Send + Sync + 'static {
    let hear = Arc::clone(hear);
    move |push| hear(push)
}

async fn limited<T>(
    settings: &Settings,
    opening: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let limit = settings.connect_timeout;
    time::timeout(limit, opening).await.unwrap_or_else(|_| {
        let address = &settings.endpoint.address;
        let message = format!("no connection to {address} within {limit:?}");
        Err(Error::new(ErrorKind::Unreachable, message))
    })
}
