//! PostgreSQL databases.

use std::sync::Arc;

use lock_core::Error;
use lock_core::observer::Observer;
use lock_postgres::PostgresBackend;

/// A client of the database that the URL names.
pub(crate) fn open(
    url: &str,
    observer: Option<Arc<dyn Observer>>,
) -> Result<PostgresBackend, Error> {
    let builder = PostgresBackend::builder(url);
    match observer {
        Some(observer) => builder.observer(observer),
        None => builder,
    }
    .build()
}
