//! Claims that wait in the queue of the server.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Error, FencingToken, Grant, Hint, Ttl, Watch,
};
use lock_redis::RedisBackend;

use super::{long, soon};

/// A claim that has a place in the queue, and the watch on which its client hears.
pub(crate) struct Waiter {
    pub(crate) backend: RedisBackend,
    pub(crate) request: Acquire,
    pub(crate) watch: Watch,
}

impl Waiter {
    /// Listens, and has not asked yet.
    pub(crate) async fn new(backend: &RedisBackend, claim: Claim, ttl: Ttl) -> Self {
        let watch = backend.watch(&claim.key).await.unwrap();
        let request = Acquire::new(claim, ttl).queued();
        Self { backend: backend.clone(), request, watch }
    }

    /// Takes a place in the queue.
    pub(crate) async fn queue(backend: &RedisBackend, claim: Claim) -> Self {
        Self::queue_for(backend, claim, long()).await
    }

    pub(crate) async fn queue_for(backend: &RedisBackend, claim: Claim, ttl: Ttl) -> Self {
        let waiter = Self::new(backend, claim, ttl).await;
        let attempt = waiter.ask().await.unwrap();
        assert!(matches!(attempt, AcquireOutcome::Queued { .. }), "{attempt:?}");
        waiter
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.request.claim
    }

    /// Repeats the request.
    pub(crate) async fn ask(&self) -> Result<AcquireOutcome, Error> {
        self.backend.try_acquire(&self.request).await
    }

    /// Repeats a request that must be granted by now.
    pub(crate) async fn asks_and_has(&self) -> Grant {
        match self.ask().await.unwrap() {
            AcquireOutcome::Granted(grant) => grant,
            other => panic!("expected a grant, got {other:?}"),
        }
    }

    /// Repeats a request that must still be queued; returns when it is to be repeated.
    pub(crate) async fn asks_in(&self) -> Duration {
        match self.ask().await.unwrap() {
            AcquireOutcome::Queued { retry_after } => retry_after.unwrap(),
            other => panic!("expected a place, got {other:?}"),
        }
    }

    /// Asks after this time, and then again whenever a hint says so, until it has the lock. Returns its token.
    pub(crate) async fn asks_until_it_has(&self, mut rest: Duration) -> FencingToken {
        soon(async {
            loop {
                tokio::time::sleep(rest).await;
                match self.ask().await.unwrap() {
                    AcquireOutcome::Granted(grant) => return grant.tokens.first(),
                    AcquireOutcome::Queued { retry_after } => rest = retry_after.unwrap(),
                    other => panic!("{other:?}"),
                }
            }
        })
        .await
    }

    /// The next hint that this claim was granted. Hints about other claims of the client come here,
    /// too.
    pub(crate) async fn told(&mut self) -> Option<Grant> {
        soon(async {
            loop {
                match self.watch.next().await.expect("the watch has ended") {
                    Hint::Granted { owner, grant } if owner == self.request.claim.owner => {
                        return grant;
                    }
                    _ => {}
                }
            }
        })
        .await
    }

    /// Waits until it hears of its grant. If the message comes too late to bring the grant, asks for it.
    pub(crate) async fn gets_it(&mut self) -> Grant {
        match self.told().await {
            Some(grant) => grant,
            None => self.asks_and_has().await,
        }
    }

    /// The next hint, of any kind.
    pub(crate) async fn hint(&mut self) -> Hint {
        soon(self.watch.next()).await.expect("the watch has ended")
    }

    pub(crate) async fn release(&self) -> lock_core::Released {
        self.backend.release(self.claim()).await.unwrap()
    }
}
