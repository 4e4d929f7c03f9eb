//! Locks over the store that a URL names.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = lock_any::connect("memory:").await?;
//! let order = locks.mutex("orders/42", ())?;
//! let _guard = order.lock().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | URL | store | feature |
//! | --- | --- | --- |
//! | `memory:`, `memory://name` | the memory of this process; each name is a store of its own | |
//! | `redis://host:port/db` | one server of Redis or Valkey | `redis` |
//! | `redis+sentinel://host,host/service/db` | the primary that these sentinels watch | `redis` |
//! | `redis+cluster://host,host` | a cluster | `redis` |
//! | `rediss://…`, `rediss+cluster://…`, `rediss+sentinel://…` | as above, with TLS | `redis`, `tls` |
//! | `redis+unix:///path`, `unix:///path` | one server at a socket | `redis` |
//! | `redlock+redis://host,host,host/db`, `redlock+rediss://…` with TLS | a quorum of servers, each of which fails on its own | `redlock`; `tls` |
//! | `redlock:redis://host/db postgres://host/database etcd://host,host` | a quorum of nodes of any kinds: the URL of each, with spaces between them | `redlock`, and those of the nodes |
//! | `postgres://user:password@host,host/database`, `postgresql://…` | a PostgreSQL database, with `sslmode=require` over TLS | `postgres`; `tls` |
//! | `etcd://user:password@host,host,host/prefix`, `etcds://…` with TLS | an etcd cluster | `etcd`; `tls` |
//!
//! Some options of a builder must have one value in all clients of a lock: `prefix`, `data_quarantine`, `confirm` and
//! `term_quarantine` of lock-redis, and `max_ttl` of lock-redlock. No URL has these options. If an app sets one of them,
//! its other clients must not use lock-any or `dlock run`. A client without `data_quarantine` or `confirm` may take a
//! lock that has a holder. A client with another prefix does not find the locks.
//!
//! A PostgreSQL database needs the schema of the locks, and [`init`] creates the schema. tokio-postgres reads the options
//! of a URL, for example `connect_timeout`. lock-postgres reads four more: `sslmode=verify-ca` and `sslmode=verify-full`,
//! which mean `require`, and `direct=false` and `pooler=host:port`, which say how the URL leads through a pooler and past
//! the pooler. The documentation of
//! `lock-redis` describes the URLs of Redis, and [`EtcdBackend::open`](lock_etcd::EtcdBackend::open) the URLs of etcd,
//! with the option that allows an old version. The URL `redlock+redis:` names several hosts, which
//! share the login, the database and the options of the URL. A host and its port are the [name of a
//! node](lock_redlock::Builder::node), so all clients must spell a host in one way. A new quorum grants nothing
//! until an operator calls [`init`], or the quarantine of its nodes is over.
//!
//! After `redlock:` each node has a URL of its own: a server or a service of Redis, a database, or an etcd cluster,
//! each of which fails on its own. The name of such a node is its URL without the login and the options, for example
//! `postgres://db.example/shop`. Neither the memory of a process nor a Redis cluster can be a node.
//!
//! [`connect`] returns [`Locks`] without the type of the backend, so an app can keep the handle in a field. The handle
//! has every primitive. A primitive that the store cannot serve fails with [`ErrorKind::Unsupported`], before anything
//! is sent. [`doctor`] reports the problems of the store behind a URL.
//!
//! An app that knows its store at compile time uses [`Locks::new`] with the backend of that store instead.
//!
//! [`Locks::new`]: lock_sync::Locks::new

#![forbid(unsafe_code)]

pub mod doctor;
#[cfg(feature = "etcd")]
mod etcd;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redlock")]
mod quorum;
#[cfg(feature = "redis")]
mod redis;
mod shown;

use std::env::{self, VarError};
use std::sync::Arc;

use lock_core::observer::Observer;
use lock_core::{AnyBackend, Error, ErrorKind};
use lock_sync::Locks;

#[cfg(feature = "etcd")]
pub use lock_etcd;
#[cfg(feature = "postgres")]
pub use lock_postgres;
#[cfg(feature = "redis")]
pub use lock_redis;
#[cfg(feature = "redlock")]
pub use lock_redlock;
pub use lock_sync;
pub use shown::shown;

/// The variable that [`connect_from_env`] reads: `LOCK_URL`.
pub const ENV: &str = "LOCK_URL";

/// Makes locks over the store that this URL names, with the defaults of [`lock_sync::Builder`].
///
/// For Redis, PostgreSQL and etcd, this call sends nothing: the first lock opens the connection. For a quorum, it asks
/// each server for its identity.
///
/// # Errors
///
/// - [`ErrorKind::InvalidConfig`] for a URL that names no store, before anything is sent. The message repeats no
///   password;
/// - [`ErrorKind::Unsupported`] for a store whose feature is off;
/// - over a quorum, the errors of its [builder](lock_redlock::Builder::build).
///
/// # Cancel safety
///
/// Dropping the future leaves nothing behind, except that quarantines of nodes may have begun.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_any::lock_sync::{Locks, Mutex};
///
/// struct App {
///     locks: Locks,
///     orders: Mutex<()>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = lock_any::connect("memory://shop").await?;
/// let app = App { orders: locks.mutex("orders", ())?, locks };
/// let _guard = app.orders.lock().await?;
///
/// // With options of one's own:
/// let store = lock_any::open("memory://shop").await?;
/// let locks = Locks::builder(store).ttl(Duration::from_secs(10)).build()?;
/// assert!(locks.mutex("orders", ())?.try_lock().await.is_err());
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<Locks, Error> {
    Ok(Locks::new(open(url).await?))
}

/// As [`connect`], with the URL in the variable [`LOCK_URL`](ENV).
///
/// # Errors
///
/// As [`connect`]; [`ErrorKind::InvalidConfig`] if the variable is not set, or is no text.
///
/// # Cancel safety
///
/// As [`connect`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// match lock_any::connect_from_env().await {
///     Ok(locks) => drop(locks),
///     Err(error) => eprintln!("{error}"), // "LOCK_URL is not set", for example
/// }
/// # }
/// ```
pub async fn connect_from_env() -> Result<Locks, Error> {
    let invalid = |what| Error::new(ErrorKind::InvalidConfig, format!("{ENV} {what}"));
    let url = env::var(ENV).map_err(|error| match error {
        VarError::NotPresent => invalid("is not set"),
        VarError::NotUnicode(_) => invalid("is no text"),
    })?;
    connect(&url).await
}

/// Sets a new store up, before a client holds a lock on the store.
///
/// - In a PostgreSQL database, it [creates the schema](lock_postgres::PostgresBackend::init) of the locks, or brings
///   the schema to the version of this crate.
/// - For a quorum, it [declares](lock_redlock::Redlock::init) that no client holds a lock. Then the nodes vote at once.
///   Call this function once, when the servers are set up. Do not call the function for a quorum that is in use: two
///   clients may then hold one lock.
/// - For every other store, it checks the URL and sends nothing.
///
/// # Errors
///
/// Those of [`connect`], of [`Redlock::init`](lock_redlock::Redlock::init) and of
/// [`PostgresBackend::init`](lock_postgres::PostgresBackend::init). It is safe to repeat the call for a database. For a
/// quorum, it is safe to repeat the call while no client holds a lock.
///
/// # Cancel safety
///
/// If the future is dropped, some nodes may have the declaration and others not, and the schema may be there or not.
/// Repeat the call, for a quorum while no client holds a lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// lock_any::init("memory:").await?;
/// # Ok(())
/// # }
/// ```
pub async fn init(url: &str) -> Result<(), Error> {
    let (store, url) = Store::of(url)?;
    let url = url.as_str();
    match store {
        Store::Postgres => init_postgres(url).await,
        Store::Quorum => init_quorum(url).await,
        Store::Memory | Store::Redis | Store::Etcd => open(url).await.map(drop),
    }
}

/// As [`connect`], with an observer of the locks and of their store.
///
/// # Errors
///
/// As [`connect`].
///
/// # Cancel safety
///
/// As [`connect`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use lock_core::observer::{HoldEnded, Observer};
///
/// struct Holds;
///
/// impl Observer for Holds {
///     fn hold_ended(&self, event: &HoldEnded<'_>) {
///         println!("{} was held for {:?}", event.key, event.held);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = lock_any::connect_observed("memory:", Arc::new(Holds)).await?;
/// drop(locks.lock("report").await?);
/// # Ok(())
/// # }
/// ```
pub async fn connect_observed(url: &str, observer: Arc<dyn Observer>) -> Result<Locks, Error> {
    let store = open_observed(url, Arc::clone(&observer)).await?;
    Locks::builder(store).observer(observer).build()
}

/// Opens the backend that this URL names.
///
/// # Errors
///
/// As [`connect`].
///
/// # Cancel safety
///
/// As [`connect`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = lock_any::open("postgers://db").await.unwrap_err();
/// assert!(error.to_string().contains("postgres://"), "the error names what there is: {error}");
/// # }
/// ```
pub async fn open(url: &str) -> Result<AnyBackend, Error> {
    backend(url, None).await
}

/// As [`open`], with an observer of the store. Give the observer to the [builder of the
/// locks](lock_sync::Builder::observer) as well.
///
/// # Errors
///
/// As [`connect`].
///
/// # Cancel safety
///
/// As [`connect`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use lock_any::lock_sync::Locks;
/// use lock_core::observer::{Observer, StoreAnswered};
///
/// struct Requests;
///
/// impl Observer for Requests {
///     fn store_answered(&self, event: &StoreAnswered<'_>) {
///         println!("{} took {:?}", event.verb, event.took);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = lock_any::open_observed("memory:", Arc::new(Requests)).await?;
/// let locks = Locks::new(store);
/// # Ok(())
/// # }
/// ```
pub async fn open_observed(url: &str, observer: Arc<dyn Observer>) -> Result<AnyBackend, Error> {
    backend(url, Some(observer)).await
}

async fn backend(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    let (store, url) = Store::of(url)?;
    let url = url.as_str();
    match store {
        // The memory backend has neither requests nor connections to observe.
        Store::Memory => memory::open(url).map(AnyBackend::new),
        Store::Postgres => postgres(url, observer),
        Store::Etcd => etcd(url, observer),
        Store::Redis => redis(url, observer),
        Store::Quorum => quorum_of(url, observer).await,
    }
}

/// The kind of store that a URL names.
enum Store {
    Memory,
    Postgres,
    Etcd,
    Redis,
    Quorum,
}

impl Store {
    /// The kind, and the URL with its scheme in small letters: the case has no meaning, but some parsers know one case
    /// only.
    fn of(url: &str) -> Result<(Self, String), Error> {
        let (scheme, rest) = url.split_at(url.find(':').unwrap_or(url.len()));
        let scheme = scheme.to_ascii_lowercase();
        let (is_quorum, server) = match scheme.strip_prefix("redlock+") {
            Some(server) => (true, server),
            None => (false, scheme.as_str()),
        };
        let store = match (server.split('+').next().unwrap_or_default(), is_quorum) {
            ("memory", false) => Self::Memory,
            ("postgres" | "postgresql", false) if scheme == server => Self::Postgres,
            ("etcd" | "etcds", false) if scheme == server => Self::Etcd,
            ("redis" | "rediss" | "valkey" | "valkeys" | "unix", false) => Self::Redis,
            ("redis" | "rediss" | "valkey" | "valkeys" | "unix", true) => Self::Quorum,
            ("redlock", false) if scheme == server => Self::Quorum,
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidConfig,
                    "the URL names no store: it begins with memory:, etcd://, postgres://, redis://, rediss://, \
                 redis+sentinel://, redis+cluster://, redlock+redis:// or redlock:",
                ));
            }
        };
        Ok((store, scheme + rest))
    }
}

#[cfg(feature = "postgres")]
fn postgres(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    postgres::open(url, observer).map(AnyBackend::new)
}

#[cfg(feature = "postgres")]
async fn init_postgres(url: &str) -> Result<(), Error> {
    postgres::open(url, None)?.init().await
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str, _: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    Err(needs("postgres"))
}

#[cfg(not(feature = "postgres"))]
async fn init_postgres(_: &str) -> Result<(), Error> {
    Err(needs("postgres"))
}

#[cfg(feature = "etcd")]
fn etcd(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    etcd::open(url, observer).map(AnyBackend::new)
}

#[cfg(not(feature = "etcd"))]
fn etcd(_: &str, _: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    Err(needs("etcd"))
}

#[cfg(feature = "redis")]
fn redis(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    redis::open(url, observer).map(AnyBackend::new)
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str, _: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    Err(needs("redis"))
}

#[cfg(feature = "redlock")]
async fn quorum_of(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    quorum::open(url, observer).await
}

#[cfg(feature = "redlock")]
async fn init_quorum(url: &str) -> Result<(), Error> {
    quorum::init(url).await
}

#[cfg(not(feature = "redlock"))]
async fn init_quorum(_: &str) -> Result<(), Error> {
    Err(needs("redlock"))
}

#[cfg(not(feature = "redlock"))]
async fn quorum_of(_: &str, _: Option<Arc<dyn Observer>>) -> Result<AnyBackend, Error> {
    Err(needs("redlock"))
}

#[cfg(not(all(feature = "etcd", feature = "postgres", feature = "redis", feature = "redlock")))]
fn needs(feature: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("this store needs the feature `{feature}` of lock-any"),
    )
}

// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
