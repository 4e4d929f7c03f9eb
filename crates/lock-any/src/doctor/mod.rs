//! The problems of a store for locks, and their remedies: one form of report for all stores.
//!
//! [`doctor`](doctor()) opens the store that a URL names, examines it, and returns a [`Report`]. Each [`Finding`] has a
//! [`Severity`], a stable code, the reason why it matters, and the remedy.
//!
//! # Findings
//!
//! The report about a server of Redis has the findings of `lock-redis`
//! ([table](https://docs.rs/lock-redis/latest/lock_redis/check/index.html#findings)). The report about a PostgreSQL
//! database has the findings of `lock-postgres`
//! ([table](https://docs.rs/lock-postgres/latest/lock_postgres/check/index.html#findings)), and the report about an
//! etcd cluster those of `lock-etcd` ([table](https://docs.rs/lock-etcd/latest/lock_etcd/check/index.html#findings)).
//! Each report names the [limits](lock_core::Limits) and the [capabilities](lock_core::Capabilities) of the store, and
//! has a finding for each capability that the store [lacks](Report::promising). The doctor adds these findings:
//!
//! | code | severity | finding |
//! | --- | --- | --- |
//! | `memory` | info | the store is the memory of this process |
//! | `node-silent` | warning | a node of a quorum cannot be examined |
//! | `node-absent` | warning | a node of a quorum does not vote: it does not answer, or is another node as well |
//! | `node-kept-out` | warning | a node of a quorum may have forgotten leases, and does not vote yet |
//! | `node-elsewhere` | critical | a node is a member of a quorum of other nodes |
//! | `node-unguarded` | warning | a node votes, and cannot tell whether it has forgotten leases |
//! | `releases-missed` | info | a node has missed releases, which are repeated |
//! | `quorum-lost` | critical | fewer nodes vote than a lock needs |
//! | `quorum-bare` | warning | as many nodes vote as a lock needs, and not one more |
//!
//! A node of a quorum that loses its data gives no vote until every lease that it may have forgotten is over. So for
//! a node, the findings about lost data (`no-persistence`, `snapshots-only`, `appendfsync-no`) have the severity
//! info.

#[cfg(feature = "redlock")]
mod quorum;

pub use lock_core::check::{Examined, Fact, Finding, Report, Severity};
use lock_core::{Error, ErrorKind};

use crate::Store;

/// Examines the store that this URL names.
///
/// It examines a server of Redis by [`RedisBackend::check`](lock_redis::RedisBackend::check), a PostgreSQL database by
/// [`PostgresBackend::check`](lock_postgres::PostgresBackend::check), and an etcd cluster by
/// [`EtcdBackend::check`](lock_etcd::EtcdBackend::check), which reports a version that may end leases early. It
/// examines each node of a quorum as a store of its kind, and then asks whether the node votes. The examination changes
/// no lock of an app.
///
/// # Errors
///
/// - [`ErrorKind::InvalidConfig`] for a URL that names no store;
/// - [`ErrorKind::Unsupported`] for a store whose feature is off;
/// - any other error if the store cannot be reached, does not accept the user, or stops answering. A node of a quorum
///   that cannot be reached is a finding, and no error.
///
/// # Cancel safety
///
/// As [`RedisBackend::check`](lock_redis::RedisBackend::check): the lock of the examination may remain for ten seconds.
///
/// # Examples
///
/// ```
/// use lock_any::doctor::{Severity, doctor};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let report = doctor("memory:").await?;
/// println!("{report}");
/// assert!(report.worst() < Some(Severity::Warning));
/// # Ok(())
/// # }
/// ```
pub async fn doctor(url: &str) -> Result<Report, Error> {
    let (store, url) = Store::of(url)?;
    let url = url.as_str();
    match store {
        Store::Quorum => of_quorum(url).await,
        one => of_one(one, url).await,
    }
}

/// Examines a store that is no quorum.
async fn of_one(store: Store, url: &str) -> Result<Report, Error> {
    match store {
        Store::Memory => crate::memory::open(url).map(|store| memory().promising("memory", &store)),
        Store::Postgres => of_postgres(url).await,
        Store::Etcd => of_etcd(url).await,
        Store::Redis => of_redis(url).await,
        Store::Quorum => {
            Err(Error::new(ErrorKind::InvalidConfig, "a quorum is no node of a quorum"))
        }
    }
}

/// The findings about a new store that are hard to mend as soon as there are clients. Only a database can have some:
/// its schema has an owner. Of any other store this asks nothing.
///
/// # Errors
///
/// As [`doctor`](doctor()).
///
/// # Cancel safety
///
/// As [`doctor`](doctor()).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// lock_any::init("memory:").await?;
/// assert!(lock_any::doctor::hard_to_mend("memory:").await?.is_empty());
/// # Ok(())
/// # }
/// ```
pub async fn hard_to_mend(url: &str) -> Result<Vec<Finding>, Error> {
    let (store, url) = Store::of(url)?;
    let findings = match store {
        Store::Postgres => of_postgres(&url).await?.findings,
        Store::Memory | Store::Etcd | Store::Redis | Store::Quorum => Vec::new(),
    };
    Ok(findings.into_iter().filter(|it| it.code == "owner-superuser").collect())
}

fn memory() -> Report {
    let name = "memory";
    let finding = Finding::new(Severity::Info, "memory", name)
        .because("the store is the memory of this process", "no other process sees its locks")
        .remedy("name a server in the URL if several processes are to share the locks");
    Report::new(vec![Examined::new(name)], vec![finding])
}

#[cfg(feature = "postgres")]
async fn of_postgres(url: &str) -> Result<Report, Error> {
    crate::postgres::open(url, None)?.check().await
}

#[cfg(not(feature = "postgres"))]
async fn of_postgres(_: &str) -> Result<Report, Error> {
    Err(crate::needs("postgres"))
}

#[cfg(feature = "etcd")]
async fn of_etcd(url: &str) -> Result<Report, Error> {
    crate::etcd::open(url, None)?.check().await
}

#[cfg(not(feature = "etcd"))]
async fn of_etcd(_: &str) -> Result<Report, Error> {
    Err(crate::needs("etcd"))
}

#[cfg(feature = "redis")]
async fn of_redis(url: &str) -> Result<Report, Error> {
    Ok(crate::redis::open(url, None)?.check().await?.map(Examined::from))
}

#[cfg(not(feature = "redis"))]
async fn of_redis(_: &str) -> Result<Report, Error> {
    Err(crate::needs("redis"))
}

#[cfg(feature = "redlock")]
async fn of_quorum(url: &str) -> Result<Report, Error> {
    quorum::examine(url).await
}

#[cfg(not(feature = "redlock"))]
async fn of_quorum(_: &str) -> Result<Report, Error> {
    Err(crate::needs("redlock"))
}
