//! The error of an upgrade.

use std::fmt;

use crate::bare::Denial;
use crate::error::{LockError, TryLockError};

/// Why an upgrade failed, with the guard that goes on reading.
///
/// The conversion into a [`LockError`] drops the guard. In a function that returns a [`LockError`],
/// `upgrade().await?` converts. In other functions, use `upgrade().await.map_err(UpgradeError::into_error)?`.
#[derive(Clone)]
#[must_use = "it holds the guard that was to be upgraded"]
pub struct UpgradeError<G, E = LockError> {
    guard: G,
    error: E,
}

/// The guard that goes on reading, and the reason.
pub(crate) struct Refused<G>(pub(super) G, pub(super) Denial);

impl<G, E: From<Denial>> From<Refused<G>> for UpgradeError<G, E> {
    fn from(Refused(guard, denial): Refused<G>) -> Self {
        Self { guard, error: denial.into() }
    }
}

impl<G, E> UpgradeError<G, E> {
    /// The reason for the failure.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example of an upgrade.
    pub fn error(&self) -> &E {
        &self.error
    }

    /// Returns the reason for the failure, and drops the guard.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example of an upgrade.
    pub fn into_error(self) -> E {
        self.error
    }

    /// Returns the guard, which reads as before.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example of an upgrade.
    pub fn into_guard(self) -> G {
        self.guard
    }

    /// Returns the guard, which reads as before, and the reason for the failure.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example of an upgrade.
    pub fn into_parts(self) -> (G, E) {
        (self.guard, self.error)
    }
}

impl<G, E: fmt::Debug> fmt::Debug for UpgradeError<G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<G, E> fmt::Display for UpgradeError<G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock is still held to read alone")
    }
}

impl<G, E: std::error::Error + 'static> std::error::Error for UpgradeError<G, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<G> From<UpgradeError<G>> for LockError {
    fn from(error: UpgradeError<G>) -> Self {
        error.error
    }
}

impl<G> From<UpgradeError<G, TryLockError>> for TryLockError {
    fn from(error: UpgradeError<G, TryLockError>) -> Self {
        error.error
    }
}
