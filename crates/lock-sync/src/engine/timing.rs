//! Pauses, and the wait for an answer.

use std::pin::pin;
use std::time::Duration;

use lock_core::{Backoff, Claim, Ttl};
use tokio::time::timeout;

/// The pauses between requests to a store that fails.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// The pauses of a claim that has no place in the store's queue and hears no hints: the longest pause after its
/// first refusal, and after many. Each pause lasts at least half as long, so that the requests of many such clients
/// spread. One such client costs the store three requests a second.
pub(super) const POLL: Backoff = Backoff::new(Duration::from_millis(200), LONGEST_POLL);
pub(super) const LONGEST_POLL: Duration = Duration::from_millis(500);

/// The window: how much earlier than planned the driver may renew a lease or keep a place, so that several such
/// requests travel together.
pub(crate) fn renewal_window(ttl: Ttl) -> Duration {
    ttl.duration() / 30
}

/// The answer to a request, unless the limit passes.
///
/// If the process has stood still, an answer may have come with the end of the limit, and has yet to be read.
pub(super) async fn within<T>(limit: Duration, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = pin!(answer);
    if let Ok(answer) = timeout(limit, answer.as_mut()).await {
        return Some(answer);
    }
    timeout(limit / 8, answer).await.ok()
}

/// The pause before the next request: doubling, with full jitter in its upper half.
pub(super) fn pause(pauses: Backoff, tries: u32, claim: &Claim) -> Duration {
    pauses.after(tries).fail_scattered(fraction(claim, tries))
}

/// A short time past the end of a lease. It differs from claim to claim, so that not all clients ask at one instant.
pub(super) fn jitter(claim: &Claim) -> Duration {
    Duration::from_millis(1) + Duration::from_millis(9).mul_f64(fraction(claim, 0))
}

/// A number between 0 and 1. Owner tokens are random: no other source is needed.
fn fraction(claim: &Claim, salt: u32) -> f64 {
    let random = claim.owner.expose().iter().fold(salt, |hash, digit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(*digit)).rotate_left(7)
    });
    f64::from(random) / f64::from(u32::MAX)
}
