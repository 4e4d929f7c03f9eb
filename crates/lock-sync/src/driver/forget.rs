//! Giving up claims that no entry has in hand any more.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Claim;

use super::Flight;
use crate::locks::Shared;

/// Releases a claim, and tries again while that can help and the lease may last.
pub(super) async fn forget(shared: Arc<Shared>, claim: Claim, _flight: Flight) {
    let trying = async {
        let mut pause = Duration::from_millis(20);
        while let Err(error) = shared.backend.release(&claim).await {
            tracing::debug!(key = %claim.key, %error, "a release failed");
            if !error.is_retryable() {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    };
    let _ = tokio::time::timeout(shared.policy.ttl.duration(), trying).await;
}
