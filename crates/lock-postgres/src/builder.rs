//! The options of a client.

use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use lock_core::Error;

use crate::backend::PostgresBackend;
use crate::link::{Dial, Tls};
use crate::shared::Shared;

/// Options for a [`PostgresBackend`].
///
/// # Examples
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use lock_postgres::PostgresBackend;
///
/// let store = PostgresBackend::builder("postgres://app:secret@db.example/shop")
///     .pooler("postgres://app:secret@pool.example:6432/shop")
///     .connections(NonZeroUsize::new(8).unwrap())
///     .command_timeout(Duration::from_secs(2))
///     .build()?;
/// # Ok::<(), lock_core::Error>(())
/// ```
#[must_use = "`build` makes the client"]
pub struct Builder {
    url: String,
    pooler: Option<String>,
    direct: bool,
    connections: NonZeroUsize,
    queue_limit: NonZeroU32,
    command_timeout: Duration,
    #[cfg(feature = "tls")]
    roots: Option<Vec<u8>>,
}

impl Builder {
    /// How many connections run the verbs by default: 4.
    ///
    /// The [example](Builder#examples) of a builder sets another number.
    pub const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    /// How many claims may wait for one key by default: 10 000.
    ///
    /// [`queue_limit`](Self::queue_limit) sets another number.
    pub const QUEUE_LIMIT: NonZeroU32 = NonZeroU32::new(10_000).unwrap();

    pub(crate) fn new(url: impl AsRef<str>) -> Self {
        Self {
            url: url.as_ref().to_owned(),
            pooler: None,
            direct: true,
            connections: Self::CONNECTIONS,
            queue_limit: Self::QUEUE_LIMIT,
            command_timeout: Duration::from_secs(5),
            #[cfg(feature = "tls")]
            roots: None,
        }
    }

    /// The verbs go through this pooler, which may pool by transaction. The listening connection is opened at the URL of the
    /// builder, past the pooler.
    pub fn pooler(mut self, url: impl AsRef<str>) -> Self {
        self.pooler = Some(url.as_ref().to_owned());
        self
    }

    /// The URL of the builder leads to a pooler, and there is no way past it. Then the client hears no notifications and has
    /// no place in a queue. It asks again when the present lease ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_postgres::PostgresBackend;
    ///
    /// let store = PostgresBackend::builder("postgres://app:secret@pool.example:6432/shop")
    ///     .without_direct_connection()
    ///     .build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn without_direct_connection(mut self) -> Self {
        self.direct = false;
        self
    }

    /// How many connections run the verbs; [`CONNECTIONS`](Self::CONNECTIONS) by default. One more listens.
    ///
    /// More connections let more locks wait for the disk together.
    pub fn connections(mut self, count: NonZeroUsize) -> Self {
        self.connections = count;
        self
    }

    /// How many claims may wait for one key; [`QUEUE_LIMIT`](Self::QUEUE_LIMIT) by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use lock_postgres::PostgresBackend;
    ///
    /// let store = PostgresBackend::builder("postgres://localhost/shop").queue_limit(NonZeroU32::new(100).unwrap());
    /// # let _ = store;
    /// ```
    pub fn queue_limit(mut self, most: NonZeroU32) -> Self {
        self.queue_limit = most;
        self
    }

    /// How long a request may take, with the time to connect; five seconds by default.
    pub fn command_timeout(mut self, limit: Duration) -> Self {
        self.command_timeout = limit;
        self
    }

    /// Trusts these root certificates, in PEM, instead of those of the system.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_postgres::PostgresBackend;
    ///
    /// let store = PostgresBackend::builder("postgres://app:secret@db.example/shop?sslmode=require")
    ///     .root_certificates(std::fs::read("ca.pem")?)
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots = Some(pem.into());
        self
    }

    /// Makes the client. Opens no connection yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) if a URL or a certificate is not valid.
    pub fn build(self) -> Result<PostgresBackend, Error> {
        let tls = Arc::new(self.tls()?);
        let dial = |url: &str, pooled| {
            Dial::new(url, Arc::clone(&tls), self.command_timeout, pooled).map(Arc::new)
        };
        let direct = self.direct.then(|| dial(&self.url, false)).transpose()?;
        let verbs = match (&self.pooler, &direct) {
            (Some(pooler), _) => dial(pooler, true)?,
            (None, Some(direct)) => Arc::clone(direct),
            (None, None) => dial(&self.url, true)?,
        };
        let queue_limit = i32::try_from(self.queue_limit.get()).unwrap_or(i32::MAX);
        let shared = Shared::start(verbs, direct, self.connections.get(), queue_limit)?;
        Ok(PostgresBackend::of(shared))
    }

    #[cfg(feature = "tls")]
    fn tls(&self) -> Result<Tls, Error> {
        self.roots.as_deref().map_or_else(|| Ok(Tls::default()), Tls::trusting)
    }

    #[cfg(not(feature = "tls"))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "the other one may fail")]
    fn tls(&self) -> Result<Tls, Error> {
        Ok(Tls)
    }
}

/// Shows no URL, which may contain a password.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
