//! Releasing claims that no entry knows any more.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use lock_core::{Claim, Ttl};

use super::driver::Flight;
use super::running::{known_to, panic_message};
use super::shared::{Keyed, Shared};
use super::timing::BACKOFF;

/// Releases a claim. Repeats a failed release while a repetition can help and the lease may last.
pub(super) async fn forget(
    shared: Arc<Shared<impl Keyed>>,
    mut claim: Claim,
    ttl: Ttl,
    _flight: Flight,
) {
    known_to(&*shared.backend, &mut claim);
    let trying = async {
        let mut backoff = BACKOFF;
        loop {
            let release = AssertUnwindSafe(shared.backend.release(&claim)).catch_unwind();
            match release.await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(key = %claim.key, %error, "a release failed");
                    if !error.is_retryable() {
                        return;
                    }
                }
                Err(panic) => {
                    tracing::debug!(key = %claim.key, "{}", panic_message(&*panic));
                }
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    };
    let _ = tokio::time::timeout(ttl.duration(), trying).await;
}
