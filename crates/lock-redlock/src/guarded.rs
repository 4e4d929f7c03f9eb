//! Values that the threads of a process share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that one thread uses at a time. No use may leave the value half changed, even if the use
/// panics.
#[derive(Debug, Default)]
pub(crate) struct Guarded<T>(Mutex<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
