//! The guard that reads, and borrows its lock.

use super::admission::Admitted;
use crate::lease::{lease_methods, lease_scope, reader_traits};

/// The right to read the data of an [`RwLock`](super::RwLock), and a lease on its lock.
///
/// # Dropping
///
/// Dropping the guard gives up this reader's part in the lock. The last of its process's readers gives up
/// the lease: the release is *enqueued*, as with [`RwLockWriteGuard`](super::RwLockWriteGuard).
///
/// # If the lease is lost
///
/// The guard stays, and with it the access to the local data; somebody elsewhere may be writing what
/// the lock protects. Readers who share a lease lose it together, and each is told.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // In this order: whoever gets the lock next finds the data free.
    data: tokio::sync::RwLockReadGuard<'a, T>,
    hold: Admitted,
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    pub(super) fn new(data: tokio::sync::RwLockReadGuard<'a, T>, hold: Admitted) -> Self {
        Self { data, hold }
    }

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
    pub fn map<F, U: ?Sized>(this: Self, f: F) -> RwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let Self { data, hold } = this;
        RwLockReadGuard::new(tokio::sync::RwLockReadGuard::map(data, f), hold)
    }

    /// Narrows the guard to a part of the data, if it is there.
    ///
    /// # Errors
    ///
    /// The guard itself, if it is not.
    pub fn try_map<F, U: ?Sized>(this: Self, f: F) -> Result<RwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        let Self { data, hold } = this;
        match tokio::sync::RwLockReadGuard::try_map(data, f) {
            Ok(data) => Ok(RwLockReadGuard::new(data, hold)),
            Err(data) => Err(Self { data, hold }),
        }
    }

    lease_methods!(shared);
    lease_scope!(shared, T, "read");
}

reader_traits!(['a, T: ?Sized], RwLockReadGuard<'a, T>, T);
