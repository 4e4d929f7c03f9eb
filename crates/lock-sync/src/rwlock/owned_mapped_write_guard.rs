//! The guard that writes a part of the data, and keeps its lock alive.

use std::sync::Arc;

use lock_core::Convertible;

use super::RwLock;
use super::admission::Admitted;
use crate::lease::{guard_traits, lease_methods, lease_scope};

/// An [`OwnedRwLockWriteGuard`](super::OwnedRwLockWriteGuard) that was narrowed with
/// [`map`](super::OwnedRwLockWriteGuard::map).
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockMappedWriteGuard<T: ?Sized, U: ?Sized = T, C = Convertible> {
    // In this order: see `OwnedRwLockWriteGuard`.
    data: tokio::sync::OwnedRwLockMappedWriteGuard<T, U>,
    hold: Admitted,
    lock: Arc<RwLock<T, C>>,
}

impl<T: ?Sized, U: ?Sized, C> OwnedRwLockMappedWriteGuard<T, U, C> {
    pub(super) fn new(
        data: tokio::sync::OwnedRwLockMappedWriteGuard<T, U>,
        hold: Admitted,
        lock: Arc<RwLock<T, C>>,
    ) -> Self {
        Self { data, hold, lock }
    }

    /// The lock that this guard came from.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T, C>> {
        &this.lock
    }

    /// Narrows the guard further.
    pub fn map<F, V: ?Sized>(this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, V, C>
    where
        F: FnOnce(&mut U) -> &mut V,
    {
        let Self { data, hold, lock } = this;
        let data = tokio::sync::OwnedRwLockMappedWriteGuard::map(data, f);
        OwnedRwLockMappedWriteGuard::new(data, hold, lock)
    }

    /// Narrows the guard further, if the part is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<F, V: ?Sized>(
        this: Self,
        f: F,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, V, C>, Self>
    where
        F: FnOnce(&mut U) -> Option<&mut V>,
    {
        let Self { data, hold, lock } = this;
        match tokio::sync::OwnedRwLockMappedWriteGuard::try_map(data, f) {
            Ok(data) => Ok(OwnedRwLockMappedWriteGuard::new(data, hold, lock)),
            Err(data) => Err(Self { data, hold, lock }),
        }
    }

    lease_methods!();
    lease_scope!(U, "rwlock", "write");
}

guard_traits!([T: ?Sized, U: ?Sized, C], OwnedRwLockMappedWriteGuard<T, U, C>, U);
