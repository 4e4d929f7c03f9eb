//! Permits that were acquired.

use std::fmt;
use std::sync::Arc;

use super::Semaphore;
use super::holds::Holds;

/// Permits of a [`Semaphore`], and a lease on them.
///
/// # Dropping
///
/// Dropping this value gives the permits back. The release is *enqueued*: the driver sends it to the
/// store a moment later, from its own thread. A drop never blocks, spawns or panics, and needs no
/// runtime. Use [`release`](Self::release) to wait for the store, and
/// [`Locks::shutdown`](crate::Locks::shutdown) before the process ends.
///
/// # If the lease is lost
///
/// This value still exists, but its permits have gone back to the semaphore, and other holders may have them.
/// Its [`Lease`](crate::Lease) reports the loss by the clock and as a future.
#[clippy::has_significant_drop]
#[must_use = "if unused the permit is given back at once"]
pub struct SemaphorePermit<'a> {
    holds: Holds,
    semaphore: &'a Semaphore,
}

/// Permits of a [`Semaphore`] that borrow nothing: they keep an `Arc` of their semaphore.
///
/// Otherwise it is like [`SemaphorePermit`].
#[clippy::has_significant_drop]
#[must_use = "if unused the permit is given back at once"]
pub struct OwnedSemaphorePermit {
    holds: Holds,
    semaphore: Arc<Semaphore>,
}

impl<'a> SemaphorePermit<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, holds: Holds) -> Self {
        Self { holds, semaphore }
    }

    /// The semaphore that these permits belong to.
    pub fn semaphore(&self) -> &'a Semaphore {
        self.semaphore
    }
}

impl OwnedSemaphorePermit {
    pub(super) fn new(semaphore: Arc<Semaphore>, holds: Holds) -> Self {
        Self { holds, semaphore }
    }

    /// The semaphore that these permits belong to.
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }
}

/// The methods of both kinds of permit. `$share` makes a second handle of the semaphore from the first.
macro_rules! permit_methods {
    ([$($generics:tt)*], $permit:ty, $name:literal, $share:expr) => {
        impl<$($generics)*> $permit {
            /// The number of permits.
            pub fn num_permits(&self) -> usize {
                self.holds.permits()
            }

            /// Removes the permits from the semaphore, for all processes and permanently.
            ///
            /// The request is *enqueued*, as the release by a drop is. If other tasks hold permits under this
            /// lease, the driver sends the request when the last task has given its permits back. If the lease
            /// is lost before that, the permits return to the semaphore and are not removed. For free permits,
            /// see [`Semaphore::forget_permits`].
            ///
            /// # Examples
            ///
            /// ```
            /// # use lock_core::memory::MemoryBackend;
            /// # use lock_sync::Locks;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let locks = Locks::new(MemoryBackend::new());
            /// let tickets = locks.semaphore("tickets", 3)?;
            /// tickets.acquire_many(2).await?.forget();
            /// assert_eq!(tickets.available_permits().await?, 1);
            /// # Ok(())
            /// # }
            /// ```
            pub fn forget(self) {
                self.holds.forget();
            }

            /// Merges the permits of `other` into this value. The call sends no request.
            ///
            /// Each part keeps its lease. A [`Lease`](crate::Lease) of the merged permits is valid while all of their
            /// leases are valid.
            ///
            /// # Panics
            ///
            /// If `other` belongs to another semaphore. Two handles with one name are one semaphore if one
            /// [`Locks`](crate::Locks) or its clones made them, and if they have the same options.
            ///
            /// # Examples
            ///
            /// ```
            /// # use lock_core::memory::MemoryBackend;
            /// # use lock_sync::Locks;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let locks = Locks::new(MemoryBackend::new());
            /// let seats = locks.semaphore("seats", 10)?;
            /// let mut permit = seats.acquire().await?;
            /// permit.merge(seats.acquire_many(3).await?);
            /// assert_eq!(permit.num_permits(), 4);
            /// # Ok(())
            /// # }
            /// ```
            #[track_caller]
            pub fn merge(&mut self, other: Self) {
                assert!(
                    self.semaphore.lock.is_same(&other.semaphore.lock),
                    "merging permits from different semaphore instances"
                );
                self.holds.merge(other.holds);
            }

            /// Splits `n` of the permits off. They keep their lease and their fencing token. Returns `None`
            /// if there are fewer than `n`. The call sends no request.
            ///
            /// # Examples
            ///
            /// ```
            /// # use lock_core::memory::MemoryBackend;
            /// # use lock_sync::Locks;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let locks = Locks::new(MemoryBackend::new());
            /// let seats = locks.semaphore("seats", 10)?;
            /// let mut permit = seats.acquire_many(4).await?;
            /// let one = permit.split(1).expect("there are four");
            /// assert_eq!((one.num_permits(), permit.num_permits()), (1, 3));
            /// assert!(permit.split(4).is_none());
            /// # Ok(())
            /// # }
            /// ```
            pub fn split(&mut self, n: usize) -> Option<Self> {
                let holds = self.holds.split(n)?;
                Some(Self { holds, semaphore: $share(&self.semaphore) })
            }

            crate::guard::leased!(
                "Gives the permits back, and waits until the store has confirmed the release or another \
                 task of this process has the permits.",
                (&self) => self.holds.lease(self.semaphore.key()),
                (self) => self.holds.release().await
            );
        }

        impl<$($generics)*> fmt::Debug for $permit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("key", self.semaphore.key())
                    .field("permits", &self.num_permits())
                    .field("fencing_token", &self.holds.lease(self.semaphore.key()).fencing_token())
                    .finish_non_exhaustive()
            }
        }
    };
}

permit_methods!(['a], SemaphorePermit<'a>, "SemaphorePermit", |semaphore: &&'a Semaphore| *semaphore);
permit_methods!([], OwnedSemaphorePermit, "OwnedSemaphorePermit", Arc::clone);
