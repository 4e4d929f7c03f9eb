//! Waiting for events without an announcement.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(2);

/// Longer than any step that works, on a loaded machine too.
pub const SOON: Duration = Duration::from_secs(10);

/// Waits until `condition` holds, and returns how long that took.
///
/// For conditions that can only be polled, such as a key on a server. If an announcement exists,
/// wait for that instead.
///
/// # Panics
///
/// If the condition does not hold within `limit`; `what` completes "gave up waiting until".
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "gave up waiting until {what}, after {limit:?}");
        std::thread::sleep(PAUSE);
    }
    start.elapsed()
}

/// As above, for a test that must not block its executor while it waits.
///
/// # Panics
///
/// As [`eventually`].
///
/// # Cancel safety
///
/// Dropping the future drops the call of `condition` that is under way, and nothing else.
pub async fn eventually_async(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "gave up waiting until {what}, after {limit:?}");
        tokio::time::sleep(PAUSE).await;
    }
    start.elapsed()
}

/// Fails the test when a future takes longer than [`SOON`].
///
/// # Panics
///
/// In that case, with the place of the call.
///
/// # Cancel safety
///
/// Dropping the future drops what it waits for, and nothing else.
#[track_caller]
pub fn soon<F: Future>(what: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(SOON, what).await {
            Ok(output) => output,
            Err(_) => panic!("it takes longer than {SOON:?}: {caller}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_ends_the_wait() {
        let mut calls = 0;
        eventually("the third call", Duration::from_secs(10), || {
            calls += 1;
            calls == 3
        });
        assert_eq!(calls, 3);
    }

    #[test]
    #[should_panic(expected = "gave up waiting until pigs fly")]
    fn a_condition_that_stays_false_ends_the_test() {
        eventually("pigs fly", Duration::from_millis(5), || false);
    }
}
