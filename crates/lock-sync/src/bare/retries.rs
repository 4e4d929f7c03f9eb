//! How long a caller repeats requests to a store that does not answer.

use std::time::Duration;

use lock_core::{Backoff, Error, Instant};

use super::{BareLock, Limit};
use crate::engine::{BACKOFF, Denial};

/// The pauses between repeated requests. They go on until the limit; without one, for the length of a lease, because
/// after that every lease that was held has ended.
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

    /// Pauses after a failure. Returns the denial if the request is not worth repeating.
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
        // Callers that failed together should not come back together, so the nanoseconds of the clock scatter them.
        let scatter = (now.as_nanos() % 1024) as f64 / 1024.0;
        let pause = self.backoff.fail_scattered(scatter);
        self.lock.alarm(pause.min(left)).await;
        Ok(())
    }
}
