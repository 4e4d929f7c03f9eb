//! Servers of Redis or Valkey.

use std::sync::Arc;

use lock_core::Error;
use lock_core::observer::Observer;
use lock_redis::RedisBackend;

/// A client of the servers that the URL names.
pub(crate) fn open(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<RedisBackend, Error> {
    let builder = RedisBackend::builder(url);
    match observer {
        Some(observer) => builder.observer(observer),
        None => builder,
    }
    .build()
}
