//! Giving up claims that no entry has in hand any more.

use std::sync::Arc;

use lock_core::Claim;

use super::driver::Flight;
use super::machine::BACKOFF;
use super::shared::Shared;

/// Releases a claim, and tries again while that can help and the lease may last.
pub(super) async fn forget(shared: Arc<Shared>, claim: Claim, _flight: Flight) {
    let trying = async {
        let mut backoff = BACKOFF;
        while let Err(error) = shared.backend.release(&claim).await {
            tracing::debug!(key = %claim.key, %error, "a release failed");
            if !error.is_retryable() {
                return;
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    };
    let _ = tokio::time::timeout(shared.policy.ttl.duration(), trying).await;
}
