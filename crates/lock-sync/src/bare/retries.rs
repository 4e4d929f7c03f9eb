//! How long a caller repeats requests to a silent store.

use std::time::Duration;

use lock_core::{Backoff, Error, Instant};

use super::{BareLock, Limit};
use crate::engine::{BACKOFF, Denial};

/// The pauses between repeated requests. They go on until the limit of the caller or the limit of an outage. Without
/// either limit, they go on for the length of a lease: after that, every earlier lease has ended. A try repeats no
/// request.
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
        let (patience, bounds_all) = self.lock.patience();
        let left = self.limit.left(self.lock);
        if left == Some(Duration::ZERO) && error.is_retryable() {
            return Err(Denial::Timeout(Some(error)));
        }
        let over = now >= since + patience && (bounds_all || left.is_none());
        if over || self.limit.is_try() || !error.is_retryable() {
            return Err(Denial::Failed(error));
        }
        let left = left.unwrap_or(Duration::MAX);
        // Callers that failed together should not ask again together.
        let pause = self.backoff.fail_scattered_at_random();
        self.lock.alarm(pause.min(left)).await;
        Ok(())
    }
}
