//! The guard that keeps its mutex alive.

use std::sync::Arc;

use super::{Mutex, OwnedMappedMutexGuard};
use crate::engine::Hold;
use crate::error::LeaseLost;
use crate::lease::{guard_traits, lease_methods, lease_scope};
use crate::reentrant::Reentry;

/// A [`MutexGuard`](super::MutexGuard) that borrows nothing: it keeps an `Arc` of its mutex.
#[clippy::has_significant_drop]
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMutexGuard<T: ?Sized> {
    // In this order: whoever gets the lock next finds the data free, and whoever gets the last `Arc`
    // of the mutex finds the data its own.
    data: tokio::sync::OwnedMutexGuard<T>,
    hold: Hold,
    mutex: Arc<Mutex<T>>,
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    pub(super) fn new(
        mutex: Arc<Mutex<T>>,
        data: tokio::sync::OwnedMutexGuard<T>,
        hold: Hold,
    ) -> Self {
        Self { data, hold, mutex }
    }

    /// The mutex that this guard came from.
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.mutex
    }

    /// Narrows the guard to a part of the data.
    ///
    /// An associated function, so that it does not hide methods of the data.
    pub fn map<U, F>(this: Self, map: F) -> OwnedMappedMutexGuard<T, U>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> &mut U,
    {
        let data = tokio::sync::OwnedMutexGuard::map(this.data, map);
        OwnedMappedMutexGuard::new(data, this.hold, this.mutex)
    }

    /// Narrows the guard to a part of the data, if it is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<U, F>(this: Self, map: F) -> Result<OwnedMappedMutexGuard<T, U>, Self>
    where
        U: ?Sized,
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Self { data, hold, mutex } = this;
        match tokio::sync::OwnedMutexGuard::try_map(data, map) {
            Ok(data) => Ok(OwnedMappedMutexGuard::new(data, hold, mutex)),
            Err(data) => Err(Self { data, hold, mutex }),
        }
    }

    /// Enters the lock again, for whoever is called under it: no request, and the same fencing token.
    ///
    /// What is called gets the way to the data, and borrows the guard until it is done. The compiler
    /// refuses two at once: see [`Reentry`].
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the lease is lost.
    pub fn reenter(&mut self) -> Result<Reentry<'_, T>, LeaseLost> {
        Reentry::new(&mut self.data, &self.hold)
    }

    lease_methods!();
    lease_scope!(T);
}

guard_traits!([T: ?Sized], OwnedMutexGuard<T>, T);
