//! The guards that write: one that borrows its lock, and one that keeps it alive.

use std::sync::Arc;

use lock_core::{Convertible, Mode};

use super::admission::Admitted;
use super::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, RwLock, RwLockMappedWriteGuard,
    RwLockReadGuard,
};
use crate::guard::{Guarded, guard, narrowing};

/// The right to write the data of an [`RwLock`], and a lease on its lock.
///
/// # Dropping
///
/// Dropping the guard gives the lock up. If others of this process wait and it is their turn, they have
/// the lock at once; otherwise the release is *enqueued*: the driver sends it to the store a moment later,
/// from its own thread. Dropping never blocks, spawns or panics, and needs no runtime. Use
/// [`release`](Self::release) to wait for the store, and
/// [`Locks::shutdown`](crate::Locks::shutdown) before the process ends.
///
/// A process that has just taken the lock again and again keeps it for a millisecond after the last drop,
/// unless another process waits. An awaited `release` gives it back at once.
///
/// # If the lease is lost
///
/// The guard stays, and with it the access to the local data. What the lock protects elsewhere is no
/// longer protected.
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
        /// assert!(number.is_valid());
        /// # Ok(())
        /// # }
        /// ```
        map,
        /// Narrows the guard to a part of the data, if it is there.
        try_map,
        [F, U: ?Sized] &mut T => &mut U,
        by tokio::sync::RwLockWriteGuard,
        into RwLockMappedWriteGuard['a, U] without_lock
    }

    /// The guard as one that was narrowed, to the whole of the data.
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        Self::map(this, |data| data)
    }

    /// Goes on to read, with no other writer in between, here or elsewhere.
    ///
    /// Readers may enter beside it, unless a writer waits that came before them. The store is told in the
    /// background: until then it keeps others out as before. The guard keeps its fencing token.
    ///
    /// # If the lease is lost
    ///
    /// The guard that reads has lost it as well.
    ///
    /// Over a backend that [cannot convert a lease](super::RwLock#backends-that-do-not-convert-a-lease) it is the
    /// readers of this process that enter; those of other processes wait until the last reader here has let go.
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
        // The data first: a reader that enters beside it finds the data free to read.
        let core = self.core.map(|data| data.downgrade());
        RwLockReadGuard { core: core.downgrade(Mode::Shared).without_lock() }
    }

    /// Goes on to read a part of the data: [`downgrade`](Self::downgrade), and
    /// [`RwLockReadGuard::map`].
    ///
    /// An associated function, so that it does not hide methods of the data. While the closure runs,
    /// all other callers are kept out still.
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

    /// Goes on to read a part of the data, if it is there. If it is not, nothing has changed and no
    /// reader has entered.
    ///
    /// # Errors
    ///
    /// The guard itself, which writes as before.
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

guard!(['a, T: ?Sized, C] RwLockWriteGuard<'a, T, C> => mut T, "rwlock", "write");

/// An [`RwLockWriteGuard`] that borrows nothing: it keeps an `Arc` of its lock.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockWriteGuard<T: ?Sized, C = Convertible> {
    pub(super) core: Guarded<tokio::sync::OwnedRwLockWriteGuard<T>, Admitted, Arc<RwLock<T, C>>>,
}

impl<T: ?Sized, C> OwnedRwLockWriteGuard<T, C> {
    /// The lock that this guard came from.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T, C>> {
        &this.core.lock
    }

    narrowing! {
        /// Narrows the guard to a part of the data.
        ///
        /// An associated function, so that it does not hide methods of the data.
        map,
        /// Narrows the guard to a part of the data, if it is there.
        try_map,
        [F, U: ?Sized] &mut T => &mut U,
        by tokio::sync::OwnedRwLockWriteGuard,
        into OwnedRwLockMappedWriteGuard[T, U, C]
    }

    /// The guard as one that was narrowed, to the whole of the data.
    pub fn into_mapped(this: Self) -> OwnedRwLockMappedWriteGuard<T, T, C> {
        Self::map(this, |data| data)
    }

    /// Goes on to read, with no other writer in between:
    /// see [`RwLockWriteGuard::downgrade`](RwLockWriteGuard::downgrade).
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T, T, C> {
        // The data first: a reader that enters beside it finds the data free to read.
        let core = self.core.map(|data| data.downgrade());
        OwnedRwLockReadGuard { core: core.downgrade(Mode::Shared) }
    }

    /// Goes on to read a part of the data.
    ///
    /// An associated function, so that it does not hide methods of the data. While the closure runs,
    /// all other callers are kept out still.
    pub fn downgrade_map<F, U: ?Sized>(this: Self, f: F) -> OwnedRwLockReadGuard<T, U, C>
    where
        F: FnOnce(&T) -> &U,
    {
        let core = this.core.map(|data| tokio::sync::OwnedRwLockWriteGuard::downgrade_map(data, f));
        OwnedRwLockReadGuard { core: core.downgrade(Mode::Shared) }
    }

    /// Goes on to read a part of the data, if it is there. If it is not, nothing has changed and no
    /// reader has entered.
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
        match this
            .core
            .try_map(|data| tokio::sync::OwnedRwLockWriteGuard::try_downgrade_map(data, f))
        {
            Ok(core) => Ok(OwnedRwLockReadGuard { core: core.downgrade(Mode::Shared) }),
            Err(core) => Err(Self { core }),
        }
    }
}

guard!([T: ?Sized, C] OwnedRwLockWriteGuard<T, C> => mut T, "rwlock", "write");
