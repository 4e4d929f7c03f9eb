//! Claims that wait in the queue of a server.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Grant, Hint, Watch};
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

    /// Whether the next hint is a grant to this claim that needs no question.
    pub(crate) async fn hears_its_grant(&mut self) -> bool {
        let hint = self.watch.next().await.expect("the watch has ended");
        matches!(hint, Hint::Granted { owner, grant: Some(_) } if owner == self.request.claim.owner)
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
