//! Attempts to connect, with a pause after each failure.

use std::time::Duration;

use lock_core::{Backoff, Error};
use tokio::time::Instant;

/// The attempts to open one connection.
pub(crate) struct Attempts {
    backoff: Backoff,
    /// The last failure, and when the next attempt may be made.
    failed: Option<(Error, Instant)>,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
        Self { backoff, failed: None }
    }

    /// Fails with the last failure while no attempt may be made.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.failed {
            Some((error, until)) if *until > Instant::now() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Notes how an attempt has ended.
    pub(crate) fn note<T>(&mut self, outcome: &Result<T, Error>) {
        self.failed = match outcome {
            Ok(_) => {
                self.backoff.reset();
                None
            }
            Err(error) => {
                let pause = self.backoff.fail_scattered(fraction());
                Some((error.clone(), Instant::now() + pause))
            }
        };
    }
}

/// A random number from 0 to 1. The connections of all clients break at once, and must not come back together.
fn fraction() -> f64 {
    let mut random = [0; 2];
    // Without random bytes the clients meet, which costs a moment.
    _ = getrandom::fill(&mut random);
    f64::from(u16::from_le_bytes(random)) / f64::from(u16::MAX)
}
