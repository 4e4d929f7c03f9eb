//! How a backend is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, ErrorKind};

use crate::backend::RedisBackend;
use crate::hub::{Channel, Hub, Listening, Registry};
use crate::keys::{Gap, Keeping, Layout};
use crate::link::{Link, Settings};
use crate::options::{Notifications, Protocol};
use crate::wire::Endpoint;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long a gap may be.
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
    url: String,
    prefix: String,
    protocol: Protocol,
    notifications: Notifications,
    release_messages: bool,
    tracking: bool,
    queue_limit: u32,
    retention: Duration,
    gap: Option<(u32, Duration)>,
    command_timeout: Duration,
    connect_timeout: Duration,
    #[cfg(feature = "tls")]
    root_certificates: Option<Vec<u8>>,
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

    /// Begins to set up a backend for the server at this URL: see the [crate docs](crate#urls).
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }
}

impl Builder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            prefix: "lock:".to_owned(),
            protocol: Protocol::default(),
            notifications: Notifications::default(),
            release_messages: true,
            tracking: false,
            queue_limit: 10_000,
            retention: HOUR,
            gap: None,
            command_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            #[cfg(feature = "tls")]
            root_certificates: None,
        }
    }

    /// What the keys of all locks begin with: `lock:` unless it is said.
    ///
    /// Clients of one lock must use the same prefix. It cannot contain braces.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Which version of the protocol to speak. A version in the URL takes precedence.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// What to do about keyspace notifications.
    pub fn notifications(mut self, notifications: Notifications) -> Self {
        self.notifications = notifications;
        self
    }

    /// Whether a release that leaves the lock free is told to all who watch, by a message on a channel
    /// of the lock: yes, unless it is said. New values beside the lock, permits that are added, and that
    /// nobody is left but an upgradable reader, are told there in any case.
    ///
    /// A user who lacks the right to publish or to subscribe does without, and that is no error.
    /// With neither these messages nor notifications nor [tracking](Self::tracking) there are no
    /// watches and no places in the queue, and waiters rely on the time at which the present lease
    /// ends.
    pub fn release_messages(mut self, release_messages: bool) -> Self {
        self.release_messages = release_messages;
        self
    }

    /// Whether the server is to track the keys that are watched (`CLIENT TRACKING`): no, unless it is
    /// said.
    ///
    /// One more source of hints. Like [notifications](Notifications) it tells of whatever happens to a
    /// key and whoever did it, and of `FLUSHALL` besides; unlike them it needs no setting of the server.
    /// In exchange every change of a watched key, and so every hand-over, costs each watching client
    /// a read, though no more than one in 20 ms.
    ///
    /// It needs RESP3, Redis 6 and the rights to `client|tracking` and `client|caching`. Where the server
    /// lacks them, it is done without.
    pub fn tracking(mut self, tracking: bool) -> Self {
        self.tracking = tracking;
        self
    }

    /// How many may wait for one key in the server's queue: 10 000 unless it is said.
    ///
    /// Beyond that a request that wants to be queued fails with [`ErrorKind::QueueFull`]. With 0 this
    /// client stands in no queue: it asks again when a hint or the time tells it to, and those who do
    /// stand in one go before it.
    pub fn queue_limit(mut self, limit: u32) -> Self {
        self.queue_limit = limit;
        self
    }

    /// How long the server remembers the fencing tokens of a lock after its lease: an hour unless it is said.
    ///
    /// It takes some 210 bytes for each name that was used during that time. In exchange tokens go on increasing
    /// if the server's clock is set back: they start from those that the server remembers. A clock that is never
    /// set back by more than this time, as under NTP by slewing, loses nothing. At least a second, at most 30
    /// days. All clients of a lock should agree.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Leaves every lock on an [exact key](lock_core::Key::as_is) to clients of other kinds for `pause`, each time
    /// that it was handed over `turns` times in a row: never unless it is said.
    ///
    /// A hand-over within this library never frees the key. As long as claims wait, a client that tries `SET NX`
    /// now and then finds the lock taken every time, and waits for ever. With this option the lock is free for the
    /// pause, and the claims keep their places. Choose a pause that is longer than the time between two tries of
    /// such a client. The price is that the lock is idle for up to a pause.
    ///
    /// All clients of the key should agree: one without the option hands the lock over and counts no turn.
    pub fn gap(mut self, turns: u32, pause: Duration) -> Self {
        self.gap = Some((turns, pause));
        self
    }

    /// How long a request may take once there is a connection: 2 s, unless it is said.
    ///
    /// It is measured in steps of a sixteenth. Keep it well below the time to live of the leases.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long it may take to open a connection: 2 s, unless it is said.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Trusts these certificates, in PEM, instead of those of the system.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates = Some(pem.into());
        self
    }

    /// Checks what was said and returns the backend. Sends nothing and starts nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the URL or an option makes no sense, or the URL asks for TLS
    /// and the feature `tls` is off; [`ErrorKind::Other`] if the operating system gives no random bytes.
    pub fn build(self) -> Result<RedisBackend, Error> {
        let endpoint = Endpoint::parse(&self.url)?;
        if endpoint.tls && !cfg!(feature = "tls") {
            return Err(invalid("the URL asks for TLS: enable the feature `tls` of lock-redis"));
        }
        for timeout in [self.command_timeout, self.connect_timeout] {
            if timeout < Duration::from_millis(1) || timeout > Duration::from_secs(24 * 60 * 60) {
                return Err(invalid("a timeout is between 1 ms and 24 h"));
            }
        }
        if self.retention < Duration::from_secs(1) || self.retention > 720 * HOUR {
            return Err(invalid("a retention is between 1 s and 30 days"));
        }
        if self.gap.is_some_and(|(turns, pause)| turns == 0 || !GAPS.contains(&pause)) {
            return Err(invalid(
                "a gap comes after at least one turn, and is between 1 ms and 1 min",
            ));
        }
        let retention = self.retention.as_millis() as u64;
        let gap = self.gap.map(|(turns, pause)| Gap { turns, pause: pause.as_millis() as u64 });
        let layout = Layout::new(&self.prefix, endpoint.database, Keeping { retention, gap })?;
        let settings = Settings {
            protocol: endpoint.protocol.unwrap_or(self.protocol),
            endpoint: Arc::new(endpoint),
            command_timeout: self.command_timeout,
            connect_timeout: self.connect_timeout,
            #[cfg(feature = "tls")]
            tls: crate::link::Tls::new(self.root_certificates.as_deref())?,
        };
        let listening = Listening {
            notifications: self.notifications,
            release_messages: self.release_messages,
            tracking: self.tracking,
            retention,
        };
        if self.tracking && settings.protocol == Protocol::Resp2 {
            return Err(invalid("tracking needs RESP3"));
        }
        let inbox = if self.queue_limit > 0 { Some(draw_inbox(&layout)?) } else { None };
        let registry = Arc::new(Registry::new(inbox));
        let hearing = Arc::clone(&registry);
        let link = Link::new(settings, Arc::new(move |push| hearing.hear(push)));
        let hub = Hub::new(link.clone(), registry, listening);
        Ok(RedisBackend::new(layout, link, hub, self.queue_limit))
    }
}

/// Without the URL, which may hold a password.
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
            .field("command_timeout", &self.command_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

/// A channel that no other client has.
fn draw_inbox(layout: &Layout) -> Result<Channel, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| {
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
        let builder = || Builder::new("redis://127.0.0.1".to_owned());
        for bad in [
            Builder::new("127.0.0.1:6379".to_owned()),
            builder().prefix("{app}:"),
            builder().tracking(true).protocol(Protocol::Resp2),
            builder().command_timeout(Duration::ZERO),
            builder().connect_timeout(Duration::ZERO),
            builder().command_timeout(Duration::MAX),
            builder().connect_timeout(Duration::MAX),
            builder().gap(0, Duration::from_millis(100)),
            builder().gap(10, Duration::ZERO),
            builder().gap(10, Duration::from_secs(61)),
        ] {
            assert_eq!(kind(bad), ErrorKind::InvalidConfig);
        }
        assert!(builder().build().is_ok());
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_needs_its_feature() {
        let error = Builder::new("rediss://127.0.0.1".to_owned()).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("feature `tls`"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_read_at_once() {
        let builder = Builder::new("rediss://127.0.0.1".to_owned());
        assert!(builder.clone().build().is_ok());
        assert_eq!(kind(builder.clone().root_certificates("")), ErrorKind::InvalidConfig);
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(kind(builder.root_certificates(broken)), ErrorKind::InvalidConfig);
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let builder = Builder::new("redis://me:hunter2@127.0.0.1".to_owned());
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
            let builder = Builder::new("redis://127.0.0.1/2".to_owned())
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
            let builder = Builder::new("rediss://127.0.0.1".to_owned());
            let error = builder.root_certificates(pieces.concat()).build().unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        }
    }
}
