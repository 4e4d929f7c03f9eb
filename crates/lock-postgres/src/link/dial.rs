//! How a connection is opened.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use lock_core::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::Host;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

use super::Tls;
use crate::failure;

/// What a connection hears. It works only while the stream is polled.
pub(crate) type Messages =
    Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

/// Where the database is, and how to log in.
pub(crate) struct Dial {
    config: Config,
    tls: Arc<Tls>,
    limit: Duration,
}

impl Dial {
    /// Through a pooler, a connection takes no settings: others would get them.
    pub(crate) fn new(
        url: &str,
        tls: Arc<Tls>,
        limit: Duration,
        pooled: bool,
    ) -> Result<Self, Error> {
        let mut config: Config = url.parse().map_err(|error| {
            Error::with_source(
                ErrorKind::InvalidConfig,
                "this is no URL of a PostgreSQL database",
                error,
            )
        })?;
        tls.check(&config)?;
        config.connect_timeout(limit).keepalives_idle(Duration::from_secs(5));
        if config.get_application_name().is_none() {
            config.application_name("lock-postgres");
        }
        if !pooled {
            // A statement that its client has given up ends by itself. Its transaction reads what was committed last.
            let options = format!(
                "{} -c statement_timeout={} -c default_transaction_isolation=read\\ committed",
                config.get_options().unwrap_or_default(),
                limit.as_millis().max(1)
            );
            config.options(options.trim_start());
        }
        Ok(Self { config, tls, limit })
    }

    /// Hosts, ports and database, without secrets.
    pub(crate) fn name(&self) -> String {
        let ports = self.config.get_ports();
        let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let hosts = self.config.get_hosts().iter().enumerate().map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(index)),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{}", path.display(), port(index)),
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let user = self.config.get_user().unwrap_or_default();
        format!("{hosts}/{}", self.config.get_dbname().unwrap_or(user))
    }

    /// How long a request may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    pub(crate) async fn open(&self) -> Result<(Client, Messages), Error> {
        let connecting = async {
            match self.tls.connector(&self.config).await? {
                Some(tls) => self.config.connect(tls).await.map(parted),
                None => self.config.connect(NoTls).await.map(parted),
            }
            .map_err(failure::of)
        };
        tokio::time::timeout(self.limit, connecting)
            .await
            .unwrap_or_else(|_| Err(failure::timeout()))
    }
}

fn parted<S>((client, mut connection): (Client, Connection<Socket, S>)) -> (Client, Messages)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    (client, Box::pin(stream::poll_fn(move |context| connection.poll_message(context))))
}
