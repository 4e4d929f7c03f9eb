//! For people who look after the locks.

use lock_core::{Error, InspectBackend, Inspection, Key};

use crate::locks::Locks;

impl<B: ?Sized> Locks<B> {
    /// Who holds the lock of this name and who waits for it, whatever kind of lock it is, as the store sees
    /// it now.
    ///
    /// It shows leases and places in the queue, not guards and tasks: those of one process that hold a lock
    /// together have one lease, and however many wait there have one place.
    ///
    /// It does not show what this process has given up before: the store hears of that first, as for
    /// [`available_permits`](crate::Semaphore::available_permits). A lease that is
    /// [cached](crate::Mutex::with_cache) is shown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does;
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if the name, with the
    /// [prefix](crate::Builder::prefix), is too long.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let report = locks.mutex("report", ())?;
    /// let guard = report.lock().await?;
    /// let seen = locks.inspect("report").await?;
    /// assert_eq!(seen.holders[0].token, Some(guard.fencing_token()));
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

    /// Ends every lease on the lock of this name, whoever has it and whatever kind of lock it is. Returns how
    /// many there were.
    ///
    /// For people who clean up: it does not ask the holders. Their guards are lost, which they learn from a
    /// hint of the store or with their next renewal; what they write until then is refused only where
    /// fencing tokens are compared. Whoever waits is served.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it was done.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect). Repeating it ends what was granted meanwhile, too.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let report = locks.mutex("report", ())?;
    /// let stuck = report.lock().await?;
    /// assert_eq!(locks.force_release("report").await?, 1);
    /// println!("the guard is lost: {}", stuck.lost().await);
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
