//! The guard that writes, and keeps its lock alive.

use std::sync::Arc;

use lock_core::{Convertible, Mode};

use super::admission::Admitted;
use super::{OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, RwLock};
use crate::lease::{guard_traits, lease_methods, lease_scope};

/// An [`RwLockWriteGuard`](super::RwLockWriteGuard) that borrows nothing: it keeps an `Arc` of its lock.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockWriteGuard<T: ?Sized, C = Convertible> {
    // In this order: whoever gets the lock next finds the data free, and whoever gets the last `Arc`
    // of the lock finds the data its own.
    pub(super) data: tokio::sync::OwnedRwLockWriteGuard<T>,
    pub(super) hold: Admitted,
    pub(super) lock: Arc<RwLock<T, C>>,
}

impl<T: ?Sized, C> OwnedRwLockWriteGuard<T, C> {
    pub(super) fn new(
        data: tokio::sync::OwnedRwLockWriteGuard<T>,
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
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockMappedWriteGuard<T, U, C>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let Self { data, hold, lock } = this;
        let data = tokio::sync::OwnedRwLockWriteGuard::map(data, f);
        OwnedRwLockMappedWriteGuard::new(data, hold, lock)
    }

    /// Narrows the guard to a part of the data, if it is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<F, U: ?Sized>(
        this: Self,
        f: F,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, U, C>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Self { data, hold, lock } = this;
        match tokio::sync::OwnedRwLockWriteGuard::try_map(data, f) {
            Ok(data) => Ok(OwnedRwLockMappedWriteGuard::new(data, hold, lock)),
            Err(data) => Err(Self { data, hold, lock }),
        }
    }

    /// The guard as one that was narrowed, to the whole of the data.
    pub fn into_mapped(this: Self) -> OwnedRwLockMappedWriteGuard<T, T, C> {
        Self::map(this, |data| data)
    }

    /// Goes on to read, with no other writer in between:
    /// see [`RwLockWriteGuard::downgrade`](super::RwLockWriteGuard::downgrade).
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T, T, C> {
        let Self { data, mut hold, lock } = self;
        // The data first: whoever enters beside it finds them free to read.
        let data = data.downgrade();
        hold.downgrade(Mode::Shared);
        OwnedRwLockReadGuard::new(data, hold, lock)
    }

    /// Goes on to read a part of the data.
    ///
    /// An associated function, so that it does not hide methods of the data. While the closure runs,
    /// everybody else is kept out still.
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, U, C>
    where
        F: FnOnce(&T) -> &U,
    {
        let Self { data, mut hold, lock } = this;
        let data = tokio::sync::OwnedRwLockWriteGuard::downgrade_map(data, f);
        hold.downgrade(Mode::Shared);
        OwnedRwLockReadGuard::new(data, hold, lock)
    }

    /// Goes on to read a part of the data, if it is there. If it is not, nothing has changed and nobody
    /// has entered.
    ///
    /// # Errors
    ///
    /// The guard itself, which writes as before.
    pub fn try_downgrade_map<F, U: ?Sized>(
        this: Self,
        f: F,
    ) -> Result<OwnedRwLockReadGuard<T, U, C>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let Self { data, mut hold, lock } = this;
        match tokio::sync::OwnedRwLockWriteGuard::try_downgrade_map(data, f) {
            Ok(data) => {
                hold.downgrade(Mode::Shared);
                Ok(OwnedRwLockReadGuard::new(data, hold, lock))
            }
            Err(data) => Err(Self { data, hold, lock }),
        }
    }

    lease_methods!();
    lease_scope!(T, "rwlock", "write");
}

guard_traits!([T: ?Sized, C], OwnedRwLockWriteGuard<T, C>, T);
