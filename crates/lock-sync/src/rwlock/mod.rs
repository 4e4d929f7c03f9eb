//! A reader-writer lock that holds across processes.

#![allow(clippy::result_large_err, reason = "an error that gives a guard back is larger than that")]

mod access;
mod admission;
mod admitting;
mod error;
mod making;
mod mapped_write_guard;
mod methods;
mod read;
mod read_guard;
mod reading;
mod upgradable;
mod upgradable_guard;
mod upgrade;
mod write;
mod write_guard;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Convertible, Fixed, Key};

pub use error::UpgradeError;
pub use mapped_write_guard::{OwnedRwLockMappedWriteGuard, RwLockMappedWriteGuard};
pub use read::{Read, ReadOwned};
pub use read_guard::{OwnedRwLockReadGuard, RwLockReadGuard};
pub use upgradable::{UpgradableRead, UpgradableReadOwned};
pub use upgradable_guard::{OwnedRwLockUpgradableReadGuard, RwLockUpgradableReadGuard};
pub use upgrade::{Upgrade, UpgradeOwned};
pub use write::{Write, WriteOwned};
pub use write_guard::{OwnedRwLockWriteGuard, RwLockWriteGuard};

use crate::bare::{BareLock, Wait};
use crate::handoff::Handoff;
use admission::Quota;

/// An asynchronous reader-writer lock like [`tokio::sync::RwLock`] that holds across processes.
///
/// Any number of readers hold the lock together, or one writer holds it alone. The readers and writers of all
/// processes that use one store count. [`Locks::rwlock`](crate::Locks::rwlock) makes a lock and gives it a name: all
/// locks with one name are one lock. The value inside belongs to this process. The guards give access to the value,
/// as with tokio.
///
/// [`Mutex`](crate::Mutex#what-the-guard-means) says what a guard means, and what happens when its lease is lost.
/// This holds for readers and for writers.
///
/// # Order
///
/// The lock is *fair* (or *write-preferring*), as tokio's lock is. A reader that comes after a waiting writer enters
/// after that writer, even if only readers hold the lock now. Readers that are next to one another in line enter
/// together. An upgrade goes before all other waiters.
///
/// Within a process, the order is the order in which the futures were first polled. Processes wait in the queue of the
/// store in the order in which they came. There, too, a waiting writer holds back later readers. [`Handoff`] says how
/// long a process may hand the lock off to its own waiters in its turn; with [`Handoff::Fair`] it may not. A dead
/// waiter delays other waiters no longer than its place in the queue lives. A dead reader or writer delays them no
/// longer than its lease lives. The leases of two processes do not depend on each other.
///
/// # Readers of one process
///
/// The readers of one process share one lease: while readers of a process hold the lock, a new reader of the process
/// enters without a request. This ends when another process waits for the lock. Then new readers wait, so that the
/// other process gets its turn when the present readers have left.
///
/// # Upgrading
///
/// Two readers that both want to become the writer would wait for each other. So a reader that may have to write
/// takes the lock with [`upgradable_read`](Self::upgradable_read). The lock has at most one upgradable reader at a
/// time, beside any number of ordinary readers. The upgradable reader can become the writer with no other writer in
/// between. The lock of `async-lock` also has upgradable readers, and tokio's lock does not.
///
/// # Backends that do not convert a lease
///
/// Most stores can make a lease weaker or stronger: they implement
/// [`ConvertBackend`](lock_core::ConvertBackend). Others, such as a quorum, cannot. The second type parameter says
/// which kind the backend is: [`Convertible`], the default, or [`Fixed`]. Over a `Fixed` backend
///
/// - [`upgradable_read`](Self::upgradable_read) does not compile;
/// - a [`downgrade`](RwLockWriteGuard::downgrade) admits the readers of this process at once, as over every backend,
///   but the lease stays exclusive. Readers of other processes wait until the last reader of this process has left.
///   To give them their turn, no more readers join once the process knows that another process waits, and no more
///   readers join later than a second after the downgrade.
///
/// [`without_upgrades`](Self::without_upgrades) turns a lock over any backend into one of type `Fixed`.
///
/// # Deadlocks
///
/// As with tokio's lock, a task that holds a read lock must not wait for a second one:
///
/// ```text
/// // Task 1            | // Task 2
/// let a = lock.read(); |
///                      | // Waits for task 1, in this process or in another.
///                      | let b = lock.write();
/// // Waits for task 2. |
/// let c = lock.read(); |
/// ```
///
/// Nor must a task wait for [`write`](Self::write) while it holds a read lock: it would wait for itself. The end of
/// the lease does not resolve the deadlock, because the driver renews the lease as long as the guard lives. A [wait
/// limit](crate::Builder::wait_limit) or [`read_timeout`](Self::read_timeout) ends such a wait with an error.
///
/// # Differences from `tokio::sync::RwLock`
///
/// - [`Locks::rwlock`](crate::Locks::rwlock) or
///   [`rwlock_with_max_readers`](crate::Locks::rwlock_with_max_readers) makes it. There is no `new`, `const_new`,
///   `Default` or `From<T>`, because a lock needs a name and a store.
/// - `read`, `write` and their siblings return a `Result`; `try_read` and `try_write` are `async`: all of
///   them may ask the store.
/// - Dropping a guard *enqueues* the release: see [`RwLockWriteGuard`].
/// - `Arc<RwLock<T>>` does not coerce to `Arc<RwLock<dyn Trait>>`; see
///   [`Locks::rwlock_from_boxed`](crate::Locks::rwlock_from_boxed).
/// - It is `Send` if `T` is `Send` *and* `Sync`. tokio's lock needs `Send` alone. (Without `Sync` on `T`, tasks
///   can share neither lock. So the only difference is that an unshared lock cannot move to another thread.)
/// - Additional: upgradable reads, `*_timeout`, `blocking_*_owned`, [`key`](Self::key), and the functions
///   [`lease`](RwLockWriteGuard::lease) and [`release`](RwLockWriteGuard::release) of the guards. These two are not
///   methods, so they hide no method of the data.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, RwLockWriteGuard};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let lock = locks.rwlock("prices", 5)?;
///
/// // Many readers can hold the lock at once.
/// {
///     let first = lock.read().await?;
///     let second = lock.read().await?;
///     assert_eq!((*first, *second), (5, 5));
/// } // They are dropped here.
///
/// // Only one writer can, and alone.
/// let mut price = lock.write().await?;
/// *price += 1;
/// println!("{} from writer {}", *price, RwLockWriteGuard::lease(&price).fencing_token());
/// # Ok(())
/// # }
/// ```
pub struct RwLock<T: ?Sized, C = Convertible> {
    core: Core,
    /// The data is free whenever the engine grants the lock, except for a moment in which `Debug` reads it. Only
    /// owned guards share this `Arc`. They also keep the `Arc` of the lock, and drop that `Arc` later.
    data: Arc<tokio::sync::RwLock<T>>,
    conversion: PhantomData<C>,
}

/// The part of a lock that does not depend on the type of its data.
#[derive(Clone)]
struct Core {
    lock: BareLock,
    /// `None` if there is no maximum of readers.
    quota: Option<Quota>,
}

impl<T: ?Sized, C> RwLock<T, C> {
    fn new(lock: BareLock, data: Arc<tokio::sync::RwLock<T>>, quota: Option<Quota>) -> Self {
        Self { core: Core { lock, quota }, data, conversion: PhantomData }
    }

    /// Sets how long this process hands the lock off among its own tasks while other processes
    /// wait.
    ///
    /// This setting replaces the setting of the [`Locks`](crate::Locks) for the guards of this lock: the setting
    /// of the guard that gives the lock up decides. With every setting, no reader joins the present readers once
    /// another process waits.
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff) -> Self
    where
        T: Sized,
    {
        self.core.lock = self.core.lock.with_handoff(handoff);
        self
    }

    /// Keeps the lease for up to `idle` after the last guard, so that the next guard costs no round trip.
    ///
    /// [`Mutex::with_cache`](crate::Mutex::with_cache) says what the cache costs, and what it needs. A reader can
    /// enter with the lease of an earlier reader or writer. A writer can enter only with the lease of an earlier
    /// writer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let index = locks.rwlock("index", 0)?.with_cache(Duration::from_secs(1));
    /// *index.write().await? += 1;
    /// assert!(index.is_cached() && !index.is_held());
    ///
    /// assert_eq!(*index.read().await?, 1); // no request to the store
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_cache(mut self, idle: Duration) -> Self
    where
        T: Sized,
    {
        self.core.lock = self.core.lock.with_cache(idle);
        self
    }

    crate::options::options!("of this lock", "locks.rwlock(\"report\", 0)?", |this, change| {
        this.core.lock = this.core.lock.clone().with_policy(change)
    }, T: Sized);

    /// Whether a guard of this process holds the lock now, to read or to write. The call sends no request.
    ///
    /// The answer says nothing about other processes. A guard with a lost lease does not count.
    pub fn is_held(&self) -> bool {
        self.core.lock.is_held()
    }

    /// Whether this process keeps the lease although no guard holds the lock: see
    /// [`with_cache`](Self::with_cache).
    pub fn is_cached(&self) -> bool {
        self.core.lock.is_cached()
    }

    /// The name of the lock.
    pub fn key(&self) -> &Key {
        self.core.lock.key()
    }

    /// The value, without locking: `&mut self` proves that no guard of this process exists.
    ///
    /// Other processes may hold the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_sync::{Locks, MemoryBackend};
    ///
    /// let locks = Locks::new(MemoryBackend::new());
    /// let mut stock = locks.rwlock("stock/apples", 3)?;
    /// *stock.get_mut() += 1;
    /// assert_eq!(stock.key().as_bytes(), b"stock/apples");
    /// assert_eq!(stock.into_inner(), 4);
    /// # Ok::<(), lock_sync::Error>(())
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        Arc::get_mut(&mut self.data).expect("guards keep the lock borrowed or alive").get_mut()
    }

    /// Takes the value out. This does not affect other processes.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        Arc::into_inner(self.data).expect("guards keep the lock borrowed or alive").into_inner()
    }

    /// Returns the lock without upgradable reads. A lock over any backend can have this type.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Fixed, SharedBackend, memory::MemoryBackend};
    /// use lock_sync::{Locks, RwLock};
    ///
    /// /// Works over every backend that can share a lease.
    /// fn prices<B: SharedBackend>(locks: &Locks<B>) -> lock_core::Result<RwLock<u32, Fixed>> {
    ///     Ok(locks.rwlock("prices", 5)?.without_upgrades())
    /// }
    ///
    /// assert!(prices(&Locks::new(MemoryBackend::new())).is_ok());
    /// ```
    #[must_use]
    pub fn without_upgrades(self) -> RwLock<T, Fixed>
    where
        T: Sized,
    {
        RwLock { core: self.core, data: self.data, conversion: PhantomData }
    }

    fn default_wait(&self) -> Wait {
        self.core.lock.default_wait()
    }
}

/// Shows what this process knows, without asking the store.
impl<T: ?Sized + fmt::Debug, C> fmt::Debug for RwLock<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RwLock");
        debug.field("key", self.key());
        match self.data.try_read() {
            Ok(data) => debug.field("data", &&*data),
            Err(_) => debug.field("data", &format_args!("<locked>")),
        };
        debug.finish()
    }
}
