//! The guard that writes, and borrows its lock.

use lock_core::{Convertible, Mode};

use super::admission::Admitted;
use super::{RwLock, RwLockMappedWriteGuard, RwLockReadGuard};
use crate::lease::{guard_traits, lease_methods, lease_scope};

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
/// unless somebody waits elsewhere. An awaited `release` gives it back at once.
///
/// # If the lease is lost
///
/// The guard stays, and with it the access to the local data. What the lock protects elsewhere is no
/// longer protected.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized, C = Convertible> {
    // In this order: whoever gets the lock next finds the data free.
    pub(super) data: tokio::sync::RwLockWriteGuard<'a, T>,
    pub(super) hold: Admitted,
    pub(super) lock: &'a RwLock<T, C>,
}

impl<'a, T: ?Sized, C> RwLockWriteGuard<'a, T, C> {
    pub(super) fn new(
        data: tokio::sync::RwLockWriteGuard<'a, T>,
        hold: Admitted,
        lock: &'a RwLock<T, C>,
    ) -> Self {
        Self { data, hold, lock }
    }

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
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> RwLockMappedWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let Self { data, hold, .. } = this;
        RwLockMappedWriteGuard::new(tokio::sync::RwLockWriteGuard::map(data, f), hold)
    }

    /// Narrows the guard to a part of the data, if it is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockMappedWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        let Self { data, hold, lock } = this;
        match tokio::sync::RwLockWriteGuard::try_map(data, f) {
            Ok(data) => Ok(RwLockMappedWriteGuard::new(data, hold)),
            Err(data) => Err(Self { data, hold, lock }),
        }
    }

    /// The guard as one that was narrowed, to the whole of the data.
    pub fn into_mapped(this: Self) -> RwLockMappedWriteGuard<'a, T> {
        Self::map(this, |data| data)
    }

    /// Goes on to read, with no other writer in between, here or elsewhere.
    ///
    /// Readers may enter beside it, unless a writer waits who came before them. The store is told in the
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
        let Self { data, mut hold, .. } = self;
        // The data first: whoever enters beside it finds them free to read.
        let data = data.downgrade();
        hold.downgrade(Mode::Shared);
        RwLockReadGuard::new(data, hold)
    }

    /// Goes on to read a part of the data: [`downgrade`](Self::downgrade), and
    /// [`RwLockReadGuard::map`].
    ///
    /// An associated function, so that it does not hide methods of the data. While the closure runs,
    /// everybody else is kept out still.
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
        let Self { data, mut hold, .. } = this;
        let data = tokio::sync::RwLockWriteGuard::downgrade_map(data, f);
        hold.downgrade(Mode::Shared);
        RwLockReadGuard::new(data, hold)
    }

    /// Goes on to read a part of the data, if it is there. If it is not, nothing has changed and nobody
    /// has entered.
    ///
    /// # Errors
    ///
    /// The guard itself, which writes as before.
    pub fn try_downgrade_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let Self { data, mut hold, lock } = this;
        match tokio::sync::RwLockWriteGuard::try_downgrade_map(data, f) {
            Ok(data) => {
                hold.downgrade(Mode::Shared);
                Ok(RwLockReadGuard::new(data, hold))
            }
            Err(data) => Err(Self { data, hold, lock }),
        }
    }

    lease_methods!();
    lease_scope!(T, "rwlock", "write");
}

guard_traits!(['a, T: ?Sized, C], RwLockWriteGuard<'a, T, C>, T);
