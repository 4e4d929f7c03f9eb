//! How long to leave a server alone after a failed attempt.

use std::time::{Duration, Instant};

use lock_core::Backoff;

/// Counts failures in a row, without an upper limit.
#[derive(Debug)]
pub(crate) struct Respite {
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Respite {
    const NONE: Self = Self {
        backoff: Backoff::new(Duration::from_millis(20), Duration::from_secs(1)),
        not_before: None,
    };

    /// How long to wait until the next attempt.
    pub(crate) fn remaining(&self) -> Duration {
        self.not_before
            .map_or(Duration::ZERO, |instant| instant.saturating_duration_since(Instant::now()))
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self) {
        // The clients of a restarting server must not all come back at once.
        self.not_before = Some(Instant::now() + self.backoff.fail_scattered_at_random());
    }

    /// An attempt succeeded, but the connection did not last. The first time that costs nothing.
    pub(crate) fn relapsed(&mut self) {
        let is_first = self.backoff.failures() == 0;
        self.failed();
        if is_first {
            self.not_before = None;
        }
    }

    /// The attempt succeeded and lasts.
    pub(crate) fn reset(&mut self) {
        *self = Self::NONE;
    }
}

impl Default for Respite {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_leaves_the_server_alone_for_half_to_all_of_the_pause() {
        let mut respite = Respite::default();
        for millis in [20, 40, 80] {
            let bound = Duration::from_millis(millis);
            let earliest = Instant::now() + bound / 2;
            respite.failed();
            let latest = Instant::now() + bound;
            let next = respite.not_before.unwrap();
            assert!((earliest..=latest).contains(&next), "{earliest:?} {next:?} {latest:?}");
        }
    }

    #[test]
    fn one_relapse_is_free_and_the_next_is_not() {
        let mut respite = Respite::default();
        respite.relapsed();
        assert_eq!(respite.not_before, None);
        respite.relapsed();
        assert!(respite.not_before.is_some());
        respite.reset();
        assert_eq!(respite.remaining(), Duration::ZERO);
    }
}
