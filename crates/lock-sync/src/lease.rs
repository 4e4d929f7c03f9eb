//! The methods that every guard has for its lease.

/// Adds `release`. The two literals go into its docs. The expression releases the parts of the guard.
macro_rules! lease_release {
    ($release:literal, $lease:literal, $this:ident => $released:expr) => {
        #[doc = $release]
        ///
        /// # Cancel safety
        ///
        /// Once the future was polled, the release happens even if the future is dropped.
        ///
        /// # If the lease is lost
        ///
        /// The error says so. The lease of a later holder is not affected.
        ///
        /// # Errors
        ///
        #[doc = concat!("- [`ReleaseError::Lost`](crate::ReleaseError::Lost) if ", $lease, " had ended before;")]
        /// - [`ReleaseError::Backend`](crate::ReleaseError::Backend) if the store did not confirm the release. If
        ///   another attempt can succeed, the driver goes on trying until the lease has ended by itself.
        pub async fn release($this) -> Result<(), crate::ReleaseError> {
            $released
        }
    };
}

/// Adds the questions about its lease to a guard. The second argument is the field with the hold.
macro_rules! lease_questions {
    ($it:literal, $($hold:ident).+) => {
        /// Whether the lease is held now, by the clock of this process.
        ///
        /// It does no I/O. The deadline counts from the moment before the last successful request was sent, on a
        /// clock that goes on while the machine sleeps. It is earlier than the deadline of the store. Once
        /// `is_valid` has returned `false`, it never returns `true` again.
        pub fn is_valid(&self) -> bool {
            self.$($hold).+.check().is_ok()
        }

        /// Why the lease is lost, if it is.
        ///
        /// # Errors
        ///
        /// [`LeaseLost`](crate::LeaseLost), once [`is_valid`](Self::is_valid) is `false`.
        pub fn check(&self) -> Result<(), crate::LeaseLost> {
            self.$($hold).+.check()
        }

        /// The instant at which the lease ends unless it is renewed, on the clock of the backend.
        ///
        /// The lease can be lost before this instant: see [`is_valid`](Self::is_valid).
        pub fn valid_until(&self) -> lock_core::Instant {
            self.$($hold).+.valid_until()
        }

        /// How long the lease lives on unless it is renewed; zero once it is lost.
        pub fn remaining(&self) -> std::time::Duration {
            self.$($hold).+.remaining()
        }

        /// A future that resolves when the lease is lost.
        ///
        #[doc = concat!("It borrows nothing and may outlive the ", $it, ". It never resolves if the ", $it, " is \
                         dropped or released first.")]
        ///
        /// # Cancel safety
        ///
        /// Dropping the future has no effect. A lease that is lost stays lost.
        pub fn lost(&self) -> crate::Lost {
            self.$($hold).+.lost()
        }

        /// Runs a future for as long as the lease is held.
        ///
        /// # Errors
        ///
        /// [`LeaseLost`](crate::LeaseLost) if the lease is lost before the future has completed. The future is
        /// then dropped.
        ///
        /// # Cancel safety
        ///
        /// As `work`.
        pub async fn while_held<F>(&self, work: F) -> Result<F::Output, crate::LeaseLost>
        where
            F: std::future::Future,
        {
            self.$($hold).+.while_held(work).await
        }
    };
}

/// Adds `scope` to a guard, with write access to the data, or with read access for a `shared` guard. The
/// two literals go into the example: the constructor, and the method that makes the guard.
macro_rules! lease_scope {
    ($data:ty, $make:literal, $lock:literal) => {
        /// Runs work on the data for as long as the lease is held.
        ///
        /// # Errors
        ///
        /// [`LeaseLost`](crate::LeaseLost) if the lease is lost before the work is done. The work is then
        /// dropped. The data keeps what the work has written by then.
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
        #[doc = concat!("let ", $make, " = locks.", $make, "(\"import\", Vec::new())?;")]
        #[doc = concat!("let mut guard = ", $make, ".", $lock, "().await?;")]
        /// let rows = guard
        ///     .scope(async |rows| {
        ///         rows.push("first");
        ///         rows.len()
        ///     })
        ///     .await?;
        /// assert_eq!(rows, 1);
        /// # Ok(())
        /// # }
        /// ```
        pub async fn scope<F, R>(&mut self, work: F) -> Result<R, crate::LeaseLost>
        where
            F: AsyncFnOnce(&mut $data) -> R,
        {
            self.core.hold.while_held(work(&mut self.core.data)).await
        }
    };

    (shared, $data:ty, $make:literal, $lock:literal) => {
        /// Runs work that reads the data for as long as the lease is held.
        ///
        /// # Errors
        ///
        /// [`LeaseLost`](crate::LeaseLost) if the lease is lost before the work is done. The work is then
        /// dropped.
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
        #[doc = concat!("let ", $make, " = locks.", $make, "(\"import\", vec![\"first\"])?;")]
        #[doc = concat!("let guard = ", $make, ".", $lock, "().await?;")]
        /// assert_eq!(guard.scope(async |rows| rows.len()).await?, 1);
        /// # Ok(())
        /// # }
        /// ```
        pub async fn scope<F, R>(&self, work: F) -> Result<R, crate::LeaseLost>
        where
            F: AsyncFnOnce(&$data) -> R,
        {
            self.core.hold.while_held(work(&self.core.data)).await
        }
    };
}

pub(crate) use {lease_questions, lease_release, lease_scope};
