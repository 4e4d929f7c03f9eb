//! The guards that read: one that borrows its lock, and one that keeps its lock alive.

use std::sync::Arc;

use lock_core::Convertible;

use super::RwLock;
use super::admission::Admitted;
use crate::guard::{Guarded, guard, narrowing};

/// Read access to the data of an [`RwLock`](super::RwLock), and a lease on its lock.
///
/// # Dropping
///
/// Dropping the guard gives up the part of this reader in the lock. The last reader of the process
/// also gives up the lease: the release is *enqueued*, as with
/// [`RwLockWriteGuard`](super::RwLockWriteGuard).
///
/// # If the lease is lost
///
/// The guard still gives access to the local data. But a writer of another process may change what the lock
/// protects. Readers that share a lease lose it together, and each of their guards reports the loss.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    pub(super) core: Guarded<tokio::sync::RwLockReadGuard<'a, T>, Admitted>,
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    narrowing! {
        /// Narrows the guard to a part of the data.
        ///
        /// An associated function, so that it does not hide methods of the data.
        ///
        /// # Examples
        ///
        /// ```
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::{Locks, RwLockReadGuard};
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        /// let lock = locks.rwlock("pair", (1, "one"))?;
        /// let word = RwLockReadGuard::map(lock.read().await?, |pair| pair.1);
        /// assert_eq!(&*word, "one");
        /// # Ok(())
        /// # }
        /// ```
        map,
        /// Narrows the guard to a part of the data, if the closure finds that part.
        try_map,
        [F, U: ?Sized] &T => &U,
        by tokio::sync::RwLockReadGuard,
        into RwLockReadGuard['a, U]
    }
}

guard!(['a, T: ?Sized] RwLockReadGuard<'a, T> => T);

/// An [`RwLockReadGuard`] that borrows nothing: it keeps an `Arc` of its lock.
///
/// See [`RwLock::read_owned`](crate::RwLock::read_owned) for an example.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockReadGuard<T: ?Sized, U: ?Sized = T, C = Convertible> {
    pub(super) core: Guarded<tokio::sync::OwnedRwLockReadGuard<T, U>, Admitted, Arc<RwLock<T, C>>>,
}

impl<T: ?Sized, U: ?Sized, C> OwnedRwLockReadGuard<T, U, C> {
    /// The lock that this guard belongs to.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T, C>> {
        &this.core.lock
    }

    narrowing! {
        /// Narrows the guard to a part of the data.
        ///
        /// An associated function, so that it does not hide methods of the data.
        map,
        /// Narrows the guard to a part of the data, if the closure finds that part.
        try_map,
        [F, V: ?Sized] &U => &V,
        by tokio::sync::OwnedRwLockReadGuard,
        into OwnedRwLockReadGuard[T, V, C]
    }
}

guard!([T: ?Sized, U: ?Sized, C] OwnedRwLockReadGuard<T, U, C> => U);
