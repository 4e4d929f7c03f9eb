//! The guards of a reentrant mutex.

use super::{Owner, ReentrantMutex};
use crate::bare::Hold;
use crate::guard::reach;
use crate::lease::{lease_questions, lease_release};

/// An owner's hold on a [`ReentrantMutex`], with the owner in it: what
/// [`lock_as`](ReentrantMutex::lock_as) gives.
///
/// It keeps the owner borrowed. Whoever is called under the lock gets it from [`split`](Self::split), and
/// can lock again.
///
/// # Dropping
///
/// The lock is given up when the last guard of its owner is gone, in whatever order, here and in other
/// processes. Dropping that one is *enqueued*, as with a
/// [`MutexGuard`](crate::MutexGuard#dropping): it never blocks, spawns or panics.
///
/// # If the lease is lost
///
/// The guard stays, and with it the access to the local data. What the lock protects elsewhere is no
/// longer protected, and the owner cannot lock again until its guards are gone.
#[clippy::has_significant_drop]
#[must_use = "if unused the lock is given up at once, unless its owner has another guard"]
pub struct OwnerGuard<'a, T: ?Sized> {
    hold: Hold,
    owner: &'a mut Owner,
    mutex: &'a ReentrantMutex<T>,
}

/// An owner's hold on a [`ReentrantMutex`], where the owner is that of the
/// [`owner_scope`](crate::owner_scope): what [`lock`](ReentrantMutex::lock) gives.
///
/// It may leave the scope, and holds until it is dropped. In all else as [`OwnerGuard`].
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

    /// The data, and the owner to lock with again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, Owner, ReentrantLockError, ReentrantMutex};
    /// async fn outer(
    ///     mutex: &ReentrantMutex<u32>,
    ///     owner: &mut Owner,
    /// ) -> Result<u32, ReentrantLockError> {
    ///     let mut guard = mutex.lock_as(owner).await?;
    ///     let (data, owner) = guard.split();
    ///     Ok(data + inner(mutex, owner).await?)
    /// }
    ///
    /// async fn inner(
    ///     mutex: &ReentrantMutex<u32>,
    ///     owner: &mut Owner,
    /// ) -> Result<u32, ReentrantLockError> {
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

/// What both guards can do.
macro_rules! guard_methods {
    ($guard:ident) => {
        impl<'a, T: ?Sized> $guard<'a, T> {
            /// The mutex that this guard came from.
            ///
            /// An associated function, so that it does not hide a method of the data.
            pub fn mutex(this: &Self) -> &'a ReentrantMutex<T> {
                this.mutex
            }

            /// The fencing token of this turn of the owner: the same for all its guards, in every process
            /// that entered with it meanwhile, and higher than that of every owner before.
            ///
            /// Hand it to the resource that the lock protects, and let that refuse lower ones: see
            /// [`FencingToken`](lock_core::FencingToken).
            pub fn fencing_token(&self) -> lock_core::FencingToken {
                self.hold.fencing_token()
            }

            /// The name of the lock.
            pub fn key(&self) -> &lock_core::Key {
                self.hold.key()
            }

            lease_questions!("guard", hold);

            lease_release!(
                "Gives this hold up. If it was the owner's last in this process, waits until the store has \
                 confirmed it.",
                "the lease",
                self => self.hold.release().await
            );
        }

        reach!(['a, T: ?Sized] $guard<'a, T> => T, |this| this.mutex.data);
    };
}

guard_methods!(OwnerGuard);
guard_methods!(ReentrantGuard);
