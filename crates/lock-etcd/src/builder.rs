//! The options of a client.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Error;
use lock_core::observer::{Observer, Observers, Telling};

use crate::backend::EtcdBackend;
use crate::shared::{Settings, Shared};
use crate::url::{self, Place};

/// Options for an [`EtcdBackend`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_etcd::EtcdBackend;
///
/// let store = EtcdBackend::builder("etcd://one.example,two.example,three.example")
///     .prefix("shop/locks")
///     .user("app", "secret")
///     .command_timeout(Duration::from_secs(2))
///     .build()?;
/// # Ok::<(), lock_core::Error>(())
/// ```
#[must_use = "`build` makes the client"]
pub struct Builder {
    url: String,
    prefix: Option<String>,
    user: Option<(String, String)>,
    any_version: bool,
    queue_limit: NonZeroU32,
    command_timeout: Duration,
    sweep_interval: Duration,
    observers: Observers,
    #[cfg(feature = "tls")]
    tls: crate::link::Certificates,
}

impl Builder {
    /// How many claims may wait for one key by default: 1 000. Each of them adds some 60 bytes to the document of the
    /// lock.
    ///
    /// Whatever this number is, the document has 1 MiB at most: some 15 000 holders and waiters together.
    ///
    /// [`queue_limit`](Self::queue_limit) sets another number.
    pub const QUEUE_LIMIT: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

    /// How long a request may take by default: five seconds.
    ///
    /// [`command_timeout`](Self::command_timeout) sets another time.
    pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

    /// How often the clients of a cluster look for what dead holders have left, by default: every hour.
    ///
    /// [`sweep_interval`](Self::sweep_interval) sets another time.
    pub const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

    /// What the keys of the locks begin with by default, before a slash: `lock`.
    ///
    /// [`prefix`](Self::prefix) sets another text.
    pub const PREFIX: &str = "lock";

    pub(crate) fn new(url: impl AsRef<str>) -> Self {
        Self {
            url: url.as_ref().to_owned(),
            prefix: None,
            user: None,
            any_version: false,
            queue_limit: Self::QUEUE_LIMIT,
            command_timeout: Self::COMMAND_TIMEOUT,
            sweep_interval: Self::SWEEP_INTERVAL,
            observers: Observers::none(),
            #[cfg(feature = "tls")]
            tls: crate::link::Certificates::default(),
        }
    }

    /// What the keys of the locks begin with, before a slash, instead of the path of the URL. Without both,
    /// [`PREFIX`](Self::PREFIX). Clients with different prefixes share no locks.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// Authenticates as this user, instead of the user of the URL.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Uses members of any version from 3.4 on. The option `allow_unsafe_version=true` of the URL says the same.
    ///
    /// Without this call, a member older than 3.4.31, or of 3.5 older than 3.5.13, is refused, because a leader whose
    /// disk stalls may end leases there that a later leader has renewed: two clients then hold one lock
    /// ([etcd #15247](https://github.com/etcd-io/etcd/issues/15247)). A cluster of one member is not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_etcd::EtcdBackend;
    ///
    /// // A single server, as Debian 12 ships it.
    /// let store = EtcdBackend::builder("etcd://localhost:2379").allow_unsafe_version().build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn allow_unsafe_version(mut self) -> Self {
        self.any_version = true;
        self
    }

    /// How many claims may wait for one key; [`QUEUE_LIMIT`](Self::QUEUE_LIMIT) by default.
    ///
    /// A full queue answers [`ErrorKind::QueueFull`](lock_core::ErrorKind::QueueFull). So does a lock whose document
    /// has no room for another holder or waiter: see [`QUEUE_LIMIT`](Self::QUEUE_LIMIT).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use lock_etcd::EtcdBackend;
    ///
    /// let store = EtcdBackend::builder("etcd://localhost").queue_limit(NonZeroU32::new(100).unwrap());
    /// # let _ = store;
    /// ```
    pub fn queue_limit(mut self, most: NonZeroU32) -> Self {
        self.queue_limit = most;
        self
    }

    /// How long a request may take, with the time to connect; [`COMMAND_TIMEOUT`](Self::COMMAND_TIMEOUT) by default.
    pub fn command_timeout(mut self, limit: Duration) -> Self {
        self.command_timeout = limit;
        self
    }

    /// How often a client looks for documents of dead holders and waiters: [`SWEEP_INTERVAL`](Self::SWEEP_INTERVAL) by
    /// default, and a second at least. Each pause is random, between half of this time and one and a half times this
    /// time. etcd removes such a document one to two hours later. Of all clients with one prefix, one in each interval
    /// does the work: the client lists the keys of the documents, and reads those of locks that are held or keep
    /// something.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_etcd::EtcdBackend;
    ///
    /// let store = EtcdBackend::builder("etcd://localhost").sweep_interval(Duration::from_secs(10 * 60));
    /// # let _ = store;
    /// ```
    pub fn sweep_interval(mut self, interval: Duration) -> Self {
        self.sweep_interval = interval.max(Duration::from_secs(1));
        self
    }

    /// Tells this observer of requests and connections, in addition to the observers that were set before. The thread
    /// of the client runs it.
    ///
    /// A request has the name of a call of etcd, such as `Txn`, because one verb of a lock takes several calls. A
    /// connection has ended for the observer when a request notices the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::observer::{Observer, StoreAnswered};
    /// use lock_etcd::EtcdBackend;
    ///
    /// struct Requests;
    ///
    /// impl Observer for Requests {
    ///     fn store_answered(&self, event: &StoreAnswered<'_>) {
    ///         println!("{} took {:?}", event.verb, event.took);
    ///     }
    /// }
    ///
    /// let store = EtcdBackend::builder("etcd://localhost").observer(Arc::new(Requests)).build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.add(observer);
        self
    }

    /// Trusts these root certificates, in PEM, instead of those of the system. The URL begins with `etcds`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_etcd::EtcdBackend;
    ///
    /// let store = EtcdBackend::builder("etcds://one.example").roots(std::fs::read("ca.pem")?).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn roots(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.roots = Some(pem.into());
        self
    }

    /// Shows this certificate and proves it by this key, both in PEM, to servers that ask for one. The URL begins with
    /// `etcds`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_etcd::EtcdBackend;
    ///
    /// let store = EtcdBackend::builder("etcds://one.example")
    ///     .certificate(std::fs::read("app.pem")?, std::fs::read("app-key.pem")?)
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn certificate(mut self, pem: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.own = Some((pem.into(), key.into()));
        self
    }

    /// Makes the client. Opens no connection yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) if the URL, the prefix, the user or a
    /// certificate is not valid, or if the URL begins with `etcds` and the crate was built without the feature `tls`.
    pub fn build(self) -> Result<EtcdBackend, Error> {
        let place = Place::of(&self.url)?;
        let prefix = match self.prefix.as_deref().or(place.prefix.as_deref()) {
            Some(prefix) => url::prefix(prefix)?,
            None => Self::PREFIX.to_owned(),
        };
        let user = match &self.user {
            Some((name, password)) => Some(url::credentials(name, password)?),
            None => place.user.clone(),
        };
        #[cfg(feature = "tls")]
        let endpoints = crate::link::endpoints(&place, self.command_timeout, &self.tls)?;
        #[cfg(not(feature = "tls"))]
        let endpoints = crate::link::endpoints(&place, self.command_timeout)?;
        let settings = Settings {
            endpoints,
            prefix,
            user,
            any_version: self.any_version || place.any_version,
            queue_limit: self.queue_limit,
            limit: self.command_timeout,
            sweep: self.sweep_interval,
            telling: Telling::new(self.observers),
        };
        Ok(EtcdBackend { shared: Shared::start(settings)? })
    }
}

/// Shows no URL, which may contain a password.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
