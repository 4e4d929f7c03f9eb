//! Inspection and forced release, for operators.

use lock_core::{Error, InspectBackend, Inspection, Key, List, Page};

use crate::bare::ask;
use crate::locks::Locks;

impl<B: ?Sized> Locks<B> {
    /// Shows the holders and waiters of the lock with this name, as the store sees them now. The lock may be of any
    /// kind.
    ///
    /// The result lists leases and places in the queue, not guards and tasks. All tasks of one process that hold a
    /// lock together have one lease. All tasks of one process that wait have one place.
    ///
    /// Each lease and each place has the [label](crate::Builder::label) of its process, once the store knows the label:
    /// a moment after the first request of the process. The label is `None` before that, for clients of other
    /// libraries, and if the user at the store may not write labels.
    ///
    /// A store without a [queue](lock_core::Capability::Queue), such as a quorum, shows no waiters. A store may show a
    /// lease or a place for a while after its end. [`unseen`](lock_core::check::unseen) says so for a store, from its
    /// limits and its capabilities.
    ///
    /// The result does not contain leases that this process gave up before the call: the call first waits until the
    /// store has answered these releases, as [`available_permits`](crate::Semaphore::available_permits) does. The
    /// result contains a [cached](crate::Mutex::with_cache) lease.
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

    /// Returns one page of the locks that have holders or waiters, with these holders and waiters.
    ///
    /// A text is the prefix of the names, byte by byte, and asks for the first page. No character of it is special. A
    /// [`List`] asks for a further page, for larger pages, or for [exact keys](Key::raw). The
    /// [prefix](crate::Builder::prefix) of this handle comes before every name, and the page leaves it out.
    ///
    /// # What a list promises
    ///
    /// If a lock has holders or waiters from before the first page until after the last page, a page shows it. A lock
    /// that comes or goes meanwhile may be on a page or not, and a lock may be on several pages. A page may be empty
    /// although more pages follow. Each page shows its locks as the store saw them at the time of that page.
    ///
    /// The store keeps no index of the locks, so lists cost acquisitions and releases nothing. For a list, the store
    /// walks through all its keys, a few for each page, even if only a few of them have the prefix. Unlike
    /// [`inspect`](Self::inspect), a list does not wait for releases of this process.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unsupported`](lock_core::ErrorKind::Unsupported) if the store cannot list its locks;
    /// - [`ErrorKind::Denied`](lock_core::ErrorKind::Denied) if the user at the store has no right
    ///   to list keys;
    /// - [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) for a cursor of another store, or of a
    ///   deployment whose servers have changed since. Begin again with the first page;
    /// - any other error of the store or of the connection to it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// use lock_sync::List;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let _guard = locks.lock("orders/42").await?;
    ///
    /// let mut list = List::of("orders/");
    /// let mut seen = 0;
    /// loop {
    ///     let page = locks.list(&list).await?;
    ///     for lock in &page.locks {
    ///         // For example `orders/42: held by billing@web-3:71 (exclusive, token 7, 8.2s left)`.
    ///         println!("{lock}");
    ///         seen += 1;
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     list = list.from(next);
    /// }
    /// assert_eq!(seen, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, list: impl Into<List>) -> Result<Page, Error>
    where
        B: InspectBackend,
    {
        let mut list = list.into();
        let prefix = if list.raw { &[] } else { self.shared.prefix() };
        list.prefix.splice(..0, prefix.iter().copied());
        let mut page = ask(&self.shared, self.shared.home, self.backend.list(&list)).await?;
        if !prefix.is_empty() {
            for lock in &mut page.locks {
                let name = lock.key.as_bytes().strip_prefix(prefix);
                lock.key = Key::new(name.unwrap_or(lock.key.as_bytes()))?;
            }
        }
        Ok(page)
    }

    /// Ends every lease on the lock with this name, of any owner and of any kind. Returns the number of leases.
    ///
    /// This call is a last resort for operators: it does not ask the holders. The leases of their guards are
    /// lost, and the next waiters get the lock. A holder learns of its loss from a hint of the store, or with
    /// its next renewal. Until then, only a resource that compares fencing tokens refuses the writes of that
    /// holder.
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
