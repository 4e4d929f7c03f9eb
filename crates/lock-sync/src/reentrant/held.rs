//! What every guard says of its lease, as those of this module say it.

/// Adds the methods that ask about a lease to a guard with a field `hold`, which may be borrowed.
macro_rules! held_methods {
    () => {
        /// The name of the lock.
        pub fn key(&self) -> &lock_core::Key {
            self.hold.key()
        }

        /// Whether the lease is held now, by the clock of this process: see
        /// [`MutexGuard::is_valid`](crate::MutexGuard::is_valid).
        pub fn is_valid(&self) -> bool {
            self.hold.check().is_ok()
        }

        /// Why the lease is lost, if it is.
        ///
        /// # Errors
        ///
        /// [`LeaseLost`](crate::LeaseLost), once [`is_valid`](Self::is_valid) is `false`.
        pub fn check(&self) -> Result<(), crate::LeaseLost> {
            self.hold.check()
        }

        /// The instant at which the lease ends unless it is renewed, on the clock of the backend.
        pub fn valid_until(&self) -> lock_core::Instant {
            self.hold.valid_until()
        }

        /// How long the lease lives on unless it is renewed; zero once it is lost.
        pub fn remaining(&self) -> std::time::Duration {
            self.hold.remaining()
        }

        /// A future that resolves when the lease is lost: see
        /// [`MutexGuard::lost`](crate::MutexGuard::lost).
        ///
        /// # Cancel safety
        ///
        /// Dropping it loses nothing; a lease that is lost stays lost.
        pub fn lost(&self) -> crate::Lost {
            self.hold.lost()
        }

        /// Runs a future for as long as the lease is held.
        ///
        /// # Errors
        ///
        /// [`LeaseLost`](crate::LeaseLost) if the lease is lost before the future is done, which is
        /// then dropped where it stands.
        ///
        /// # Cancel safety
        ///
        /// That of the future.
        pub async fn while_held<F>(&self, work: F) -> Result<F::Output, crate::LeaseLost>
        where
            F: std::future::Future,
        {
            self.hold.while_held(work).await
        }
    };
}

pub(super) use held_methods;
