//! How long to leave a server alone after an attempt failed.

use std::time::{Duration, Instant};

/// Counts failures in a row. It never gives up.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);

    /// How long to wait until the next attempt.
    pub(crate) fn remaining(&self) -> Duration {
        self.not_before
            .map_or(Duration::ZERO, |instant| instant.saturating_duration_since(Instant::now()))
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + jittered(self.failures, random()));
    }

    /// An attempt succeeded, but what it achieved did not last. The first time that costs nothing.
    pub(crate) fn relapsed(&mut self) {
        let before = self.failures;
        self.failed();
        if before == 0 {
            self.not_before = None;
        }
    }

    /// All is well.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Any time up to a bound that doubles with each failure, so that the clients of a server that
/// restarts do not come back all at once.
fn jittered(failures: u32, random: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let bound = (Backoff::FIRST * (1 << doublings)).min(Backoff::LONGEST);
    bound.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

fn random() -> u32 {
    // Without random bytes from the system everybody waits for the whole bound.
    getrandom::u32().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_up_to_a_limit() {
        let bounds: Vec<_> =
            [1, 2, 3, 6, 7, u32::MAX].map(|failures| jittered(failures, u32::MAX)).into();
        let millis: Vec<_> = bounds.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [20, 40, 80, 640, 1000, 1000]);
        assert_eq!(jittered(7, 0), Duration::ZERO);
    }

    #[test]
    fn one_relapse_is_free_and_the_next_is_not() {
        let mut backoff = Backoff::default();
        backoff.relapsed();
        assert_eq!(backoff.not_before, None);
        backoff.relapsed();
        assert!(backoff.not_before.is_some());
        backoff.reset();
        assert_eq!(backoff.remaining(), Duration::ZERO);
    }
}
