//! The guard that writes a part of the data.

use super::admission::Admitted;
use crate::lease::{guard_traits, lease_methods, lease_scope};

/// An [`RwLockWriteGuard`](super::RwLockWriteGuard) that was narrowed with
/// [`map`](super::RwLockWriteGuard::map).
///
/// It can no longer be downgraded, as with tokio: it does not reach all of the data.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    // In this order: whoever gets the lock next finds the data free.
    data: tokio::sync::RwLockMappedWriteGuard<'a, T>,
    hold: Admitted,
}

impl<'a, T: ?Sized> RwLockMappedWriteGuard<'a, T> {
    pub(super) fn new(data: tokio::sync::RwLockMappedWriteGuard<'a, T>, hold: Admitted) -> Self {
        Self { data, hold }
    }

    /// Narrows the guard further.
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let Self { data, hold } = this;
        RwLockMappedWriteGuard::new(tokio::sync::RwLockMappedWriteGuard::map(data, f), hold)
    }

    /// Narrows the guard further, if the part is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Self { data, hold } = this;
        match tokio::sync::RwLockMappedWriteGuard::try_map(data, f) {
            Ok(data) => Ok(RwLockMappedWriteGuard::new(data, hold)),
            Err(data) => Err(Self { data, hold }),
        }
    }

    lease_methods!();
    lease_scope!(T, "rwlock", "write");
}

guard_traits!(['a, T: ?Sized], RwLockMappedWriteGuard<'a, T>, T);
