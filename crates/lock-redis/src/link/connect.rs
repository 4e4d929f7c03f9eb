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
use crate::wire::{Command, Connection, Driver, Endpoint, Failure, PubSub, Push, Reply, Version};

/// Opens the connection of the requests, within the time limit.
pub(super) async fn connect(
    settings: &Settings,
    endpoint: &Arc<Endpoint>,
    hear: &Hear,
) -> Result<Live, Error> {
    limited(settings, endpoint, async |endpoint| {
        let live = start(settings, endpoint, hear).await?;
        if live.connection().version() == Version::Resp2 {
            meet(live.connection()).await?;
        }
        Ok(live.preloading(scripts::usual(settings.terms)))
    })
    .await
}

/// Opens a connection for rare requests, and no messages, within the time limit.
pub(super) async fn connect_bare(
    settings: &Settings,
    endpoint: &Arc<Endpoint>,
) -> Result<Live, Error> {
    let nothing: Hear = Arc::new(|_| {});
    limited(settings, endpoint, async |endpoint| start(settings, endpoint, &nothing).await).await
}

async fn start(settings: &Settings, endpoint: &Arc<Endpoint>, hear: &Hear) -> Result<Live, Error> {
    let (connection, driver) = greet(settings, endpoint, hear).await?;
    Live::start(connection, driver, endpoint, settings.command_timeout, &settings.telling)
}

/// Waits for the server to say whether it wants a password. RESP2 has no greeting that would tell,
/// and a server that wants a password closes the connection of a client that first sends as many
/// words as our requests have.
async fn meet(connection: &Connection) -> Result<(), Error> {
    match connection.load(&scripts::RENEW).await {
        Err(Failure::NoAuth(error)) => Err(error),
        // Every other error recurs when it matters.
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
    pub(super) async fn open(
        settings: &Settings,
        endpoint: &Arc<Endpoint>,
        hear: &Hear,
    ) -> Result<Self, Error> {
        limited(settings, endpoint, async |endpoint| {
            let hear = of_connection(hear);
            let (pubsub, driver) = match dial(settings, endpoint).await? {
                Stream::Tcp(stream) => PubSub::open(stream, endpoint, hear).await?,
                #[cfg(unix)]
                Stream::Unix(stream) => PubSub::open(stream, endpoint, hear).await?,
                #[cfg(feature = "tls")]
                Stream::Tls(stream) => PubSub::open(stream, endpoint, hear).await?,
            };
            let told = settings.telling.connected(&endpoint.address).map(Arc::new);
            let (end, task) = spawn(driver, told);
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

/// Opens a connection in the newest version of the protocol that the options allow and the server
/// understands.
async fn greet(
    settings: &Settings,
    endpoint: &Arc<Endpoint>,
    hear: &Hear,
) -> Result<(Connection, Driver), Error> {
    let first = match settings.protocol {
        Protocol::Resp2 => Version::Resp2,
        Protocol::Resp3 | Protocol::Auto => Version::Resp3,
    };
    match open(settings, endpoint, hear, first).await {
        Err(Failure::NoResp3(error)) if settings.protocol == Protocol::Auto => {
            tracing::debug!(server = %endpoint, %error, "the connection falls back to RESP2");
            open(settings, endpoint, hear, Version::Resp2).await.map_err(Failure::into_error)
        }
        outcome => outcome.map_err(Failure::into_error),
    }
}

async fn open(
    settings: &Settings,
    endpoint: &Arc<Endpoint>,
    hear: &Hear,
    version: Version,
) -> Result<(Connection, Driver), Failure> {
    let hear = of_connection(hear);
    match dial(settings, endpoint).await? {
        Stream::Tcp(stream) => Connection::open(stream, endpoint, version, hear).await,
        #[cfg(unix)]
        Stream::Unix(stream) => Connection::open(stream, endpoint, version, hear).await,
        #[cfg(feature = "tls")]
        Stream::Tls(stream) => Connection::open(stream, endpoint, version, hear).await,
    }
}

/// Asks a server one question, on a connection for that alone, within the time limit of a connection.
///
/// # Cancel safety
///
/// Leaves open whether the command ran.
pub(crate) async fn enquire(
    settings: &Settings,
    endpoint: &Arc<Endpoint>,
    command: &Command,
) -> Result<Reply, Error> {
    limited(settings, endpoint, async |endpoint| {
        let nothing: Hear = Arc::new(|_| {});
        let opened = open(settings, endpoint, &nothing, Version::Resp2).await;
        let (connection, driver) = opened.map_err(Failure::into_error)?;
        tokio::select! {
            reply = connection.call(command) => reply.map_err(Failure::into_error),
            () = driver => {
                let message = format!("{} hung up", endpoint.address);
                Err(Error::new(ErrorKind::Unreachable, message))
            }
        }
    })
    .await
}

/// The closure that a connection owns.
fn of_connection(hear: &Hear) -> impl Fn(Push<'_>) + Send + Sync + 'static {
    let hear = Arc::clone(hear);
    move |push| hear(push)
}

/// Opens a connection within the time limit. Asks for the credentials first, if there is a provider.
async fn limited<T>(
    settings: &Settings,
    endpoint: &Arc<Endpoint>,
    open: impl AsyncFnOnce(&Arc<Endpoint>) -> Result<T, Error>,
) -> Result<T, Error> {
    let limit = settings.connect_timeout;
    let deadline = time::Instant::now() + limit;
    let late = |what: &str| {
        let message = format!("{what} {} within {limit:?}", endpoint.address);
        Error::new(ErrorKind::Unreachable, message)
    };
    let asking = time::timeout_at(deadline, endpoint.logging_in()).await;
    let endpoint = asking.map_err(|_| late("the credential provider gave nothing for"))??;
    let opened = time::timeout_at(deadline, open(&endpoint)).await;
    opened.map_err(|_| late("no connection to"))?
}
