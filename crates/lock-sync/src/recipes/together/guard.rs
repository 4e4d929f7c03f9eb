//! The guard over several locks.

use std::fmt;

use futures::future::join_all;

use crate::bare::Hold;
use crate::error::ReleaseError;
use crate::lease::Lease;

/// A guard of several locks, with a lease on each lock. [`Locks::lock_all`](crate::Locks::lock_all) returns it.
///
/// The guard has no data. (For a [`Mutex`](crate::Mutex) with one of the names, this guard is another holder.)
///
/// # Dropping
///
/// Dropping the guard gives all of the locks up, each as a [`MutexGuard`](crate::MutexGuard#dropping) does: a waiter of
/// this process may get its lock at once, and the other releases are *enqueued*.
///
/// # If the lease is lost
///
/// The guard is valid as long as all of its leases are valid. If one lease is lost, the guard still holds the
/// other locks until it is dropped. But work that needs all locks must stop.
#[clippy::has_significant_drop]
#[must_use = "if unused the locks are released at once"]
pub struct MultiGuard {
    /// The holds, in the order of their keys.
    holds: Vec<Hold>,
}

impl MultiGuard {
    pub(super) fn new(holds: Vec<Hold>) -> Self {
        Self { holds }
    }

    /// A handle to the leases of all locks. The handle is valid as long as all leases are valid, and has the fencing
    /// token of each lock: see [`Lease`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let guard = locks.lock_all(["shelf", "till"]).await?;
    /// let sold = guard.lease().while_held(async { /* ... */ 3 }).await?;
    /// assert_eq!(sold, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self) -> Lease {
        Lease::of_all(self.holds.first().map(Hold::key), self.holds.iter())
    }

    /// Releases all of the locks. For each lock it waits until the store has confirmed the release or another
    /// task of this process has the lock.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, the driver completes the releases even if the future is dropped. Poll the future to
    /// its end, or drop it. If the future is neither polled nor dropped, this process cannot get the locks until the
    /// length of a lease has passed.
    ///
    /// # If the lease is lost
    ///
    /// The error is [`ReleaseError::Lost`]. The call still releases the other locks, and does not affect the lease of a
    /// later holder.
    ///
    /// # Errors
    ///
    /// The error of the first lock, in the order of the names, whose release failed:
    ///
    /// - [`ReleaseError::Lost`] if the lease had ended before;
    /// - [`ReleaseError::Backend`] if the store did not confirm the release. If another attempt can succeed, the
    ///   driver goes on trying until the lease has ended by itself.
    pub async fn release(self) -> Result<(), ReleaseError> {
        // All at once, so that every release has begun if the future is dropped after its first poll.
        join_all(self.holds.into_iter().map(Hold::release)).await.into_iter().collect()
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.holds.iter().map(|hold| (hold.key(), hold.fencing_token())))
            .finish()
    }
}
