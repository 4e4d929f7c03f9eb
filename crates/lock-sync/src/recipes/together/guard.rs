//! The guard over several locks.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::future::join_all;
use lock_core::{FencingToken, Instant, Key};

use crate::bare::Hold;
use crate::error::{LeaseLost, ReleaseError};
use crate::lost::{Lost, WhileHeld};

/// Several locks that are held together, with a lease on each. [`Locks::lock_all`](crate::Locks::lock_all) returns it.
///
/// It gives access to no data: the locks protect things outside it. (For a [`Mutex`](crate::Mutex) with one of
/// the names, this guard is another holder.)
///
/// # Dropping
///
/// Dropping the guard gives all of the locks up, each as a [`MutexGuard`](crate::MutexGuard#dropping) does: a waiter of
/// this process may get its lock at once, and the other releases are *enqueued*.
///
/// # If the lease is lost
///
/// The guard is valid as long as all of its leases are valid. If one of them is lost, the guard still holds the
/// others until it is dropped. But the work that needs all of the locks must stop.
#[clippy::has_significant_drop]
#[must_use = "if unused the locks are released at once"]
pub struct AllGuard {
    /// The holds, in the order of their keys.
    holds: Vec<Hold>,
}

impl AllGuard {
    pub(super) fn new(holds: Vec<Hold>) -> Self {
        Self { holds }
    }

    /// The names of the locks, each once, in the order in which they are waited for.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.holds.iter().map(Hold::key)
    }

    /// The fencing token for writes to the resource that this lock protects. `None` if the guard does not hold the
    /// lock.
    ///
    /// Every lock has a token of its own: see [`FencingToken`].
    pub fn fencing_token(&self, key: &Key) -> Option<FencingToken> {
        let at = self.holds.binary_search_by(|hold| hold.key().cmp(key));
        at.ok().map(|at| self.holds[at].fencing_token())
    }

    /// The locks and their fencing tokens, in the order of [`keys`](Self::keys).
    pub fn fencing_tokens(&self) -> impl ExactSizeIterator<Item = (&Key, FencingToken)> {
        self.holds.iter().map(|hold| (hold.key(), hold.fencing_token()))
    }

    /// Whether all leases are held now, by the clock of this process.
    ///
    /// It does no I/O: see [`MutexGuard::is_valid`](crate::MutexGuard::is_valid). Once it has returned `false`, it
    /// never returns `true` again.
    pub fn is_valid(&self) -> bool {
        self.check().is_ok()
    }

    /// Why a lease is lost, if one is.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], once [`is_valid`](Self::is_valid) is `false`.
    pub fn check(&self) -> Result<(), LeaseLost> {
        self.holds.iter().try_for_each(Hold::check)
    }

    /// The instant at which the first of the leases ends unless it is renewed, on the clock of the
    /// backend.
    pub fn valid_until(&self) -> Instant {
        self.holds.iter().map(Hold::valid_until).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// How long all leases live on unless they are renewed; zero once one is lost.
    pub fn remaining(&self) -> Duration {
        self.holds.iter().map(Hold::remaining).min().unwrap_or(Duration::MAX)
    }

    /// A future that resolves when the first of the leases is lost.
    ///
    /// It borrows nothing and may outlive the guard. It never resolves if the guard is dropped or
    /// released first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. A lease that is lost stays lost.
    pub fn lost(&self) -> Lost {
        Lost::first_of(self.holds.iter().map(Hold::lost).collect())
    }

    /// Runs a future for as long as all leases are held.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if a lease is lost before the future has completed. The future is then dropped.
    ///
    /// # Cancel safety
    ///
    /// As `work`.
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
    /// let sold = guard.while_held(async { /* ... */ 3 }).await?;
    /// assert_eq!(sold, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn while_held<F: Future>(&self, work: F) -> Result<F::Output, LeaseLost> {
        WhileHeld::new(work, self.lost(), || self.check()).await
    }

    /// Releases all of the locks. For each lock it waits until the store has confirmed the release or another
    /// task of this process has the lock.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, the releases happen even if the future is dropped.
    ///
    /// # If the lease is lost
    ///
    /// The error says so. The other locks are released nevertheless. The lease of a later holder is not affected.
    ///
    /// # Errors
    ///
    /// The error is that of the first lock, in the order of [`keys`](Self::keys), whose release failed:
    ///
    /// - [`ReleaseError::Lost`] if the lease had ended before;
    /// - [`ReleaseError::Backend`] if the store did not confirm the release. If another attempt can succeed, the
    ///   driver goes on trying until the lease has ended by itself.
    pub async fn release(self) -> Result<(), ReleaseError> {
        // All at once, so that every release has begun if the future is dropped after its first poll.
        join_all(self.holds.into_iter().map(Hold::release)).await.into_iter().collect()
    }
}

impl fmt::Debug for AllGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.fencing_tokens()).finish()
    }
}
