//! The methods that every guard has: those of its lease.

/// Adds the lease's methods to a guard with a field `hold`, and releases in the order data, hold.
///
/// `shared` is for guards beside which there may be others.
macro_rules! lease_methods {
    () => {
        /// The fencing token of this guard. Each exclusive holder's token is higher than every earlier one.
        ///
        /// Hand the token to the resource that the lock protects, and let the resource refuse lower tokens:
        /// see [`FencingToken`](lock_core::FencingToken).
        pub fn fencing_token(&self) -> lock_core::FencingToken {
            self.hold.fencing_token()
        }

        crate::lease::lease_methods! {
            @every
            "Releases the lock, and waits until the store has confirmed it or the lock has gone to \
             another task of this process."
        }
    };

    (shared) => {
        /// The fencing token of this guard: lower than that of every writer after it, and no lower than
        /// that of any writer before.
        ///
        /// Readers that share a lease have one token, and readers of another process have another. The order
        /// of the tokens of readers that hold the lock at once means nothing. A downgraded guard keeps the token
        /// of the writer. A resource that is only read need not see the token. But you can pass on the token with
        /// what you read: data that is written under a higher token is newer.
        pub fn fencing_token(&self) -> lock_core::FencingToken {
            self.hold.fencing_token()
        }

        crate::lease::lease_methods! {
            @every
            "Gives up this guard's part in the lock. If no other reader of this process shares the \
             lease, waits until the store has confirmed the release or the lock has gone to another \
             task of this process."
        }
    };

    (@every $release:literal) => {
        /// The name of the lock.
        pub fn key(&self) -> &lock_core::Key {
            self.hold.key()
        }

        crate::lease::lease_questions!("guard");

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
        /// - [`ReleaseError::Lost`](crate::ReleaseError::Lost) if the lease had ended before;
        /// - [`ReleaseError::Backend`](crate::ReleaseError::Backend) if the store did not confirm. The
        ///   driver goes on trying where that can help, until the lease has ended by itself.
        pub async fn release(self) -> Result<(), crate::ReleaseError> {
            let Self { data, hold, .. } = self;
            // The data first: whoever gets the lock next finds it free.
            drop(data);
            hold.release().await
        }
    };
}

/// Adds what can be asked about its lease to a guard, or to what else has a field `hold`.
macro_rules! lease_questions {
    ($it:literal) => {
        /// Whether the lease is held now, by the clock of this process.
        ///
        /// No I/O: the deadline counts from before the last request that the store granted was sent,
        /// on a clock that goes on while the machine sleeps, and ends before the store's. Once it has
        /// returned `false` it never returns `true` again.
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
        ///
        /// A lease can be lost before it: see [`is_valid`](Self::is_valid).
        pub fn valid_until(&self) -> lock_core::Instant {
            self.hold.valid_until()
        }

        /// How long the lease lives on unless it is renewed; zero once it is lost.
        pub fn remaining(&self) -> std::time::Duration {
            self.hold.remaining()
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

/// Adds the scope of a guard: of one through which the data can be written, or of a `shared` one. The
/// names are those of the example: the constructor, and the method that makes the guard.
macro_rules! lease_scope {
    ($data:ty) => {
        crate::lease::lease_scope!($data, "mutex", "lock");
    };

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
            self.hold.while_held(work(&mut self.data)).await
        }
    };

    (shared, $data:ty, $lock:literal) => {
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
        /// let rwlock = locks.rwlock("import", vec!["first"])?;
        #[doc = concat!("let guard = rwlock.", $lock, "().await?;")]
        /// assert_eq!(guard.scope(async |rows| rows.len()).await?, 1);
        /// # Ok(())
        /// # }
        /// ```
        pub async fn scope<F, R>(&self, work: F) -> Result<R, crate::LeaseLost>
        where
            F: AsyncFnOnce(&$data) -> R,
        {
            self.hold.while_held(work(&self.data)).await
        }
    };
}

/// Implements the traits that every guard through which the data can be written shares with tokio's.
macro_rules! guard_traits {
    ([$($generics:tt)*], $guard:ty, $target:ty) => {
        crate::lease::reader_traits!([$($generics)*], $guard, $target);

        impl<$($generics)*> std::ops::DerefMut for $guard {
            fn deref_mut(&mut self) -> &mut $target {
                &mut self.data
            }
        }
    };
}

/// Implements the traits that every guard shares with tokio's.
macro_rules! reader_traits {
    ([$($generics:tt)*], $guard:ty, $target:ty) => {
        impl<$($generics)*> std::ops::Deref for $guard {
            type Target = $target;

            fn deref(&self) -> &$target {
                &self.data
            }
        }

        impl<$($generics)*> std::fmt::Debug for $guard
        where
            $target: std::fmt::Debug,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&**self, f)
            }
        }

        impl<$($generics)*> std::fmt::Display for $guard
        where
            $target: std::fmt::Display,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&**self, f)
            }
        }
    };
}

pub(crate) use {guard_traits, lease_methods, lease_questions, lease_scope, reader_traits};
