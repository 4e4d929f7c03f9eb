//! The guard that reads, and keeps its lock alive.

use std::sync::Arc;

use lock_core::Convertible;

use super::RwLock;
use super::admission::Admitted;
use crate::lease::{lease_methods, lease_scope, reader_traits};

/// An [`RwLockReadGuard`](super::RwLockReadGuard) that borrows nothing: it keeps an `Arc` of its lock.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockReadGuard<T: ?Sized, U: ?Sized = T, C = Convertible> {
    // In this order: see `OwnedRwLockWriteGuard`.
    data: tokio::sync::OwnedRwLockReadGuard<T, U>,
    hold: Admitted,
    lock: Arc<RwLock<T, C>>,
}

impl<T: ?Sized, U: ?Sized, C> OwnedRwLockReadGuard<T, U, C> {
    pub(super) fn new(
        data: tokio::sync::OwnedRwLockReadGuard<T, U>,
        hold: Admitted,
        lock: Arc<RwLock<T, C>>,
    ) -> Self {
        Self { data, hold, lock }
    }

    /// The lock that this guard came from.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T, C>> {
        &this.lock
    }

    /// Narrows the guard to a part of the data.
    ///
    /// An associated function, so that it does not hide methods of the data.
    pub fn map<F, V: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, V, C>
    where
        F: FnOnce(&U) -> &V,
    {
        let Self { data, hold, lock } = this;
        OwnedRwLockReadGuard::new(tokio::sync::OwnedRwLockReadGuard::map(data, f), hold, lock)
    }

    /// Narrows the guard to a part of the data, if it is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<F, V: ?Sized>(this: Self, f: F) -> Result<OwnedRwLockReadGuard<T, V, C>, Self>
    where
        F: FnOnce(&U) -> Option<&V>,
    {
        let Self { data, hold, lock } = this;
        match tokio::sync::OwnedRwLockReadGuard::try_map(data, f) {
            Ok(data) => Ok(OwnedRwLockReadGuard::new(data, hold, lock)),
            Err(data) => Err(Self { data, hold, lock }),
        }
    }

    lease_methods!(shared);
    lease_scope!(shared, U, "read");
}

reader_traits!([T: ?Sized, U: ?Sized, C], OwnedRwLockReadGuard<T, U, C>, U);
