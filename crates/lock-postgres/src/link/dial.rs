//! How a connection is opened.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use lock_core::observer::{Telling, Told};
use lock_core::{Error, ErrorKind, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Connection, NoTls, Socket};

use super::Tls;
use crate::failure;

/// What a connection hears. It works only while the stream is polled.
pub(crate) type Messages =
    Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

/// A setting of each session that takes settings.
pub(crate) const DIRECT: &str = "lock_v1.direct";

/// Where the database is, and how to log in.
pub(crate) struct Dial {
    config: Config,
    tls: Arc<Tls>,
    limit: Duration,
    is_pooled: bool,
    /// Hosts and ports.
    server: String,
    telling: Telling,
}

impl Dial {
    /// Through a pooler, a connection takes no settings: others would get them.
    pub(crate) fn new(
        url: &str,
        tls: Arc<Tls>,
        limit: Duration,
        is_pooled: bool,
        telling: Telling,
    ) -> Result<Self, Error> {
        let mut config: Config = plain(url).parse().map_err(|error| unreadable(&error))?;
        tls.check(&mut config)?;
        look_for_primary(&mut config, url);
        // One host that does not answer must not use up the time of the others. A host may have two addresses, and one of
        // them may not answer. A connection whose other end is gone ends soon.
        let hosts_there_are = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(1);
        let second = Duration::from_secs(1);
        config.connect_timeout(limit / (2 * hosts_there_are)).tcp_user_timeout(limit.max(second));
        config.keepalives_idle(5 * second).keepalives_interval(second).keepalives_retries(5);
        if config.get_application_name().is_none() {
            config.application_name("lock-postgres");
        }
        if !is_pooled {
            // A statement that its client has given up ends by itself. One that waits for a row ends earlier, because
            // others of its connection wait behind it. Its transaction reads what was committed last. The last setting
            // is ours: it shows that no pooler in between has dropped the others.
            let options = format!(
                "{} -c statement_timeout={} -c lock_timeout={} -c default_transaction_isolation=read\\ committed -c {DIRECT}=yes",
                config.get_options().unwrap_or_default(),
                limit.as_millis().max(1),
                (limit / 2).as_millis().max(1)
            );
            config.options(options.trim_start());
        }
        let server = hosts(&config);
        Ok(Self { config, tls, limit, is_pooled, server, telling })
    }

    /// Hosts, ports and database, without secrets.
    pub(crate) fn name(&self) -> String {
        let user = self.config.get_user().unwrap_or_default();
        format!("{}/{}", self.server, self.config.get_dbname().unwrap_or(user))
    }

    /// A request that was made at `since` is over.
    pub(crate) fn answered(&self, verb: &'static str, since: Instant, error: Option<&Error>) {
        self.telling.answered(&self.server, verb, since, error);
    }

    /// Whether an observer hears of requests.
    pub(crate) fn is_heard(&self) -> bool {
        self.telling.is_heard()
    }

    /// Whether a pooler is in between.
    pub(crate) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// How long a request may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    pub(crate) async fn open(&self) -> Result<(Client, Messages), Error> {
        let connecting = async {
            match self.tls.connector(&self.config).await? {
                Some(tls) => self.config.connect(tls).await.map(|it| self.parted(it)),
                None => self.config.connect(NoTls).await.map(|it| self.parted(it)),
            }
            .map_err(failure::of)
        };
        let opened = tokio::time::timeout(self.limit, connecting).await;
        let opened = opened.unwrap_or_else(|_| Err(failure::timeout()));
        if let Err(error) = &opened {
            self.telling.failed(&self.server, error);
        }
        opened
    }

    /// Asks the server to give up the request that it runs for this connection.
    pub(crate) async fn cancel(&self, token: &CancelToken) {
        let cancelling = async {
            match self.tls.connector(&self.config).await? {
                Some(tls) => token.cancel_query(tls).await,
                None => token.cancel_query(NoTls).await,
            }
            .map_err(failure::of)
        };
        let done = tokio::time::timeout(self.limit, cancelling).await;
        if let Err(error) = done.unwrap_or_else(|_| Err(failure::timeout())) {
            tracing::debug!(%error, "a request was not cancelled");
        }
    }

    fn parted<S>(
        &self,
        (client, mut connection): (Client, Connection<Socket, S>),
    ) -> (Client, Messages)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let ending = Ending(self.telling.connected(&self.server));
        let messages = stream::poll_fn(move |context| {
            let _until_the_end = &ending;
            connection.poll_message(context)
        });
        (client, Box::pin(messages))
    }
}

/// Tells observers that a connection has ended, in whatever way.
struct Ending(Option<Told>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(told) = &self.0 {
            told.disconnected();
        }
    }
}

/// Says why the driver cannot read a URL, and what it would read.
fn unreadable(error: &tokio_postgres::Error) -> Error {
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let right = match why.as_str() {
        port if port.contains("`port`") => "; a port is a number from 1 to 65535",
        option if option.contains("unknown option") || option.contains("parameter") => {
            "?sslmode=verify-full; the options are those of PostgreSQL"
        }
        _ => "",
    };
    let example = "postgres://user@host:5432/database";
    let what = format!("this is no URL of a PostgreSQL database: {why}: write {example}{right}");
    Error::new(ErrorKind::InvalidConfig, what)
}

/// The driver knows fewer levels of TLS. The certificate is always verified, with the name of the host.
fn plain(url: &str) -> String {
    url.replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require")
}

/// If there are several hosts, only the primary can write. Each attempt tries hosts and addresses in another order, so
/// that a host which takes connections and never answers does not shut out the others.
fn look_for_primary(config: &mut Config, url: &str) {
    if config.get_hosts().len() > 1 && !url.contains("target_session_attrs") {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if !url.contains("load_balance_hosts") {
        config.load_balance_hosts(LoadBalanceHosts::Random);
    }
}

fn hosts(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(index)),
        #[cfg(unix)]
        Host::Unix(path) => format!("{}:{}", path.display(), port(index)),
    });
    hosts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    fn config(url: &str) -> Config {
        let mut config = plain(url).parse().unwrap();
        look_for_primary(&mut config, url);
        config
    }

    #[test]
    fn several_hosts_are_asked_for_the_primary_unless_the_url_says_otherwise() {
        let one = config("postgres://a/shop");
        assert_eq!(one.get_target_session_attrs(), TargetSessionAttrs::Any);
        let two = config("postgres://a,b/shop");
        assert_eq!(two.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(two.get_load_balance_hosts(), LoadBalanceHosts::Random);
        let any = config("postgres://a,b/shop?target_session_attrs=any&load_balance_hosts=disable");
        assert_eq!(any.get_target_session_attrs(), TargetSessionAttrs::Any);
        assert_eq!(any.get_load_balance_hosts(), LoadBalanceHosts::Disable);
    }

    #[test]
    fn the_strict_levels_of_tls_are_known() {
        for level in ["verify-full", "verify-ca", "require"] {
            let config = config(&format!("postgres://a/shop?sslmode={level}"));
            assert_eq!(config.get_ssl_mode(), SslMode::Require, "{level}");
        }
    }
}
