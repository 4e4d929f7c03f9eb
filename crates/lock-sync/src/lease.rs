//! The methods that every guard has: those of its lease.

/// Adds `release`. The words are those of its docs, and the expression is how the parts of the guard do it.
macro_rules! lease_release {
    ($release:literal, $lease:literal, $this:ident => $released:expr) => {
        #[doc = $release]
        ///
        /// # Cancel safety
        ///
        /// Once it was polled, the release happens no matter what becomes of the future.
        ///
        /// # If the lease is lost
        ///
        /// The error says so. Nothing of a later holder is touched.
        ///
        /// # Errors
        ///
        #[doc = concat!("- [`ReleaseError::Lost`](crate::ReleaseError::Lost) if ", $lease, " had ended before;")]
        /// - [`ReleaseError::Backend`](crate::ReleaseError::Backend) if the store did not confirm. The
        ///   driver goes on trying where that can help, until the lease has ended by itself.
        pub async fn release($this) -> Result<(), crate::ReleaseError> {
            $released
        }
    };
}

/// Adds what can be asked about its lease to a guard, which has its hold in this field.
macro_rules! lease_questions {
    ($it:literal, $($hold:ident).+) => {
        /// Whether the lease is held now, by the clock of this process.
        ///
        /// No I/O: the deadline counts from before the last request that the store granted was sent,
        /// on a clock that goes on while the machine sleeps, and ends before the store's. Once it has
        /// returned `false` it never returns `true` again.
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
        /// A lease can be lost before it: see [`is_valid`](Self::is_valid).
        pub fn valid_until(&self) -> lock_core::Instant {
            self.$($hold).+.valid_until()
        }

        /// How long the lease lives on unless it is renewed; zero once it is lost.
        pub fn remaining(&self) -> std::time::Duration {
            self.$($hold).+.remaining()
        }

        /// A future that resolves when the lease is lost.
        ///
        #[doc = concat!("It borrows nothing and may outlive the ", $it, "; it never resolves if that is \
                         dropped or released first.")]
        ///
        /// # Cancel safety
        ///
        /// Dropping it loses nothing; a lease that is lost stays lost.
        pub fn lost(&self) -> crate::Lost {
            self.$($hold).+.lost()
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
            self.$($hold).+.while_held(work).await
        }
    };
}

/// Adds the scope of a guard: of one through which the data can be written, or of a `shared` one. The
/// names are those of the example: the constructor, and the method that makes the guard.
macro_rules! lease_scope {
    ($data:ty, $make:literal, $lock:literal) => {
        /// Runs work on the data for as long as the lease is held.
        ///
        /// # Errors
        ///
        /// [`LeaseLost`](crate::LeaseLost) if the lease is lost before the work is done, which is then
        /// dropped where it stands. The data keeps what was written to it by then.
        ///
        /// # Cancel safety
        ///
        /// That of the work.
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
        /// [`LeaseLost`](crate::LeaseLost) if the lease is lost before the work is done, which is then
        /// dropped where it stands.
        ///
        /// # Cancel safety
        ///
        /// That of the work.
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
