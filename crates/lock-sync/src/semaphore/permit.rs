//! Permits that were acquired.

use std::fmt;
use std::sync::Arc;

use super::Semaphore;
use super::holds::Holds;

/// Permits of a [`Semaphore`], and a lease on them.
///
/// # Dropping
///
/// Dropping it gives the permits back. The release is *enqueued*: the driver sends it to the store a
/// moment later, from its own thread. A drop never blocks, spawns or panics, and needs no runtime. Use
/// [`release`](Self::release) to wait for the store, and [`Locks::shutdown`](crate::Locks::shutdown)
/// before the process ends.
///
/// # If the lease is lost
///
/// This value still exists, but its permits have gone back to the semaphore, and other holders may have them.
/// [`is_valid`](Self::is_valid) reports the loss by the clock, and [`lost`](Self::lost) as a future.
#[clippy::has_significant_drop]
#[must_use = "if unused the permit is given back at once"]
pub struct SemaphorePermit<'a> {
    holds: Holds,
    semaphore: &'a Semaphore,
}

/// Permits of a [`Semaphore`] that borrow nothing: they keep an `Arc` of it.
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
            /// The request is *enqueued*, as the release by a drop is. If other tasks hold permits under
            /// this lease, the driver sends the request when the last of them has given its permits back. If the
            /// lease is lost before that, the permits return to the semaphore and stay there. For free
            /// permits, see [`Semaphore::forget_permits`].
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
            /// locks.shutdown().await; // waits until the store has heard of it
            /// assert_eq!(tickets.available_permits().await?, 1);
            /// # Ok(())
            /// # }
            /// ```
            pub fn forget(self) {
                self.holds.forget();
            }

            /// Merges the permits of `other` into this value. It sends no request.
            ///
            /// Each part keeps its lease. If one lease is lost, [`is_valid`](Self::is_valid) is `false` for all.
            ///
            /// # Panics
            ///
            /// If `other` belongs to another semaphore. Two handles with one name that one
            /// [`Locks`](crate::Locks) or its clones made are one semaphore.
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

            /// Splits `n` of the permits off. They have the fencing token that they had before. Returns `None`
            /// if there are fewer than `n`. It sends no request.
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

            /// The name of the semaphore.
            pub fn key(&self) -> &lock_core::Key {
                self.semaphore.key()
            }

            /// The fencing token of these permits.
            ///
            /// A permit's fencing token is unique, and it is higher than every token of a grant that
            /// ended before the permit's own grant was asked for. A permit's grant is the grant of the
            /// lease that the permit is a part of; a process passes the permits of one lease from task
            /// to task. Tokens of grants that overlap in time have no order.
            ///
            /// Tokens cannot fence holders that hold permits at once. If the resource refuses lower tokens,
            /// use a [`Mutex`](crate::Mutex).
            ///
            /// The parts of a permit that was [split](Self::split) have its token. [Merged](Self::merge) permits
            /// have the lowest of their tokens: a resource that compares tokens may refuse
            /// them without need, but it never takes an earlier grant for a later one. A value without permits has
            /// the token zero, which is lower than all others.
            pub fn fencing_token(&self) -> lock_core::FencingToken {
                self.holds.fencing_token()
            }

            /// Whether every one of the permits is held now, by the clock of this process.
            ///
            /// It does no I/O. The deadline counts from the moment before the last successful request was sent, on a
            /// clock that goes on while the machine sleeps. It is earlier than the deadline of the store. Once
            /// `is_valid` has returned `false`, it never returns `true` again, unless the lost permits are
            /// [split](Self::split) off.
            pub fn is_valid(&self) -> bool {
                self.holds.check().is_ok()
            }

            /// Why the lease of one of the permits is lost, if it is.
            ///
            /// # Errors
            ///
            /// [`LeaseLost`](crate::LeaseLost), once [`is_valid`](Self::is_valid) is `false`.
            pub fn check(&self) -> Result<(), crate::LeaseLost> {
                self.holds.check()
            }

            /// The instant at which the first lease of the permits ends unless it is renewed, on the clock of
            /// the backend.
            ///
            /// A lease can be lost before this instant: see [`is_valid`](Self::is_valid).
            pub fn valid_until(&self) -> lock_core::Instant {
                self.holds.valid_until()
            }

            /// How long all leases of the permits live on unless they are renewed; zero once one is lost.
            pub fn remaining(&self) -> std::time::Duration {
                self.holds.remaining()
            }

            /// A future that resolves when the lease of one of the permits is lost.
            ///
            /// It watches the permits that this value has now. It borrows nothing and may outlive them. It
            /// never resolves if they are given back first.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future has no effect. A lease that is lost stays lost.
            pub fn lost(&self) -> crate::Lost {
                self.holds.lost()
            }

            /// Runs a future for as long as all of the permits are held.
            ///
            /// # Errors
            ///
            /// [`LeaseLost`](crate::LeaseLost) if a lease is lost before the future has completed. The future is
            /// then dropped.
            ///
            /// # Cancel safety
            ///
            /// As `work`.
            pub async fn while_held<F>(&self, work: F) -> Result<F::Output, crate::LeaseLost>
            where
                F: std::future::Future,
            {
                self.holds.while_held(work).await
            }

            crate::lease::lease_release!(
                "Gives the permits back, and waits until the store has confirmed the release or another \
                 task of this process has the permits.",
                "a lease",
                self => self.holds.release().await
            );
        }

        impl<$($generics)*> fmt::Debug for $permit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("key", self.key())
                    .field("permits", &self.num_permits())
                    .field("fencing_token", &self.fencing_token())
                    .finish_non_exhaustive()
            }
        }
    };
}

permit_methods!(['a], SemaphorePermit<'a>, "SemaphorePermit", |semaphore: &&'a Semaphore| *semaphore);
permit_methods!([], OwnedSemaphorePermit, "OwnedSemaphorePermit", Arc::clone);
