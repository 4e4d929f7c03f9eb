//! The options of a client.

use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::{Observer, Observers, Telling};
use lock_core::{Error, ErrorKind};

use crate::backend::PostgresBackend;
use crate::link::{Dial, Tls};
use crate::shared::Shared;
use crate::url::Ways;

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
    sweep_interval: Duration,
    observers: Observers,
    #[cfg(feature = "tls")]
    roots: Option<Vec<u8>>,
}

impl Builder {
    /// How many connections run the verbs by default: 4.
    ///
    /// The [example](Builder#examples) of a builder sets another number.
    pub const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    /// How many connections may run the verbs of one client.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use lock_postgres::{Builder, PostgresBackend};
    ///
    /// let more = Builder::MOST_CONNECTIONS.checked_add(1).unwrap();
    /// let refused = PostgresBackend::builder("postgres://localhost/shop").connections(more).build();
    /// assert!(refused.is_err());
    /// ```
    pub const MOST_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

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
            sweep_interval: Duration::from_secs(10 * 60),
            observers: Observers::none(),
            #[cfg(feature = "tls")]
            roots: None,
        }
    }

    /// The verbs go through this pooler, which may pool by transaction. The URL of the builder leads the listening
    /// connection past the pooler. If the login, the database and the options are those of the URL, the option
    /// `?pooler=pool.example:6432` of the URL has this meaning, too.
    pub fn pooler(mut self, url: impl AsRef<str>) -> Self {
        self.pooler = Some(url.as_ref().to_owned());
        self
    }

    /// The URL of the builder leads to a pooler, and there is no way past it. Then the client hears no notifications
    /// and has no place in a queue. A waiter asks again when the present lease ends. The option `?direct=false` of the
    /// URL has this meaning, too.
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

    /// How many connections run the verbs; [`CONNECTIONS`](Self::CONNECTIONS) by default, and [`MOST_CONNECTIONS`] at
    /// most. Half as many, and at least one, renew leases, so that no slow request delays a renewal. One more listens.
    ///
    /// More connections let more locks wait for the disk together. On each connection, one renewal waits for the disk after
    /// the other: with commits of 3 ms, a connection renews some 3 000 leases of 30 s, which are renewed every ten seconds.
    ///
    /// [`MOST_CONNECTIONS`]: Self::MOST_CONNECTIONS
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

    /// How long a request may take, with the time to connect; five seconds by default. A request that waits for another
    /// one about its lock, in the database, fails after half of that time.
    ///
    /// With a synchronous standby, set two seconds at least. When the client gives a request up, the server no longer waits
    /// for the standby: the change counts, although no standby has it. If the change handed a lock over, the new lease lasts
    /// one second, unless its holder hears of it. So this lease is over by then.
    ///
    /// [`build`](Self::build) fails for less than a millisecond, and for more than 24 days.
    pub fn command_timeout(mut self, limit: Duration) -> Self {
        self.command_timeout = limit;
        self
    }

    /// How often this client has the database remove what was not used for an hour: rows of locks, of dead waiters and
    /// of fences. Every ten minutes by default, give or take a half. Of all clients of a database, one in ten minutes
    /// does the work.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_postgres::PostgresBackend;
    ///
    /// let store = PostgresBackend::builder("postgres://localhost/shop").sweep_interval(Duration::from_secs(60 * 60));
    /// # let _ = store;
    /// ```
    pub fn sweep_interval(mut self, interval: Duration) -> Self {
        self.sweep_interval = interval.max(Duration::from_millis(10));
        self
    }

    /// Tells this observer of requests and connections, in addition to the observers that were set before. The thread
    /// of the connections runs it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::observer::{Observer, StoreAnswered};
    /// use lock_postgres::PostgresBackend;
    ///
    /// struct Requests;
    ///
    /// impl Observer for Requests {
    ///     fn store_answered(&self, event: &StoreAnswered<'_>) {
    ///         println!("{} took {:?}", event.verb, event.took);
    ///     }
    /// }
    ///
    /// let store = PostgresBackend::builder("postgres://localhost/shop").observer(Arc::new(Requests)).build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.add(observer);
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
    /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) if a URL, a certificate, a time or a number is
    /// not valid.
    pub fn build(self) -> Result<PostgresBackend, Error> {
        self.check()?;
        let tls = Arc::new(self.tls()?);
        let telling = Telling::new(self.observers.clone());
        let dial = |url: &str, pooled| {
            // A pooler is another server than the database behind it.
            let telling = if pooled { telling.of_another() } else { telling.clone() };
            Dial::new(url, Arc::clone(&tls), self.command_timeout, pooled, telling).map(Arc::new)
        };
        let ways = Ways::of(&self.url)?;
        let is_direct = self.direct && ways.is_direct;
        let direct = is_direct.then(|| dial(&ways.url, false)).transpose()?;
        let verbs = match (self.pooler.as_ref().or(ways.pooler.as_ref()), &direct) {
            (Some(pooler), _) => dial(pooler, true)?,
            (None, Some(direct)) => Arc::clone(direct),
            (None, None) => dial(&ways.url, true)?,
        };
        let queue_limit = i32::try_from(self.queue_limit.get()).unwrap_or(i32::MAX);
        let (connections, sweep) = (self.connections.get(), self.sweep_interval);
        let shared = Shared::start(verbs, direct, connections, queue_limit, sweep)?;
        Ok(PostgresBackend::of(shared))
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |message| Err(Error::new(ErrorKind::InvalidConfig, message));
        if self.connections > Self::MOST_CONNECTIONS {
            return wrong(format!(
                "{} connections are too many: {} at most",
                self.connections,
                Self::MOST_CONNECTIONS
            ));
        }
        // The database counts the milliseconds in 31 bits.
        let most = Duration::from_millis(i32::MAX as u64);
        if self.command_timeout < Duration::from_millis(1) || self.command_timeout > most {
            return wrong(format!(
                "a request cannot have a limit of {:?}: from 1 ms to {most:?}",
                self.command_timeout
            ));
        }
        Ok(())
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
