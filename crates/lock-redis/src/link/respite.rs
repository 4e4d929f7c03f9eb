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
        self.not_before = Some(Instant::now() + jittered(self.backoff.fail(), random()));
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

/// Any time up to the pause, so that the clients of a restarting server do not all come back at once.
fn jittered(pause: Duration, random: u32) -> Duration {
    pause.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

fn random() -> u32 {
    // Without random bytes from the system every client waits for the whole pause.
    getrandom::u32().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_any_part_of_the_bound() {
        let bound = Duration::from_millis(80);
        assert_eq!(jittered(bound, u32::MAX), bound);
        assert_eq!(jittered(bound, 0), Duration::ZERO);
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
