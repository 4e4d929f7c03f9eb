//! The guards that write a part of the data: one that borrows its lock, and one that keeps its lock alive.

use std::sync::Arc;

use lock_core::Convertible;

use super::RwLock;
use super::admission::Admitted;
use crate::guard::{Guarded, guard, narrowing};

/// An [`RwLockWriteGuard`](super::RwLockWriteGuard) that was narrowed with
/// [`map`](super::RwLockWriteGuard::map).
///
/// As with tokio, a mapped guard has no downgrade, because it does not give access to the whole data.
///
/// # Examples
///
/// ```
/// # use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, RwLockWriteGuard};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let pair = locks.rwlock("pair", (1, 2))?;
/// let mut second = RwLockWriteGuard::map(pair.write().await?, |pair| &mut pair.1);
/// *second += 1;
/// assert_eq!(*second, 3);
/// # Ok(())
/// # }
/// ```
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    pub(super) core: Guarded<tokio::sync::RwLockMappedWriteGuard<'a, T>, Admitted>,
}

impl<'a, T: ?Sized> RwLockMappedWriteGuard<'a, T> {
    narrowing! {
        /// Narrows the guard further.
        map,
        /// Narrows the guard further, if the closure finds the part.
        try_map,
        [F, U: ?Sized] &mut T => &mut U,
        by tokio::sync::RwLockMappedWriteGuard,
        into RwLockMappedWriteGuard['a, U]
    }
}

guard!(['a, T: ?Sized] RwLockMappedWriteGuard<'a, T> => mut T);

/// An [`OwnedRwLockWriteGuard`](super::OwnedRwLockWriteGuard) that was narrowed with
/// [`map`](super::OwnedRwLockWriteGuard::map).
///
/// The [example](crate::RwLockMappedWriteGuard#examples) of the borrowed guard shows how to get one.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockMappedWriteGuard<T: ?Sized, U: ?Sized = T, C = Convertible> {
    pub(super) core:
        Guarded<tokio::sync::OwnedRwLockMappedWriteGuard<T, U>, Admitted, Arc<RwLock<T, C>>>,
}

impl<T: ?Sized, U: ?Sized, C> OwnedRwLockMappedWriteGuard<T, U, C> {
    /// The lock that this guard belongs to.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T, C>> {
        &this.core.lock
    }

    narrowing! {
        /// Narrows the guard further.
        map,
        /// Narrows the guard further, if the closure finds the part.
        try_map,
        [F, V: ?Sized] &mut U => &mut V,
        by tokio::sync::OwnedRwLockMappedWriteGuard,
        into OwnedRwLockMappedWriteGuard[T, V, C]
    }
}

guard!([T: ?Sized, U: ?Sized, C] OwnedRwLockMappedWriteGuard<T, U, C> => mut U);
