//! Each verb of a lock, once.

use lock_core::check::Rehearsal;
use lock_core::{Error, Key, Ttl};
use tokio::time::{Duration, sleep};

use crate::RedisBackend;

/// The name of the lock.
pub(super) const NAME: &str = "lock-redis/check";

/// Acquires, renews, watches, inspects and hands over a lock.
pub(super) async fn rehearse(backend: &RedisBackend) -> Result<Rehearsal, Error> {
    let ttl = Ttl::new(Duration::from_secs(10))?;
    let ttl = backend.longest().map_or(ttl, |longest| ttl.min(longest));
    let limit = backend.fleet().command_timeout();
    let patience = async { sleep(limit).await };
    let mut rehearsal = Rehearsal::of(backend, &Key::new(NAME)?, ttl, patience).await;
    rehearsal.unqueued &= backend.queues();
    Ok(rehearsal)
}
