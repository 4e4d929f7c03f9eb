//! Short forms of requests to a backend.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Error, Grant, Key, OwnerToken, Ttl};

use crate::eventually_async;

/// An exclusive claim of a new owner.
///
/// # Panics
///
/// If the name is no name of a lock.
pub fn claim(name: impl AsRef<[u8]>) -> Claim {
    let key = Key::new(name).expect("a name of a lock");
    Claim::exclusive(key, OwnerToken::generate().expect("the system has random numbers"))
}

/// A ttl that outlasts any test.
///
/// # Panics
///
/// Never.
pub fn long() -> Ttl {
    Ttl::new(Duration::from_secs(60)).expect("a minute is a ttl")
}

/// Asks once for a lease.
///
/// # Errors
///
/// Those of the backend.
pub async fn attempt(
    backend: &impl Backend,
    claim: &Claim,
    ttl: Ttl,
) -> Result<AcquireOutcome, Error> {
    backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await
}

/// Asks once for a lease. The backend must grant the lease.
///
/// # Panics
///
/// If the request fails or is refused.
pub async fn granted(backend: &impl Backend, claim: &Claim, ttl: Ttl) -> Grant {
    match attempt(backend, claim, ttl).await.expect("a grant") {
        AcquireOutcome::Granted(grant) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// Asks once for a lease that another owner must have. Returns the time that this lease lasts.
///
/// # Panics
///
/// If the request fails or is granted.
pub async fn refused(backend: &impl Backend, claim: &Claim) -> Option<Duration> {
    match attempt(backend, claim, long()).await.expect("a refusal") {
        AcquireOutcome::Busy { retry_after } => retry_after,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Repeats a request, as lock-sync does, until it succeeds.
///
/// # Panics
///
/// If an error is not retryable, or no request succeeds within a minute.
pub async fn until_ok<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, Error>) -> T {
    let mut done = None;
    eventually_async(what, Duration::from_secs(60), async || match ask().await {
        Ok(answer) => {
            done = Some(answer);
            true
        }
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            false
        }
    })
    .await;
    done.expect("the last request succeeded")
}
