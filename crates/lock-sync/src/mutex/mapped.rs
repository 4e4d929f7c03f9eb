//! The guards that reach a part of the data.

use std::sync::Arc;

use super::Mutex;
use crate::engine::Hold;
use crate::lease::{guard_traits, lease_methods, lease_scope};

/// A [`MutexGuard`](super::MutexGuard) that was narrowed with
/// [`map`](super::MutexGuard::map).
#[clippy::has_significant_drop]
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    // In this order: whoever gets the lock next finds the data free.
    data: tokio::sync::MappedMutexGuard<'a, T>,
    hold: Hold,
}

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    pub(super) fn new(data: tokio::sync::MappedMutexGuard<'a, T>, hold: Hold) -> Self {
        Self { data, hold }
    }

    /// Narrows the guard further.
    pub fn map<U, F>(this: Self, map: F) -> MappedMutexGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        MappedMutexGuard::new(tokio::sync::MappedMutexGuard::map(this.data, map), this.hold)
    }

    /// Narrows the guard further, if the part is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<U, F>(this: Self, map: F) -> Result<MappedMutexGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Self { data, hold } = this;
        match tokio::sync::MappedMutexGuard::try_map(data, map) {
            Ok(data) => Ok(MappedMutexGuard::new(data, hold)),
            Err(data) => Err(Self { data, hold }),
        }
    }

    lease_methods!();
    lease_scope!(T);
}

guard_traits!(['a, T: ?Sized], MappedMutexGuard<'a, T>, T);

/// An [`OwnedMutexGuard`](super::OwnedMutexGuard) that was narrowed with
/// [`map`](super::OwnedMutexGuard::map).
#[clippy::has_significant_drop]
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized = T> {
    // In this order: see `OwnedMutexGuard`.
    data: tokio::sync::OwnedMappedMutexGuard<T, U>,
    hold: Hold,
    mutex: Arc<Mutex<T>>,
}

impl<T: ?Sized, U: ?Sized> OwnedMappedMutexGuard<T, U> {
    pub(super) fn new(
        data: tokio::sync::OwnedMappedMutexGuard<T, U>,
        hold: Hold,
        mutex: Arc<Mutex<T>>,
    ) -> Self {
        Self { data, hold, mutex }
    }

    /// Narrows the guard further.
    pub fn map<S, F>(this: Self, map: F) -> OwnedMappedMutexGuard<T, S>
    where
        F: FnOnce(&mut U) -> &mut S,
    {
        let data = tokio::sync::OwnedMappedMutexGuard::map(this.data, map);
        OwnedMappedMutexGuard::new(data, this.hold, this.mutex)
    }

    /// Narrows the guard further, if the part is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<S, F>(this: Self, map: F) -> Result<OwnedMappedMutexGuard<T, S>, Self>
    where
        F: FnOnce(&mut U) -> Option<&mut S>,
    {
        let Self { data, hold, mutex } = this;
        match tokio::sync::OwnedMappedMutexGuard::try_map(data, map) {
            Ok(data) => Ok(OwnedMappedMutexGuard::new(data, hold, mutex)),
            Err(data) => Err(Self { data, hold, mutex }),
        }
    }

    lease_methods!();
    lease_scope!(U);
}

guard_traits!([T: ?Sized, U: ?Sized], OwnedMappedMutexGuard<T, U>, U);
