//! The guards that write: one that borrows its lock, and one that keeps its lock alive.

use std::sync::Arc;

use lock_core::{Convertible, Mode};

use super::admission::Admitted;
use super::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, RwLock, RwLockMappedWriteGuard,
    RwLockReadGuard,
};
use crate::guard::{Guarded, guard, narrowing};

/// Write access to the data of an [`RwLock`], and a lease on its lock.
///
/// # Dropping
///
/// Dropping the guard gives the lock up. If other tasks of this process wait and may have the lock next, they get it
/// at once. Otherwise the release is *enqueued*: the driver sends it to the store a moment later,
/// from its own thread. Dropping never blocks, spawns or panics, and needs no runtime. Use
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
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized, C = Convertible> {
    pub(super) core: Guarded<tokio::sync::RwLockWriteGuard<'a, T>, Admitted, &'a RwLock<T, C>>,
}

impl<'a, T: ?Sized, C> RwLockWriteGuard<'a, T, C> {
    narrowing! {
        /// Narrows the guard to a part of the data.
        ///
        /// An associated function, so that it does not hide methods of the data.
        ///
        /// # Examples
        ///
        /// ```
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::{Locks, RwLockWriteGuard};
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        /// let lock = locks.rwlock("pair", (1, "one"))?;
        /// let mut number = RwLockWriteGuard::map(lock.write().await?, |pair| &mut pair.0);
        /// *number = 2;
        /// assert_eq!(*number, 2);
        /// # Ok(())
        /// # }
        /// ```
        map,
        /// Narrows the guard to a part of the data, if the closure finds that part.
        try_map,
        [F, U: ?Sized] &mut T => &mut U,
        by tokio::sync::RwLockWriteGuard,
        into RwLockMappedWriteGuard['a, U] without_lock
    }

    /// Converts the guard into a mapped guard of the whole data.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example.
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        Self::map(this, |data| data)
    }

    /// Downgrades to a read lock, with no other writer in between, in this process or another.
    ///
    /// Other readers may enter, unless an earlier writer waits. The process converts its lease in the
    /// background, and until then the store keeps the readers of other processes out. The guard keeps its
    /// fencing token.
    ///
    /// Over a backend that [cannot convert a lease](super::RwLock#backends-that-do-not-convert-a-lease) only the
    /// readers of this process enter. Readers of other processes wait until the last reader of this process has left.
    ///
    /// # If the lease is lost
    ///
    /// The read guard has lost it as well.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("state", "new")?;
    /// let mut state = lock.write().await?;
    /// *state = "ready";
    ///
    /// let state = state.downgrade();
    /// let other = lock.read().await?;
    /// assert_eq!((*state, *other), ("ready", "ready"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        // The data first: a reader that enters now finds the data free to read.
        let core = self.core.map(|data| data.downgrade());
        RwLockReadGuard { core: core.downgrade(Mode::Shared).without_lock() }
    }

    /// Downgrades to a read lock on a part of the data: [`downgrade`](Self::downgrade) and
    /// [`RwLockReadGuard::map`] in one.
    ///
    /// An associated function, so that it does not hide methods of the data. While the closure runs,
    /// the lock still keeps out all other callers.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, RwLockWriteGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock("pair", (1, "one"))?;
    /// let word = RwLockWriteGuard::downgrade_map(lock.write().await?, |pair| pair.1);
    /// assert_eq!((lock.read().await?.0, &*word), (1, "one"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let core = this.core.map(|data| tokio::sync::RwLockWriteGuard::downgrade_map(data, f));
        RwLockReadGuard { core: core.downgrade(Mode::Shared).without_lock() }
    }

    /// Downgrades to a read lock on a part of the data, if the closure finds that part. Otherwise nothing changes
    /// and no reader enters.
    ///
    /// # Errors
    ///
    /// The guard itself, which writes as before.
    ///
    /// See [`RwLockWriteGuard::downgrade_map`](crate::RwLockWriteGuard::downgrade_map) for an example.
    pub fn try_downgrade_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        match this.core.try_map(|data| tokio::sync::RwLockWriteGuard::try_downgrade_map(data, f)) {
            Ok(core) => Ok(RwLockReadGuard { core: core.downgrade(Mode::Shared).without_lock() }),
            Err(core) => Err(Self { core }),
        }
    }
}

guard!(['a, T: ?Sized, C] RwLockWriteGuard<'a, T, C> => mut T);

/// An [`RwLockWriteGuard`] that borrows nothing: it keeps an `Arc` of its lock.
///
/// See [`RwLock::write_owned`](crate::RwLock::write_owned) for an example.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockWriteGuard<T: ?Sized, C = Convertible> {
    pub(super) core: Guarded<tokio::sync::OwnedRwLockWriteGuard<T>, Admitted, Arc<RwLock<T, C>>>,
}

impl<T: ?Sized, C> OwnedRwLockWriteGuard<T, C> {
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
        [F, U: ?Sized] &mut T => &mut U,
        by tokio::sync::OwnedRwLockWriteGuard,
        into OwnedRwLockMappedWriteGuard[T, U, C]
    }

    /// Converts the guard into a mapped guard of the whole data.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example.
    pub fn into_mapped(this: Self) -> OwnedRwLockMappedWriteGuard<T, T, C> {
        Self::map(this, |data| data)
    }

    /// Downgrades to a read lock, with no other writer in between:
    /// see [`RwLockWriteGuard::downgrade`](RwLockWriteGuard::downgrade).
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T, T, C> {
        // The data first: a reader that enters now finds the data free to read.
        let core = self.core.map(|data| data.downgrade());
        OwnedRwLockReadGuard { core: core.downgrade(Mode::Shared) }
    }

    /// Downgrades to a read lock on a part of the data.
    ///
    /// An associated function, so that it does not hide methods of the data. While the closure runs,
    /// the lock still keeps out all other callers.
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, U, C>
    where
        F: FnOnce(&T) -> &U,
    {
        let core = this.core.map(|data| tokio::sync::OwnedRwLockWriteGuard::downgrade_map(data, f));
        OwnedRwLockReadGuard { core: core.downgrade(Mode::Shared) }
    }

    /// Downgrades to a read lock on a part of the data, if the closure finds that part. Otherwise nothing changes
    /// and no reader enters.
    ///
    /// # Errors
    ///
    /// The guard itself, which writes as before.
    ///
    /// See [`RwLockWriteGuard::downgrade_map`](crate::RwLockWriteGuard::downgrade_map) for an example.
    pub fn try_downgrade_map<F, U: ?Sized>(
        this: Self,
        f: F,
    ) -> Result<OwnedRwLockReadGuard<T, U, C>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        match this
            .core
            .try_map(|data| tokio::sync::OwnedRwLockWriteGuard::try_downgrade_map(data, f))
        {
            Ok(core) => Ok(OwnedRwLockReadGuard { core: core.downgrade(Mode::Shared) }),
            Err(core) => Err(Self { core }),
        }
    }
}

guard!([T: ?Sized, C] OwnedRwLockWriteGuard<T, C> => mut T);
