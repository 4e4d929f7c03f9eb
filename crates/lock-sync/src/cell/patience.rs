//! How long a store is waited for that does not answer, and somebody else.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Instant};

use crate::asking::alarm;
use crate::engine::{Denial, Wait};
use crate::locks::Shared;

/// Back-off after failures: from here, doubling, up to there.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Those parts of a wait that know why it takes so long have this much time to say so.
const LAST_WORD: Duration = Duration::from_millis(5);

/// When a wait ends, if it does: a limit does not begin anew with each of its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(Option<Instant>);

impl Limit {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// A limit that begins now.
    pub(crate) fn of(wait: Wait, shared: &Shared) -> Self {
        match wait {
            Wait::AtMost(limit) => Self(Some(shared.clock.now() + limit)),
            Wait::Try | Wait::Forever => Self(None),
        }
    }

    /// What is left of it for the next part.
    pub(crate) fn wait(self, shared: &Shared) -> Wait {
        self.left(shared).map_or(Wait::Forever, Wait::AtMost)
    }

    /// Waits for this, unless the limit is reached or the locks shut down before.
    pub(crate) async fn bound<T, E: From<Denial>>(
        self,
        shared: &Arc<Shared>,
        waiting: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        shared.start().map_err(Denial::Failed)?;
        let reached = async {
            match self.left(shared) {
                Some(left) => drop(alarm(shared, left + LAST_WORD).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = waiting => outcome,
            () = shared.closed() => Err(Denial::Closed.into()),
            () = reached => Err(Denial::Timeout(None).into()),
        }
    }

    fn left(self, shared: &Shared) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(shared.clock.now()))
    }
}

/// Repeats what a store did not answer for as long as the limit says; without one, for as long as a lease
/// lives: then nothing that was held is left.
pub(crate) struct Patience<'a> {
    shared: &'a Arc<Shared>,
    limit: Limit,
    since: Option<Instant>,
    tries: u32,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>, limit: Limit) -> Self {
        Self { shared, limit, since: None, tries: 0 }
    }

    /// Pauses after a failure, if it is worth trying again.
    pub(crate) async fn after(&mut self, error: Error) -> Result<(), Denial> {
        let now = self.shared.clock.now();
        let since = *self.since.get_or_insert(now);
        let left = match self.limit.left(self.shared) {
            _ if !error.is_retryable() => return Err(Denial::Failed(error)),
            Some(Duration::ZERO) => return Err(Denial::Timeout(Some(error))),
            Some(left) => left,
            None if now >= since + self.shared.policy.ttl.duration() => {
                return Err(Denial::Failed(error));
            }
            None => Duration::MAX,
        };
        let most = BACKOFF.0.saturating_mul(1 << self.tries.min(16)).min(BACKOFF.1);
        self.tries += 1;
        // Those who failed together need not come back together: no two clocks agree to the nanosecond.
        let scatter = (now.as_nanos() % 1024) as f64 / 1024.0;
        let pause = most / 2 + most.mul_f64(scatter / 2.0);
        drop(alarm(self.shared, pause.min(left)).await);
        Ok(())
    }
}
