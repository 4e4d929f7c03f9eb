//! A reader-writer lock that holds across processes.

#![allow(clippy::result_large_err, reason = "an error that gives a guard back is larger than that")]

mod access;
mod mapped_write_guard;
mod owned_mapped_write_guard;
mod owned_read_guard;
mod owned_upgradable_guard;
mod owned_write_guard;
mod read;
mod read_guard;
mod seats;
mod upgradable;
mod upgradable_guard;
mod upgrade;
mod write;
mod write_guard;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Key, SharedBackend};

pub use mapped_write_guard::RwLockMappedWriteGuard;
pub use owned_mapped_write_guard::OwnedRwLockMappedWriteGuard;
pub use owned_read_guard::OwnedRwLockReadGuard;
pub use owned_upgradable_guard::OwnedRwLockUpgradableReadGuard;
pub use owned_write_guard::OwnedRwLockWriteGuard;
pub use read::{Read, ReadOwned};
pub use read_guard::RwLockReadGuard;
pub use upgradable::{UpgradableRead, UpgradableReadOwned};
pub use upgradable_guard::RwLockUpgradableReadGuard;
pub use upgrade::{Upgrade, UpgradeError, UpgradeOwned};
pub use write::{Write, WriteOwned};
pub use write_guard::RwLockWriteGuard;

use crate::engine::{Entry, Manner, Wait};
use crate::handoff::Handoff;
use crate::locks::Locks;
use seats::Seats;

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
pub struct RwLock<T: ?Sized> {
    core: Core,
    /// Free whenever the engine grants, but for a moment in which `Debug` looks at it. Shared only with
    /// owned guards, which keep the `Arc` of the lock as well and drop it later.
    data: Arc<tokio::sync::RwLock<T>>,
}

/// What of a lock does not depend on its data.
#[derive(Clone)]
struct Core {
    entry: Arc<Entry>,
    manner: Manner,
    /// `None` if there is no maximum of readers.
    seats: Option<Seats>,
}

impl<B: ?Sized> Locks<B> {
    /// The reader-writer lock with this name, around a value of this process.
    ///
    /// The value is local: the lock is what processes share. Two locks of one name exclude each other
    /// but have a value each; wrap one in an `Arc` to share its value between tasks. A name is one kind of
    /// lock at a time: while a [`Mutex`](crate::Mutex) of the same name is held, it counts as a writer.
    ///
    /// Nothing is sent until somebody reads or writes.
    ///
    /// # Errors
    ///
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
    /// let config = locks.rwlock("config", String::from("colour=green"))?;
    /// assert_eq!(*config.read().await?, "colour=green");
    /// # Ok(())
    /// # }
    /// ```
    pub fn rwlock<T, K>(&self, name: K, value: T) -> Result<RwLock<T>, Error>
    where
        B: SharedBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        Ok(RwLock::new(self.entry(name)?, Arc::new(tokio::sync::RwLock::new(value)), None))
    }

    /// The reader-writer lock with this name, of which at most `max_readers` are held at once through
    /// this handle.
    ///
    /// As `tokio::sync::RwLock::with_max_readers`, it bounds the readers of this handle: not those of
    /// other processes, nor those of another lock of the same name here. Whoever waits for the lock counts,
    /// and so do writers: everybody enters through one line, in the order in which they came. A
    /// [`shutdown`](crate::Locks::shutdown) is noticed by those who wait at the maximum when their turn
    /// comes.
    ///
    /// # Errors
    ///
    /// As [`rwlock`](Self::rwlock), and
    /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) where tokio's panics: if
    /// `max_readers` is zero or more than `u32::MAX >> 3`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock_with_max_readers("report", (), 1)?;
    /// let reading = lock.read().await?;
    /// assert!(lock.try_read().await.is_err());
    /// # drop(reading);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rwlock_with_max_readers<T, K>(
        &self,
        name: K,
        value: T,
        max_readers: u32,
    ) -> Result<RwLock<T>, Error>
    where
        B: SharedBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let seats = Seats::new(max_readers)?;
        let data = Arc::new(tokio::sync::RwLock::new(value));
        Ok(RwLock::new(self.entry(name)?, data, Some(seats)))
    }

    /// The reader-writer lock with this name, around a value that may be unsized.
    ///
    /// An [`RwLock`] does not coerce to one of a trait object by itself; a boxed `tokio` lock does. It is
    /// to be made by its `new`: a lock with a maximum of readers of its own would keep tasks busy that wait
    /// for it.
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, RwLock};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let numbers: Box<tokio::sync::RwLock<[u32]>> = Box::new(tokio::sync::RwLock::new([1, 2]));
    /// let lock: RwLock<[u32]> = locks.rwlock_from_boxed("numbers", numbers)?;
    /// assert_eq!(lock.read().await?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`rwlock`](Self::rwlock).
    pub fn rwlock_from_boxed<T, K>(
        &self,
        name: K,
        value: Box<tokio::sync::RwLock<T>>,
    ) -> Result<RwLock<T>, Error>
    where
        B: SharedBackend,
        T: ?Sized,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        Ok(RwLock::new(self.entry(name)?, Arc::from(value), None))
    }
}

impl<T: ?Sized> RwLock<T> {
    fn new(entry: Arc<Entry>, data: Arc<tokio::sync::RwLock<T>>, seats: Option<Seats>) -> Self {
        let manner = entry.shared().manner;
        Self { core: Core { entry, manner, seats }, data }
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
        self.core.manner.handoff = handoff;
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
        self.core.manner.cache = Some(idle);
        self
    }

    /// Whether a guard of this process holds the lock now, to read or to write. Asks nobody.
    ///
    /// Of other processes it says nothing, and a guard whose lease was lost does not count.
    pub fn is_held(&self) -> bool {
        self.core.entry.is_held()
    }

    /// Whether this process keeps the lease although no guard holds the lock: see
    /// [`with_cache`](Self::with_cache).
    pub fn is_cached(&self) -> bool {
        self.core.entry.is_cached()
    }

    /// The name of the lock.
    pub fn key(&self) -> &Key {
        self.core.entry.key()
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

    fn default_wait(&self) -> Wait {
        self.core.entry.shared().default_wait()
    }
}

/// Shows what this process knows, without asking the store.
impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
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
