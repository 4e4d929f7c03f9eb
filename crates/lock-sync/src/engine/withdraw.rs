//! Releasing claims that no entry knows any more.

use std::sync::Arc;

use lock_core::{Claim, Mode, Ttl};

use super::driver::Flight;
use super::running::caught;
use super::shared::{Keyed, Shared};
use super::timing::BACKOFF;
use super::verb::{known_to, release};

/// Releases a claim, which may have the other mode. Repeats a failed release while a repetition can help and the lease
/// may last.
pub(super) async fn withdraw(
    shared: Arc<Shared<impl Keyed>>,
    mut claim: Claim,
    other: Option<Mode>,
    ttl: Ttl,
    _flight: Flight,
) {
    known_to(&*shared.backend, &mut claim);
    let trying = async {
        let mut backoff = BACKOFF;
        while let Err(error) = caught(release(&*shared.backend, &claim, other)).await {
            tracing::debug!(key = %claim.key, %error, "a release failed");
            if !error.is_retryable() {
                return;
            }
            tokio::time::sleep(backoff.fail()).await;
        }
    };
    let _ = tokio::time::timeout(ttl.duration(), trying).await;
}
