//! How long a store is asked again that does not answer.

use std::time::Duration;

use lock_core::{Backoff, Error, Instant};

use super::{BareLock, Limit};
use crate::engine::{BACKOFF, Denial};

/// Repeats what a store did not answer for as long as the limit says; without one, for as long as a lease
/// lives: then nothing that was held is left.
pub(crate) struct Retries<'a> {
    lock: &'a BareLock,
    limit: Limit,
    since: Option<Instant>,
    backoff: Backoff,
}

impl<'a> Retries<'a> {
    pub(crate) fn new(lock: &'a BareLock, limit: Limit) -> Self {
        Self { lock, limit, since: None, backoff: BACKOFF }
    }

    /// Pauses after a failure, if it is worth trying again.
    pub(crate) async fn after(&mut self, error: Error) -> Result<(), Denial> {
        let now = self.lock.now();
        let since = *self.since.get_or_insert(now);
        let left = match self.limit.left(self.lock) {
            _ if !error.is_retryable() => return Err(Denial::Failed(error)),
            Some(Duration::ZERO) => return Err(Denial::Timeout(Some(error))),
            Some(left) => left,
            None if now >= since + self.lock.ttl() => {
                return Err(Denial::Failed(error));
            }
            None => Duration::MAX,
        };
        // Callers that failed together need not come back together: no two clocks agree to the nanosecond.
        let scatter = (now.as_nanos() % 1024) as f64 / 1024.0;
        let pause = self.backoff.fail_scattered(scatter);
        self.lock.alarm(pause.min(left)).await;
        Ok(())
    }
}
