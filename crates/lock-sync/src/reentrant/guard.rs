//! The guards of a reentrant mutex.

use super::{Owner, ReentrantMutex};
use crate::bare::Hold;
use crate::guard::{leased, reach};
use crate::lease::Lease;

/// An owner's hold on a [`ReentrantMutex`], together with the owner. [`lock_as`](ReentrantMutex::lock_as) returns it.
///
/// The guard keeps the owner borrowed. A nested call gets the owner from [`split`](Self::split), and can lock again.
///
/// # Dropping
///
/// The owner gives the lock up when its last guard is dropped, in this process and in others. The order of the
/// drops does not matter. The drop of the last guard *enqueues* the release, as with a
/// [`MutexGuard`](crate::MutexGuard#dropping). A drop never blocks, spawns or panics.
///
/// # If the lease is lost
///
/// The guard still gives access to the local data. But another owner may get the lock, so the lock no longer
/// protects anything outside this process. The owner cannot lock again in this process until its guards are gone.
#[clippy::has_significant_drop]
#[must_use = "if unused the lock is given up at once, unless its owner has another guard"]
pub struct OwnerGuard<'a, T: ?Sized> {
    hold: Hold,
    owner: &'a mut Owner,
    mutex: &'a ReentrantMutex<T>,
}

/// A hold on a [`ReentrantMutex`] by the owner of an [`owner_scope`](crate::owner_scope).
/// [`lock`](ReentrantMutex::lock) returns it.
///
/// The guard may leave the scope, and holds the lock until it is dropped. Otherwise it is like [`OwnerGuard`].
#[clippy::has_significant_drop]
#[must_use = "if unused the lock is given up at once, unless its owner has another guard"]
pub struct ReentrantGuard<'a, T: ?Sized> {
    hold: Hold,
    mutex: &'a ReentrantMutex<T>,
}

impl<'a, T: ?Sized> OwnerGuard<'a, T> {
    pub(super) fn new(mutex: &'a ReentrantMutex<T>, owner: &'a mut Owner, hold: Hold) -> Self {
        Self { hold, owner, mutex }
    }

    /// The data, and the owner for a nested call.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{LockError, Locks, Owner, ReentrantMutex};
    /// async fn outer(
    ///     mutex: &ReentrantMutex<u32>,
    ///     owner: &mut Owner,
    /// ) -> Result<u32, LockError> {
    ///     let mut guard = mutex.lock_as(owner).await?;
    ///     let (data, owner) = guard.split();
    ///     Ok(data + inner(mutex, owner).await?)
    /// }
    ///
    /// async fn inner(
    ///     mutex: &ReentrantMutex<u32>,
    ///     owner: &mut Owner,
    /// ) -> Result<u32, LockError> {
    ///     Ok(*mutex.lock_as(owner).await?)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.reentrant_mutex("answer", 21)?;
    /// assert_eq!(outer(&mutex, &mut Owner::new()?).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&mut self) -> (&T, &mut Owner) {
        (&self.mutex.data, self.owner)
    }
}

impl<'a, T: ?Sized> ReentrantGuard<'a, T> {
    pub(super) fn new(mutex: &'a ReentrantMutex<T>, hold: Hold) -> Self {
        Self { hold, mutex }
    }
}

/// The methods of both guards.
macro_rules! guard_methods {
    ($guard:ident) => {
        impl<'a, T: ?Sized> $guard<'a, T> {
            /// The mutex that this guard belongs to.
            ///
            /// An associated function, so that it does not hide a method of the data.
            pub fn mutex(this: &Self) -> &'a ReentrantMutex<T> {
                this.mutex
            }

            leased!(
                "Gives this hold up. If it was the owner's last in this process, waits until the store has \
                 confirmed the release.",
                (this: &Self) => Lease::of(&this.hold),
                (this: Self) => this.hold.release().await
            );
        }

        reach!(['a, T: ?Sized] $guard<'a, T> => T, |this| this.mutex.data);
    };
}

guard_methods!(OwnerGuard);
guard_methods!(ReentrantGuard);
