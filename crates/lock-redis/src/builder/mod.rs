//! How to set up a backend.

mod access;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::{Observer, Observers, Telling};
use lock_core::{Error, ErrorKind, Ttl};

use crate::backend::{Limits, RedisBackend};
use crate::commit::Wish;
use crate::hub::{Channel, Listening};
use crate::keys::{Gap, Keeping, Layout};
use crate::link::{Origin, Quarantine, Settings};
use crate::options::{Notifications, Protocol};
use crate::topology::{Common, Extras, Fleet, Target};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// The bounds of the pause in a gap.
const GAPS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// Sets up a [`RedisBackend`].
///
/// Nothing is checked, and nothing is sent, before [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_redis::{Notifications, RedisBackend};
///
/// let backend = RedisBackend::builder("redis://127.0.0.1:6379/2")
///     .prefix("shop:lock:")
///     .notifications(Notifications::Off)
///     .command_timeout(Duration::from_millis(500))
///     .build()?;
/// assert_eq!(format!("{backend:?}"), "RedisBackend(127.0.0.1:6379/2)");
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    place: Place,
    extras: Extras,
    prefix: String,
    protocol: Protocol,
    notifications: Notifications,
    release_messages: bool,
    tracking: bool,
    queue_limit: u32,
    retention: Duration,
    value_retention: Option<Duration>,
    gap: Option<(u32, Duration)>,
    term_quarantine: Option<bool>,
    data_quarantine: Option<Ttl>,
    confirmation: Option<(u32, Duration)>,
    on_disk: bool,
    command_timeout: Duration,
    connect_timeout: Duration,
    observers: Observers,
    #[cfg(feature = "tls")]
    root_certificates: Option<Vec<u8>>,
    /// The certificates and the key.
    #[cfg(feature = "tls")]
    client_certificate: Option<(Vec<u8>, Vec<u8>)>,
}

/// Where the servers are, in the words of the app.
#[derive(Clone)]
enum Place {
    Url(String),
    /// The sentinels of a service, or servers of a cluster.
    Hosts(Vec<String>, Option<String>),
}

impl RedisBackend {
    /// A backend with the default options for the server at this URL: see the
    /// [crate docs](crate#urls).
    ///
    /// Sends nothing and starts nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) if the URL makes no sense.
    pub fn open(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Starts to set up a backend for the server at this URL: see the [crate docs](crate#urls).
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::at(Place::Url(url.into()))
    }
}

impl Builder {
    fn at(place: Place) -> Self {
        Self {
            place,
            extras: Extras::default(),
            prefix: "lock:".to_owned(),
            protocol: Protocol::default(),
            notifications: Notifications::default(),
            release_messages: true,
            tracking: false,
            queue_limit: 10_000,
            retention: HOUR,
            value_retention: None,
            gap: None,
            term_quarantine: None,
            data_quarantine: None,
            confirmation: None,
            on_disk: false,
            command_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            observers: Observers::none(),
            #[cfg(feature = "tls")]
            root_certificates: None,
            #[cfg(feature = "tls")]
            client_certificate: None,
        }
    }

    /// The prefix of the keys of all locks: `lock:` by default.
    ///
    /// All clients of one lock must use one prefix. The prefix cannot contain braces.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The version of the protocol to speak. A version in the URL takes precedence.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_redis::{Protocol, RedisBackend};
    ///
    /// let backend = RedisBackend::builder("redis://127.0.0.1")
    ///     .protocol(Protocol::Resp3)
    ///     .release_messages(false)
    ///     .tracking(true)
    ///     .queue_limit(1_000)
    ///     .retention(Duration::from_secs(600))
    ///     .value_retention(Duration::from_secs(86_400))
    ///     .gap(10, Duration::from_millis(200))
    ///     .connect_timeout(Duration::from_secs(1))
    ///     .build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// What to do about keyspace notifications.
    pub fn notifications(mut self, notifications: Notifications) -> Self {
        self.notifications = notifications;
        self
    }

    /// Whether a release that leaves the lock free publishes a message on a channel of the lock, for all watchers:
    /// yes by default. Some messages are published there in any case: that there is a new value beside the lock,
    /// that permits were added, and that an upgradable reader is the only holder left.
    ///
    /// If the user lacks the right to publish or to subscribe, there are no messages; that is no error. Without
    /// these messages, notifications and [tracking](Self::tracking) there are no watches and no places in the
    /// queue, and waiters rely on the time at which the present lease ends.
    pub fn release_messages(mut self, release_messages: bool) -> Self {
        self.release_messages = release_messages;
        self
    }

    /// Whether the server tracks the keys that are watched (`CLIENT TRACKING`): no by default.
    ///
    /// Tracking is one more source of hints. Like [notifications](Notifications) it reports every change of a key,
    /// by any client, and also `FLUSHALL`. Unlike notifications it needs no setting of the server. In exchange
    /// every change of a watched key, and so every hand-over, costs each watching client a read, though no more
    /// than one in 20 ms.
    ///
    /// Tracking needs RESP3, Redis 6 and the rights to `client|tracking` and `client|caching`. If one of these is
    /// missing, the client does without tracking.
    pub fn tracking(mut self, tracking: bool) -> Self {
        self.tracking = tracking;
        self
    }

    /// The most claims that may wait for one key in the queue of the server: 10 000 by default.
    ///
    /// Beyond that a request that wants to be queued fails with [`ErrorKind::QueueFull`]. With 0 this client takes
    /// no place in the queue: it asks again when a hint or the time tells it to, and claims in the queue go before
    /// it.
    pub fn queue_limit(mut self, limit: u32) -> Self {
        self.queue_limit = limit;
        self
    }

    /// How long the server remembers the fencing tokens of a lock after its lease: an hour by default.
    ///
    /// The server keeps some 210 bytes for each name that was used during that time. In exchange tokens go on
    /// increasing if the server's clock is set back: they start from the remembered tokens. A clock that is never set
    /// back by more than this time, as under NTP by slewing, loses nothing. At least a second, at most 30 days. All
    /// clients of a lock should use one value.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// How long the server keeps a value beside a lock after it was written: for ever by default.
    ///
    /// A [`StoredMutex`](https://docs.rs/lock-sync/latest/lock_sync/struct.StoredMutex.html) whose value has gone
    /// begins with its initial value again, and a `OnceCell` is initialized again. Each write begins the time anew. At
    /// least a second. All clients of a lock should use one value.
    pub fn value_retention(mut self, retention: Duration) -> Self {
        self.value_retention = Some(retention);
        self
    }

    /// Leaves every lock on an [exact key](lock_core::Key::raw) to foreign clients for `pause`, each time that
    /// it was handed over `turns` times in a row: never by default.
    ///
    /// A hand-over within this library never frees the key. As long as claims wait, a foreign client that tries
    /// `SET NX` now and then finds the lock taken every time, and waits for ever. With this option the lock is
    /// free for the pause, and the claims keep their places. Choose a pause that is longer than the time between
    /// two tries of such a client. The price is that the lock is idle for up to a pause.
    ///
    /// All clients of the key should use one value: one without the option hands the lock over and counts no
    /// turn.
    pub fn gap(mut self, turns: u32, pause: Duration) -> Self {
        self.gap = Some((turns, pause));
        self
    }

    /// Whether a lock is kept back after a failover, if a lease on it may be alive of which the new server does not
    /// know: yes by default in a cluster and behind sentinels, no by default for a single server.
    ///
    /// Every grant then names the *term* of its server: the history of the data, which has another name after a
    /// promotion or a restart. If a lock was held under another term and not seen released, the server grants nothing
    /// until the longest lease of that term plus a hundredth has passed on its own clock, from the first look under the
    /// present term on. Renewals, and hand-overs from a lease that is present, go on, and readers join readers; further
    /// permits wait. A lock that was never taken or was released is granted at once. So the lock is safe from renewals
    /// that were not replicated and from clocks that differ, but not from a grant that was not replicated: for that,
    /// grants have to be [confirmed](Self::confirm).
    ///
    /// A release and a renewal then also use the state of the lock. The server is asked for its term once a second on
    /// each connection, and by each grant of a lock that is shared, counted or was not released (some 6 µs). The user
    /// needs the right `+info`: without it, every request for a lock fails with [`ErrorKind::Denied`]. A holder that
    /// crashed without a release before a failover also costs such a pause, once, if its lock is asked for within the
    /// [retention](Self::retention). All clients of a lock should use one value: a grant of a client without the
    /// quarantine names no term, and starts none.
    pub fn term_quarantine(mut self, on: bool) -> Self {
        self.term_quarantine = Some(on);
        self
    }

    /// Has a server that may have forgotten leases grant none until they are over; `longest` is the longest lease of
    /// any client. **The choice for a server without persistence**, which forgets every lock in a restart.
    ///
    /// Off by default, in a cluster and behind sentinels too, for three reasons. Only the app knows the longest lease
    /// of all its clients. Every restart costs a pause of that length, even if the server kept its data. And a new
    /// server needs a call of [`RedisBackend::init`], or it begins with such a pause.
    ///
    /// Lost data means a server that has restarted or was replaced, and so a new connection. On each new connection,
    /// before it carries a request for a lock, a script compares a record on the server with the run of the server and
    /// the history of its data. If the record is missing or belongs to another history, the server *sits out* for the
    /// longest lease and a hundredth, on its own clock and from the first look on. Then requests for locks and for
    /// places in the queue fail with [`ErrorKind::NotReady`], and [`Error::retry_after`] says for how long. Waiters of
    /// `lock-sync` wait, without an error, and go on by themselves. Renewals, releases, inspections and values go on.
    ///
    /// **A server on its first run looks like one that lost its data**: call [`RedisBackend::init`] once, or wait. The
    /// client logs this at `WARN`, once. After a restart a server sits out even if it kept all its data, for example by
    /// `appendfsync always`: nothing proves that. A replica that was promoted, and received its data by replication,
    /// goes on with the history. It does not sit out, and [`term_quarantine`](Self::term_quarantine) keeps back single
    /// locks. But a primary names its history anew when its first replica is attached. A replica that is promoted
    /// before a client has connected since then does sit out.
    ///
    /// A request for a longer lease than `longest` fails with [`ErrorKind::InvalidConfig`], and nothing is sent: no
    /// other client could know how long to wait. The record remembers the longest lease of all clients, and a client
    /// with a longer one prolongs a quarantine that is under way. But the record may be lost with the data. So all
    /// clients must use the option, with one value.
    ///
    /// A grant costs nothing more. The first request for a lock on each connection costs one command more. The user
    /// needs the right `+info`: without it, requests for locks fail with [`ErrorKind::Denied`].
    ///
    /// The client does not notice:
    ///
    /// - `FLUSHALL`, eviction or a deletion, by clients that stay connected. A new connection notices if the record has
    ///   gone;
    /// - a restart that a proxy hides, because the connection of the client lives on;
    /// - that the clock of the server was set forward during a quarantine, which ends too early then.
    ///
    /// A node of a quorum has [its own record](crate#as-a-node-of-a-quorum), and votes do not depend on this option.
    ///
    /// # In a cluster
    ///
    /// Each slot has a record, and sits out by itself: while the slots of a server that lost its data sit out, all
    /// other slots go on. **A slot that moves to another server sits out there**, because nothing proves that this
    /// server got all leases: the former server may have lost some before. So an app pays for each move: for the
    /// longest lease and a hundredth, it gets no lock in that slot, while held locks go on. Waiters wait, and may lose
    /// their places in the queue.
    ///
    /// A replica that was promoted goes on, slot by slot. But a slot for which no client asked between two failovers
    /// sits out after the second one. From Redis 8.4 on, a promoted replica of a cluster sits out: a slot that moved in
    /// one step looks like data from a primary.
    ///
    /// The first request for a lock in a slot costs one command more on each connection, and so does the first one
    /// after five seconds without a request in that slot. A hand-over costs one request more: the client of a waiter
    /// that hears of its grant asks the server. [`RedisBackend::init`] vouches for all slots. Their records take some 3
    /// MB in the cluster.
    ///
    /// The client does not notice that a slot leaves a server and comes back without leases, if no client asks for a
    /// lock in that slot meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Ttl;
    /// use lock_redis::RedisBackend;
    ///
    /// let backend =
    ///     RedisBackend::builder("redis://127.0.0.1:6379").data_quarantine(Ttl::DEFAULT).build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn data_quarantine(mut self, longest: Ttl) -> Self {
        self.data_quarantine = Some(longest);
        self
    }

    /// Counts a lease only once so many replicas have it: never by default.
    ///
    /// Every grant, hand-over, conversion and renewal then costs a commit on a connection of its own: the client writes
    /// a marker behind the grant, and waits until all `replicas` have the marker (`WAIT`). Tasks that ask at one time
    /// share a commit. `replicas` is the number of *all* replicas that each server has, in a cluster of each primary.
    /// If more or fewer are attached, no grant counts: a replica that is not waited for may be the one that is
    /// promoted.
    ///
    /// If a grant is not confirmed, the request fails with [`ErrorKind::NotReady`], which says how many replicas had
    /// the grant. The server may keep the lease: a caller of the backend releases the claim, or repeats the request.
    /// lock-sync does so by itself. An unconfirmed renewal moves no deadline. Releases are not confirmed. **While one
    /// replica is missing, no lock is granted and no lease is renewed.** After a failover that lasts until the old
    /// primary is back as a replica, or an operator attaches another one. What the confirmation proves, and under which
    /// assumptions, is in the [crate docs](crate#confirmed-grants).
    ///
    /// `timeout` is how long the replicas may take: at most half of the [command timeout](Self::command_timeout).
    /// The [quarantine of terms](Self::term_quarantine) is on where grants are confirmed. [`build`](Self::build)
    /// refuses to switch it off: without it a confirmed lease does not outlive a failover for certain. The user needs
    /// the rights `+info` and `+wait`. All clients of a lock should confirm: a grant that is not confirmed may be lost. To
    /// confirm some locks only, use [`RedisBackend::confirming`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_redis::RedisBackend;
    ///
    /// let backend = RedisBackend::builder("redis+sentinel://127.0.0.1:26379/main")
    ///     .confirm(2, Duration::from_millis(500))
    ///     .build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn confirm(mut self, replicas: u32, timeout: Duration) -> Self {
        self.confirmation = Some((replicas, timeout));
        self
    }

    /// Whether a [confirmed](Self::confirm) lease has to be on the disks of the server and of its replicas: no by
    /// default.
    ///
    /// This needs append-only files on all of them, Redis or Valkey from version 7.2 on (`WAITAOF`), and the right
    /// `+waitaof`. An older server refuses every grant with [`ErrorKind::Unsupported`]. With `appendfsync everysec` a
    /// grant takes up to a second and more.
    pub fn confirm_on_disk(mut self, on_disk: bool) -> Self {
        self.on_disk = on_disk;
        self
    }

    /// How long a request may take once there is a connection: 2 s by default.
    ///
    /// The client measures this time in steps of a sixteenth. Keep the time well below the time to live of the leases.
    /// In a cluster and behind sentinels, the client sends a request that no server ran again, for as long as this
    /// time.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long it may take to open a connection: 2 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Tells this observer of requests, connections and redirections, in addition to the observers that were set
    /// before.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::observer::{Connected, Observer};
    /// use lock_redis::RedisBackend;
    ///
    /// struct Connections;
    ///
    /// impl Observer for Connections {
    ///     fn connected(&self, event: &Connected<'_>) {
    ///         println!("connected to {}", event.server);
    ///     }
    /// }
    ///
    /// let backend =
    ///     RedisBackend::builder("redis://127.0.0.1").observer(Arc::new(Connections)).build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.add(observer);
        self
    }

    /// Checks the options and returns the backend. Sends nothing and starts nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the URL or an option makes no sense, or the URL asks for TLS
    /// and the feature `tls` is off; [`ErrorKind::Other`] if the operating system gives no random bytes.
    pub fn build(self) -> Result<RedisBackend, Error> {
        let target = self.target()?;
        self.check(&target, cfg!(feature = "tls"))?;
        let database = target.server().database;
        let retention = self.retention.as_millis() as u64;
        let gap = self.gap.map(|(turns, pause)| Gap { turns, pause: pause.as_millis() as u64 });
        let wish = self.wish()?;
        let fails_over = !matches!(target, Target::Single(_));
        let terms = self.term_quarantine.unwrap_or(fails_over || wish.is_some());
        let values = self.value_retention.map_or(0, |kept| kept.as_millis() as u64);
        let keeping = Keeping { retention, gap, terms, values };
        let layout = Layout::new(&self.prefix, database, keeping)?;
        let routed = matches!(target, Target::Cluster(_));
        let records = layout.records(routed);
        let settings = Settings {
            protocol: self.protocol_of(&target),
            origin: Origin::Server(Arc::new(target.server().clone())),
            command_timeout: self.command_timeout,
            connect_timeout: self.connect_timeout,
            telling: Telling::new(self.observers.clone()),
            terms,
            quarantine: self.data_quarantine.map(|longest| Quarantine::new(longest, records)),
            #[cfg(feature = "tls")]
            tls: Arc::new(self.tls_of(&target)?),
        };
        let listening = Listening {
            notifications: self.notifications,
            release_messages: self.release_messages,
            tracking: self.tracking,
            keeping: keeping.gapless(),
            routed,
        };
        let named = layout.clone();
        let draw_inbox = Arc::new(move || draw_inbox(&named));
        let common = Common { listening, queue_limit: self.queue_limit, draw_inbox };
        let fleet = Fleet::new(target, settings, common)?;
        let limits = Limits { queues: self.queue_limit > 0, longest: self.data_quarantine, wish };
        Ok(RedisBackend::new(layout, fleet, listening, limits))
    }

    fn protocol_of(&self, target: &Target) -> Protocol {
        target.protocol().unwrap_or(self.protocol)
    }

    /// Checks the options.
    fn check(&self, target: &Target, knows_tls: bool) -> Result<(), Error> {
        if target.server().tls && !knows_tls {
            return Err(invalid("TLS is asked for: enable the feature `tls` of lock-redis"));
        }
        for timeout in [self.command_timeout, self.connect_timeout] {
            if timeout < Duration::from_millis(1) || timeout > Duration::from_secs(24 * 60 * 60) {
                return Err(invalid("a timeout is between 1 ms and 24 h"));
            }
        }
        if self.retention < Duration::from_secs(1) || self.retention > 720 * HOUR {
            return Err(invalid("a retention is between 1 s and 30 days"));
        }
        if self.value_retention.is_some_and(|kept| kept < Duration::from_secs(1)) {
            return Err(invalid("a value is kept for at least 1 s"));
        }
        if self.gap.is_some_and(|(turns, pause)| turns == 0 || !GAPS.contains(&pause)) {
            return Err(invalid(
                "a gap comes after at least one turn, and is between 1 ms and 1 min",
            ));
        }
        if self.tracking && self.protocol_of(target) == Protocol::Resp2 {
            return Err(invalid("tracking needs RESP3"));
        }
        Ok(())
    }
}

impl Builder {
    /// How grants are to be confirmed.
    fn wish(&self) -> Result<Option<Wish>, Error> {
        let Some((replicas, timeout)) = self.confirmation else {
            let message = "only confirmed grants can be confirmed on disk";
            return if self.on_disk { Err(invalid(message)) } else { Ok(None) };
        };
        if self.term_quarantine == Some(false) {
            return Err(invalid("confirmed grants need the quarantine of terms"));
        }
        Wish::new(replicas, timeout, self.on_disk, self.command_timeout).map(Some)
    }
}

/// Without the URL and the key, which are or may hold secrets.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("prefix", &self.prefix)
            .field("protocol", &self.protocol)
            .field("notifications", &self.notifications)
            .field("release_messages", &self.release_messages)
            .field("tracking", &self.tracking)
            .field("queue_limit", &self.queue_limit)
            .field("retention", &self.retention)
            .field("gap", &self.gap)
            .field("term_quarantine", &self.term_quarantine)
            .field("data_quarantine", &self.data_quarantine)
            .field("confirmation", &self.confirmation)
            .field("on_disk", &self.on_disk)
            .field("command_timeout", &self.command_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "tls")]
impl Builder {
    fn tls_of(&self, target: &Target) -> Result<crate::link::Tls, Error> {
        let client = self.client_certificate.as_ref().map(|(pem, key)| (&pem[..], &key[..]));
        if client.is_some() && !target.server().tls {
            return Err(invalid("a client certificate needs TLS: use rediss://, or `tls`"));
        }
        crate::link::Tls::new(self.root_certificates.as_deref(), client)
    }
}

/// A channel of this client at one server.
fn draw_inbox(layout: &Layout) -> Result<Channel, Error> {
    // The last three bytes are zeros until the term of the server is known.
    let mut random = [0; 8];
    getrandom::fill(&mut random[..5]).map_err(|error| {
        Error::with_source(ErrorKind::Other, "no random bytes from the system", error)
    })?;
    Ok(layout.inbox(random).into())
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(builder: Builder) -> ErrorKind {
        builder.build().unwrap_err().kind()
    }

    #[test]
    fn nonsense_is_refused_before_anything_is_sent() {
        let builder = || RedisBackend::builder("redis://127.0.0.1");
        for bad in [
            RedisBackend::builder("127.0.0.1:6379"),
            builder().prefix("{app}:"),
            builder().tracking(true).protocol(Protocol::Resp2),
            builder().command_timeout(Duration::ZERO),
            builder().connect_timeout(Duration::ZERO),
            builder().command_timeout(Duration::MAX),
            builder().connect_timeout(Duration::MAX),
            builder().confirm(0, Duration::from_millis(100)),
            builder().confirm(1, Duration::from_millis(1)),
            builder().confirm(1, Duration::from_millis(1_001)),
            builder().confirm_on_disk(true),
            builder().confirm(1, Duration::from_millis(100)).term_quarantine(false),
            builder().gap(0, Duration::from_millis(100)),
            builder().gap(10, Duration::ZERO),
            builder().gap(10, Duration::from_secs(61)),
        ] {
            assert_eq!(kind(bad), ErrorKind::InvalidConfig);
        }
        assert!(builder().build().is_ok());
        assert!(builder().confirm(1, Duration::from_secs(1)).confirm_on_disk(true).build().is_ok());
    }

    #[test]
    fn tls_needs_its_feature() {
        let builder = RedisBackend::builder("rediss://127.0.0.1");
        let error = builder.check(&builder.target().unwrap(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("feature `tls`"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_read_at_once() {
        let builder = RedisBackend::builder("rediss://127.0.0.1");
        assert!(builder.clone().build().is_ok());
        assert_eq!(kind(builder.clone().root_certificates("")), ErrorKind::InvalidConfig);
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(kind(builder.root_certificates(broken)), ErrorKind::InvalidConfig);
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let builder = RedisBackend::builder("redis://me:hunter2@127.0.0.1");
        let backend = builder.clone().build().unwrap();
        let shown = format!("{builder:?} {backend:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    proptest! {
        #[test]
        fn no_option_does_harm(
            prefix in prop_oneof!["[a-z:]{0,8}", any::<String>(), "x{250,260}", "[a{}]{1,3}"],
            limit: u32,
            command in prop_oneof![any::<Duration>(), (0..5_000u64).prop_map(Duration::from_micros)],
            connect in prop_oneof![any::<Duration>(), (0..100_000u64).prop_map(Duration::from_secs)],
        ) {
            let builder = RedisBackend::builder("redis://127.0.0.1/2")
                .prefix(prefix.as_str())
                .queue_limit(limit)
                .command_timeout(command)
                .connect_timeout(connect);
            let is_time = |it| (Duration::from_millis(1)..=Duration::from_secs(86_400)).contains(&it);
            let is_prefix = prefix.len() <= 256 && !prefix.contains(['{', '}']);
            let is_sense = is_prefix && is_time(command) && is_time(connect);
            match builder.build() {
                Ok(_) => prop_assert!(is_sense),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::InvalidConfig);
                    prop_assert!(!is_sense, "{}", error);
                }
            }
        }
    }

    #[cfg(feature = "tls")]
    proptest! {
        #[test]
        fn certificates_are_read_or_refused(
            pieces in prop::collection::vec(prop_oneof![
                prop::sample::select(vec![
                    "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n", "MIIB", "AAAA", "=", "\n",
                    "-----BEGIN PRIVATE KEY-----\n", "-----",
                ]).prop_map(|piece| piece.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..8),
            ], 0..10),
        ) {
            let builder = RedisBackend::builder("rediss://127.0.0.1");
            let error = builder.root_certificates(pieces.concat()).build().unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        }
    }
}
