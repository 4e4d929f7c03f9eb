//! The guards of the whole data: one that borrows its mutex, and one that keeps its mutex alive.

use std::sync::Arc;

use super::{MappedMutexGuard, Mutex, OwnedMappedMutexGuard};
use crate::bare::Hold;
use crate::error::LeaseLost;
use crate::guard::{Guarded, guard, narrowing};
use crate::reentrant::Reentry;

/// The access to the data of a [`Mutex`], and a lease on its lock.
///
/// # Dropping
///
/// Dropping the guard gives the lock up. If another task of this process waits and may have the lock next, that
/// task gets it at once. Otherwise the release is *enqueued*: the driver sends it to the store a moment later, from
/// its own thread. Dropping never blocks, spawns or panics, and needs no runtime. Use
/// [`release`](Self::release) to wait for the store, and
/// [`Locks::shutdown`](crate::Locks::shutdown) before the process ends.
///
/// A process that has just taken the lock again and again keeps the lease for a millisecond after the
/// last drop, unless another process waits. An awaited `release` gives the lease back at once.
///
/// # If the lease is lost
///
/// The guard still gives access to the local data. But another process may get the lock, so the lock no longer
/// protects anything outside this process.
#[clippy::has_significant_drop]
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) core: Guarded<tokio::sync::MutexGuard<'a, T>, Hold, &'a Mutex<T>>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that this guard belongs to.
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.core.lock
    }

    narrowing! {
        /// Narrows the guard to a part of the data.
        ///
        /// An associated function, so that it does not hide methods of the data.
        ///
        /// # Examples
        ///
        /// ```
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::{Locks, MutexGuard};
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        /// let mutex = locks.mutex("pair", (1, "one"))?;
        /// let mut number = MutexGuard::map(mutex.lock().await?, |pair| &mut pair.0);
        /// *number = 2;
        /// assert_eq!(*number, 2);
        /// # Ok(())
        /// # }
        /// ```
        map,
        /// Narrows the guard to a part of the data, if the closure finds that part.
        try_map,
        [U: ?Sized, F] &mut T => &mut U,
        by tokio::sync::MutexGuard,
        into MappedMutexGuard['a, U] without_lock
    }

    /// Enters the lock again, for a function that is called under the lock. It sends no request, and the fencing
    /// token is that of this guard.
    ///
    /// The function gets access to the data, and borrows the guard until the function returns. The compiler
    /// refuses two such borrows at once: see [`Reentry`].
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the lease is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{LeaseLost, Locks, Reentry};
    /// async fn transfer(mut account: Reentry<'_, i64>) -> Result<(), LeaseLost> {
    ///     *account -= 10;
    ///     charge(account.reenter()?).await;
    ///     Ok(())
    /// }
    ///
    /// async fn charge(mut account: Reentry<'_, i64>) {
    ///     *account -= 1;
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.mutex("account/7", 100)?;
    /// let mut guard = mutex.lock().await?;
    /// transfer(guard.reenter()?).await?;
    /// assert_eq!(*guard, 89);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reenter(&mut self) -> Result<Reentry<'_, T>, LeaseLost> {
        Reentry::new(&mut self.core.data, &self.core.hold)
    }
}

guard!(['a, T: ?Sized] MutexGuard<'a, T> => mut T);

/// A [`MutexGuard`] that borrows nothing: it keeps an `Arc` of its mutex.
///
/// See [`Mutex::lock_owned`](crate::Mutex::lock_owned) for an example.
#[clippy::has_significant_drop]
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMutexGuard<T: ?Sized> {
    pub(super) core: Guarded<tokio::sync::OwnedMutexGuard<T>, Hold, Arc<Mutex<T>>>,
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// The mutex that this guard belongs to.
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.core.lock
    }

    narrowing! {
        /// Narrows the guard to a part of the data.
        ///
        /// An associated function, so that it does not hide methods of the data.
        map,
        /// Narrows the guard to a part of the data, if the closure finds that part.
        try_map,
        [U: ?Sized, F] &mut T => &mut U,
        by tokio::sync::OwnedMutexGuard,
        into OwnedMappedMutexGuard[T, U]
    }

    /// Enters the lock again, for a function that is called under the lock. It sends no request, and the fencing
    /// token is that of this guard.
    ///
    /// The function gets access to the data, and borrows the guard until the function returns. The compiler
    /// refuses two such borrows at once: see [`Reentry`].
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the lease is lost.
    pub fn reenter(&mut self) -> Result<Reentry<'_, T>, LeaseLost> {
        Reentry::new(&mut self.core.data, &self.core.hold)
    }
}

guard!([T: ?Sized] OwnedMutexGuard<T> => mut T);
