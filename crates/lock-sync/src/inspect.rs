//! Inspection and forced release, for operators.

use lock_core::{Error, InspectBackend, Inspection, Key};

use crate::locks::Locks;

impl<B: ?Sized> Locks<B> {
    /// The holders and waiters of the lock with this name, as the store sees them now. The lock may be of any kind.
    ///
    /// The result lists leases and places in the queue, not guards and tasks. The tasks of one process that hold a
    /// lock together have one lease, and all tasks of one process that wait have one place.
    ///
    /// Each lease and each place has the [label](crate::Builder::label) of its process, once the store knows it: a moment
    /// after the process asked for its first lock. It is `None` before that, for clients of other libraries, and if a user
    /// of the store may not write labels.
    ///
    /// The result does not contain what this process gave up before the call: the call first waits until the store
    /// has answered those releases, as [`available_permits`](crate::Semaphore::available_permits) does. It contains
    /// a lease that is [cached](crate::Mutex::with_cache).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if the name, with the
    ///   [prefix](crate::Builder::prefix), is too long;
    /// - any error of the store or of the connection to it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, MutexGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let report = locks.mutex("report", ())?;
    /// let guard = report.lock().await?;
    /// let seen = locks.inspect("report").await?;
    /// assert_eq!(seen.holders[0].token, Some(MutexGuard::lease(&guard).fencing_token()));
    /// assert_eq!(seen.waiting, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect<K>(&self, name: K) -> Result<Inspection, Error>
    where
        B: InspectBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let lock = self.bare_lock(name)?;
        lock.ask_about(self.backend.inspect(lock.key())).await
    }

    /// Ends every lease on the lock with this name, of any owner and of any kind. Returns the number of leases.
    ///
    /// This is a last resort for operators: it does not ask the holders. The leases of their guards are lost. A
    /// holder learns this from a hint of the store or with its next renewal. Until then, only a resource that
    /// compares fencing tokens refuses what the holder writes. The next waiters get the lock.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the leases may or may not have ended.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect). Another call also ends leases that were granted meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, MutexGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let report = locks.mutex("report", ())?;
    /// let stuck = report.lock().await?;
    /// assert_eq!(locks.force_release("report").await?, 1);
    /// println!("the guard is lost: {}", MutexGuard::lease(&stuck).lost().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release<K>(&self, name: K) -> Result<u64, Error>
    where
        B: InspectBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let lock = self.bare_lock(name)?;
        lock.ask_about(self.backend.force_release(lock.key())).await
    }
}
