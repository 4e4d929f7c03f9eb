//! What is wrong with a store for locks, and what to do: one report for all stores.
//!
//! [`doctor`](doctor()) opens the store that a URL names, examines it, and returns a [`Report`]. Each [`Finding`] has a
//! [`Severity`], a stable code, the reason why it matters, and the remedy.
//!
//! # Findings
//!
//! Of a server of Redis, the report has the findings of `lock-redis`
//! ([table](https://docs.rs/lock-redis/latest/lock_redis/check/index.html#findings)). These are added:
//!
//! | code | severity | what was found |
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
//! A node of a quorum that loses its data keeps out of votes until every lease that it may have forgotten is over. So
//! the findings about lost data (`no-persistence`, `snapshots-only`, `appendfsync-no`) have the severity info there.

#[cfg(feature = "redlock")]
mod quorum;
#[cfg(feature = "redis")]
mod redis;
mod report;

use lock_core::Error;

pub use self::report::{Examined, Fact, Finding, Report, Severity};
use crate::Store;

/// Examines the store that this URL names.
///
/// A server of Redis is examined as [`RedisBackend::check`](lock_redis::RedisBackend::check) says. Each node of a quorum
/// is examined so, and then asked whether it votes. The examination changes no lock of an app.
///
/// # Errors
///
/// - [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) for a URL that names no store;
/// - [`ErrorKind::Unsupported`](lock_core::ErrorKind::Unsupported) for a store whose feature is off;
/// - any other error if the store cannot be reached, does not accept the user, or stops answering. Of a quorum, a node
///   that cannot be reached is a finding.
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
    match Store::of(url)? {
        Store::Memory => crate::memory::open(url).map(|_| memory()),
        Store::Redis => of_redis(url).await,
        Store::Quorum => of_quorum(url).await,
    }
}

fn memory() -> Report {
    let name = "memory";
    let finding = Finding::new(Severity::Info, "memory", name)
        .because("the store is the memory of this process", "no other process sees its locks")
        .remedy("name a server in the URL if several processes are to share the locks");
    Report::new(vec![Examined::new(name)], vec![finding])
}

#[cfg(feature = "redis")]
async fn of_redis(url: &str) -> Result<Report, Error> {
    redis::examine(&lock_redis::RedisBackend::open(url)?).await
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
