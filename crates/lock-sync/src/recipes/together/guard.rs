//! The guard over several locks.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::future::join_all;
use lock_core::{FencingToken, Instant, Key};

use crate::bare::Hold;
use crate::error::{LeaseLost, ReleaseError};
use crate::lost::{Lost, WhileHeld};

/// Several locks that are held together, with a lease on each: what
/// [`Locks::lock_all`](crate::Locks::lock_all) gives.
///
/// It guards no data: what the locks protect is elsewhere. (A [`Mutex`](crate::Mutex) of one of the names
/// is held by somebody else while this guard lives.)
///
/// # Dropping
///
/// Dropping the guard gives all of the locks up, as [`MutexGuard`](crate::MutexGuard#dropping) does with
/// one: another task of this process has its lock at once, and what goes back to the store is *enqueued*.
///
/// # If the lease is lost
///
/// The guard is valid for as long as all of its leases are. If one of them is lost it stays, with the
/// others still held until it is dropped; but what was to happen under all of the locks must not happen
/// any more.
#[clippy::has_significant_drop]
#[must_use = "if unused the locks are released at once"]
pub struct AllGuard {
    /// In the order of the keys.
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

    /// The fencing token with which what this lock protects is to be written; `None` if the guard does
    /// not hold it.
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
    /// No I/O: see [`MutexGuard::is_valid`](crate::MutexGuard::is_valid). Once it has returned `false` it
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
    /// It borrows nothing and may outlive the guard; it never resolves if the guard is dropped or
    /// released first.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing; a lease that is lost stays lost.
    pub fn lost(&self) -> Lost {
        Lost::first_of(self.holds.iter().map(Hold::lost).collect())
    }

    /// Runs a future for as long as all leases are held.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if a lease is lost before the future is done, which is then dropped where it stands.
    ///
    /// # Cancel safety
    ///
    /// That of the future.
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

    /// Releases all of the locks, and waits until the store has confirmed it or they have gone to other
    /// tasks of this process.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled, the releases happen no matter what becomes of the future.
    ///
    /// # If the lease is lost
    ///
    /// The error says so. The other locks are released all the same, and nothing of a later holder is
    /// touched.
    ///
    /// # Errors
    ///
    /// Of the first lock, in the order of [`keys`](Self::keys), that has one:
    ///
    /// - [`ReleaseError::Lost`] if the lease had ended before;
    /// - [`ReleaseError::Backend`] if the store did not confirm. The driver goes on trying where that can
    ///   help, until the lease has ended by itself.
    pub async fn release(self) -> Result<(), ReleaseError> {
        // All at once, so that none is left if the future is dropped after its first poll.
        join_all(self.holds.into_iter().map(Hold::release)).await.into_iter().collect()
    }
}

impl fmt::Debug for AllGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.fencing_tokens()).finish()
    }
}
