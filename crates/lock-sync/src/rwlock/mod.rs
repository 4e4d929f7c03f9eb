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

/// An asynchronous reader-writer lock, as [`tokio::sync::RwLock`] is one, that holds across processes.
///
/// Any number of readers have it together, or one writer has it alone; no matter in which process, of
/// all that use the same store. It is made by [`Locks::rwlock`](crate::Locks::rwlock), which gives it a
/// name: everything of that name is one lock. The value inside is this process's own, and is reached
/// through the guards like tokio's.
///
/// What a guard means, and what happens when its lease is lost, is said at
/// [`Mutex`](crate::Mutex#what-the-guard-means), and holds for every reader as for a writer.
///
/// # Order
///
/// The lock is *fair* (or *write-preferring*), as tokio's is: it is given out in the order in which it
/// was asked for, and a reader who comes after a writer who waits is served after that writer, although
/// there are only readers who hold the lock. Readers who stand next to one another in line enter together.
/// An upgrade goes before everybody in line.
///
/// Within a process that order is the one in which the futures were first polled. Processes stand in
/// the store's queue, in the order in which they came; there, too, a writer who waits holds back the
/// readers who came later. How far a process whose turn it is may pass the lock on to its own waiters
/// first is said by [`Handoff`]; with [`Handoff::Fair`] it is not at all. A waiter that dies holds nobody up
/// beyond its place in that queue, a reader or writer that dies nobody beyond its lease, and no process's
/// lease depends on another's.
///
/// # Readers of one process
///
/// share one lease of the store: a reader who comes while others of its process have the lock enters without
/// a request. That ends when somebody elsewhere waits for the lock: then those who come later wait, so that
/// the writer's turn comes when the readers that are there have left.
///
/// # Upgrading
///
/// Two readers who both wait to write wait for one another. So a reader that may have to write
/// says so beforehand, with [`upgradable_read`](Self::upgradable_read): there is one such at a time,
/// beside any number of others, and it can become the writer with nobody in between. tokio's lock does
/// not have that; `async-lock`'s does.
///
/// # Backends that do not convert a lease
///
/// Most stores can make a lease weaker or stronger: they implement
/// [`ConvertBackend`](lock_core::ConvertBackend). Others, as a quorum, cannot. The second type parameter says
/// which it is: [`Convertible`], the default, or [`Fixed`]. Over a backend of the second kind
///
/// - [`upgradable_read`](Self::upgradable_read) does not compile;
/// - a [`downgrade`](RwLockWriteGuard::downgrade) admits the readers of this process at once, as everywhere, and
///   keeps the lease exclusive. Readers of other processes wait until the last reader here has let go. So that
///   they have their turn, no more readers join once another process is known to wait, or a second after the
///   downgrade.
///
/// [`without_upgrades`](Self::without_upgrades) gives a lock over any backend the second type.
///
/// # Deadlocks
///
/// As with tokio's lock, a task that holds a read lock must not wait for another one:
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
/// Nor must it wait for [`write`](Self::write) while it reads; it waits for itself. A lease does not help:
/// it is renewed for as long as the guard is there. A [wait limit](crate::Builder::wait_limit) or
/// [`read_timeout`](Self::read_timeout) ends such a wait with an error.
///
/// # Differences from `tokio::sync::RwLock`
///
/// - It is made by [`Locks::rwlock`](crate::Locks::rwlock) or
///   [`rwlock_with_max_readers`](crate::Locks::rwlock_with_max_readers). There is no `new`, `const_new`,
///   `Default` or `From<T>`, because a lock needs a name and a store.
/// - `read`, `write` and their siblings return a `Result`; `try_read` and `try_write` are `async`: all of
///   them may ask the store.
/// - Releasing on drop is *enqueued*: see [`RwLockWriteGuard`].
/// - `Arc<RwLock<T>>` does not coerce to `Arc<RwLock<dyn Trait>>`; see
///   [`Locks::rwlock_from_boxed`](crate::Locks::rwlock_from_boxed).
/// - It is `Send` if `T` is `Send` *and* `Sync`, where tokio's needs `Send` alone. (Without `Sync` neither
///   could be shared; only an unshared one could be moved.)
/// - Additional: upgradable reads, `*_timeout`, `blocking_*_owned`, [`key`](Self::key), and the guards'
///   lease, whose methods hide those of the same name of the data: `(*guard).key()` reaches the data's.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::Locks;
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
/// println!("{} from writer {}", *price, price.fencing_token());
/// # Ok(())
/// # }
/// ```
pub struct RwLock<T: ?Sized, C = Convertible> {
    core: Core,
    /// Free whenever the engine grants, but for a moment in which `Debug` looks at it. Shared only with
    /// owned guards, which keep the `Arc` of the lock as well and drop it later.
    data: Arc<tokio::sync::RwLock<T>>,
    conversion: PhantomData<C>,
}

/// What of a lock does not depend on its data.
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

    /// Says how far this lock is passed on inside the process while others wait elsewhere, in place of
    /// what its [`Locks`](crate::Locks) say.
    ///
    /// It holds for guards of this lock: whoever lets go decides. While readers have the lock nobody joins
    /// them once others wait elsewhere, whatever it says.
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff) -> Self
    where
        T: Sized,
    {
        self.core.lock = self.core.lock.with_handoff(handoff);
        self
    }

    /// Keeps the lease for up to `idle` after the last guard, so that the next one costs no round trip.
    ///
    /// What that means for others, and what it needs, is said at
    /// [`Mutex::with_cache`](crate::Mutex::with_cache). The lease that the last guard left serves
    /// whoever can enter with it: a reader both a reader's and a writer's, a writer only a writer's.
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

    /// Whether a guard of this process holds the lock now, to read or to write. Asks nobody.
    ///
    /// Of other processes it says nothing, and a guard whose lease was lost does not count.
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

    /// The value, without locking: no guard of this process can exist.
    ///
    /// It says nothing about other processes.
    pub fn get_mut(&mut self) -> &mut T {
        Arc::get_mut(&mut self.data).expect("guards keep the lock borrowed or alive").get_mut()
    }

    /// Takes the value out. Other processes are not affected.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        Arc::into_inner(self.data).expect("guards keep the lock borrowed or alive").into_inner()
    }

    /// The lock without its upgradable reads: the type that it has over every backend.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Fixed, SharedBackend, memory::MemoryBackend};
    /// use lock_sync::{Locks, RwLock};
    ///
    /// /// Works over every backend that knows readers from writers.
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
