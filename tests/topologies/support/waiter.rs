//! Claims that wait in the queue of a server.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Clock, Grant, Hint, Watch};
use lock_redis::RedisBackend;
use lock_tests::soon;

use super::long;

/// A claim that has a place in the queue, and the watch on which its client hears.
pub(crate) struct Waiter {
    pub(crate) backend: RedisBackend,
    pub(crate) request: Acquire,
    pub(crate) watch: Watch,
}

impl Waiter {
    /// Takes a place in the queue.
    pub(crate) async fn queue(backend: &RedisBackend, claim: Claim) -> Self {
        let watch = backend.watch(&claim.key).await.unwrap();
        let request = Acquire::new(claim, long()).queued();
        let waiter = Self { backend: backend.clone(), request, watch };
        let attempt = waiter.ask().await;
        assert!(matches!(attempt, AcquireOutcome::Queued { .. }), "{attempt:?}");
        waiter
    }

    /// Repeats the request until there is an answer.
    pub(crate) async fn ask(&self) -> AcquireOutcome {
        loop {
            match self.backend.try_acquire(&self.request).await {
                Ok(attempt) => return attempt,
                Err(error) if error.is_retryable() => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Repeats the request until it has its place. Without its subscription, which a server may end at any time during
    /// a failover, the answer is only that the lock is held.
    pub(crate) async fn is_queued(&self) {
        loop {
            match self.ask().await {
                AcquireOutcome::Queued { .. } => return,
                AcquireOutcome::Busy { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits for a hint of this kind.
    pub(crate) async fn hears(&mut self, wanted: Hint) {
        soon(async { while self.watch.next().await.expect("the watch has ended") != wanted {} })
            .await;
    }

    /// Takes the next hint. If it is a grant to this claim, has the lease for long enough. Returns whether a question
    /// was needed for that, or the other hint.
    pub(crate) async fn hears_its_grant(&mut self) -> Result<bool, Hint> {
        // A lease that was handed over lives for a second. On a busy machine the message may come late.
        const ENOUGH: Duration = Duration::from_millis(600);
        match soon(self.watch.next()).await.expect("the watch has ended") {
            Hint::Granted { owner, grant } if owner == self.request.claim.owner => {
                let least = Clock::boot().now() + ENOUGH;
                let asks = grant.is_none_or(|grant| grant.valid_until < least);
                if asks {
                    let attempt = self.ask().await;
                    assert!(matches!(attempt, AcquireOutcome::Granted(_)), "{attempt:?}");
                }
                Ok(asks)
            }
            other => Err(other),
        }
    }

    /// Waits for its grant, and has the lease for long enough. Returns whether a question was needed for that.
    pub(crate) async fn waits_for_its_grant(&mut self) -> bool {
        loop {
            if let Ok(asks) = self.hears_its_grant().await {
                return asks;
            }
        }
    }

    /// Waits as an engine does: enters on a grant, asks at every other hint, and keeps the place.
    pub(crate) async fn gets_it(&mut self) -> Grant {
        soon(async {
            let mut ask = true;
            loop {
                if std::mem::take(&mut ask)
                    && let AcquireOutcome::Granted(grant) = self.ask().await
                {
                    return grant;
                }
                let owner = self.request.claim.owner;
                match self.watch.next().await.expect("the watch has ended") {
                    Hint::Granted { owner: it, grant: Some(grant) } if it == owner => return grant,
                    Hint::Granted { owner: it, .. } => ask = it == owner,
                    Hint::Next { .. } => {}
                    _ => ask = true,
                }
            }
        })
        .await
    }
}
