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
                // The connections of all clients break at once, and must not come back together.
                let pause = self.backoff.fail_scattered_at_random();
                Some((error.clone(), Instant::now() + pause))
            }
        };
    }
}
