//! The stores of other kinds than Redis, as all workers open them.

use std::time::Duration;

use lock_core::Error;
use lock_etcd::EtcdBackend;
use lock_postgres::PostgresBackend;

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// A client of the database at this URL.
pub(crate) fn postgres(url: &str) -> Result<PostgresBackend, Error> {
    PostgresBackend::builder(url).command_timeout(ANSWER).build()
}

/// A client of the servers at this URL, whatever their version.
pub(crate) fn etcd(url: &str) -> Result<EtcdBackend, Error> {
    // One member has no leader that others could replace. What old versions of several do, the table says.
    EtcdBackend::builder(url).allow_unsafe_version().command_timeout(ANSWER).build()
}
