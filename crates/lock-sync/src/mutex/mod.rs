//! A mutual exclusion primitive that holds across processes.

mod guard;
mod lock;
mod mapped;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Key};

pub use guard::{MutexGuard, OwnedMutexGuard};
pub use lock::{Lock, LockOwned};
pub use mapped::{MappedMutexGuard, OwnedMappedMutexGuard};

use crate::bare::{BareLock, Wait};
use crate::handoff::Handoff;
use crate::locks::Locks;
use crate::options::options;

/// An asynchronous mutex like [`tokio::sync::Mutex`] that excludes other processes as well.
///
/// [`Locks::mutex`](crate::Locks::mutex) makes a mutex and gives it a name. All mutexes with one name, in
/// all processes that use one store, are one lock. The value inside belongs to this process. The guard
/// gives access to the value, as with tokio.
///
/// # What the guard means
///
/// A guard has a *lease*: if nothing renews the lease, the store takes the lock back. The driver renews the
/// lease in the background as long as the guard lives. Renewal fails if the store is out of reach, if the store
/// has forgotten the lock, or if this process stands still. Then the lease is lost although the guard still
/// exists. The [`Lease`](crate::Lease) that [`MutexGuard::lease`] returns reports the loss in three ways:
/// [`is_valid`](crate::Lease::is_valid) compares the deadline with the clock, without any I/O;
/// [`lost`](crate::Lease::lost) is a future; [`while_held`](crate::Lease::while_held) cancels the work. `&mut
/// T` stays sound even then: the next waiter of this process waits until the guard with the lost lease is
/// dropped. Other processes do not wait for this drop.
///
/// A process may stand still between the check and the write. To be safe from such a late write, a resource
/// compares the [`fencing_token`](crate::Lease::fencing_token) with each write.
///
/// # Order
///
/// The tasks of one process get the lock in the order in which their futures were first polled, as with tokio.
/// Each process has one place in the queue of the store, and the processes get the lock in the order of their
/// places. [`Handoff`](crate::Handoff) says how long the turn of a process lasts while other processes wait. A
/// store without a queue gives the lock to the process that asks at the right moment.
///
/// The first waiter of a process asks the store, and the other waiters wait for the answer. So a future that was
/// polled once, and then never again, holds up the other waiters. (With tokio, such a future does so, too, once
/// it has the lock.)
///
/// # Differences from `tokio::sync::Mutex`
///
/// - [`Locks::mutex`](crate::Locks::mutex) makes it. There is no `new`, `const_new`, `Default`
///   or `From<T>`, because a lock needs a name and a store.
/// - `lock` and its siblings return a `Result`, and `try_lock` is `async`: both may ask the store.
/// - Dropping a guard *enqueues* the release: see [`MutexGuard`].
/// - `Arc<Mutex<T>>` does not coerce to `Arc<Mutex<dyn Trait>>`; see
///   [`Locks::mutex_from_boxed`](crate::Locks::mutex_from_boxed).
/// - Additional: [`lock_timeout`](Self::lock_timeout), [`key`](Self::key), and the functions
///   [`lease`](MutexGuard::lease) and [`release`](MutexGuard::release) of the guard. These two are not methods, so
///   they hide no method of the data.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::Locks;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let visits = Arc::new(locks.mutex("visits", 0)?);
///
/// let mut tasks = Vec::new();
/// for _ in 0..10 {
///     let visits = Arc::clone(&visits);
///     tasks.push(tokio::spawn(async move {
///         *visits.lock().await? += 1;
///         Ok::<_, lock_sync::LockError>(())
///     }));
/// }
/// for task in tasks {
///     task.await??;
/// }
/// assert_eq!(*visits.lock().await?, 10);
/// # Ok(())
/// # }
/// ```
pub struct Mutex<T: ?Sized> {
    lock: BareLock,
    /// The data is free whenever the engine grants the lock, except for a moment in which `Debug` reads it. Only
    /// owned guards share this `Arc`. They also keep the `Arc` of the mutex, and drop that `Arc` later.
    data: Arc<tokio::sync::Mutex<T>>,
}

impl<B: ?Sized> Locks<B> {
    /// Makes the mutex with this name, around a value of this process.
    ///
    /// The value is local: processes share the lock, but not the value. Two mutexes with one name exclude
    /// each other, and each has its own value. To share the value between tasks, wrap one mutex in an
    /// `Arc`.
    ///
    /// The call sends no request. The first call that locks the mutex does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if the name, with the
    /// [prefix](crate::Builder::prefix), is too long.
    pub fn mutex<T, K>(&self, name: K, value: T) -> Result<Mutex<T>, Error>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        Ok(Mutex::new(self.bare_lock(name)?, Arc::new(tokio::sync::Mutex::new(value))))
    }

    /// Makes the mutex with this name, around a value that may be unsized.
    ///
    /// A [`Mutex`] does not coerce to a mutex around a trait object. A boxed `tokio` mutex does:
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, Mutex};
    /// # fn main() -> Result<(), lock_core::Error> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let hello: Box<tokio::sync::Mutex<dyn Fn() -> u32 + Send>> =
    ///     Box::new(tokio::sync::Mutex::new(|| 42));
    /// let mutex: Mutex<dyn Fn() -> u32 + Send> = locks.mutex_from_boxed("hello", hello)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`mutex`](Self::mutex).
    pub fn mutex_from_boxed<T, K>(
        &self,
        name: K,
        value: Box<tokio::sync::Mutex<T>>,
    ) -> Result<Mutex<T>, Error>
    where
        T: ?Sized,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        Ok(Mutex::new(self.bare_lock(name)?, Arc::from(value)))
    }
}

impl<T: ?Sized> Mutex<T> {
    fn new(lock: BareLock, data: Arc<tokio::sync::Mutex<T>>) -> Self {
        Self { lock, data }
    }

    /// Sets how long this process hands the lock off among its own tasks while other processes
    /// wait.
    ///
    /// This setting replaces the setting of the [`Locks`](crate::Locks) for the guards of this mutex: the setting
    /// of the guard that gives the lock up decides.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Handoff, Locks};
    /// # fn main() -> Result<(), lock_core::Error> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let turnstile = locks.mutex("turnstile", ())?.with_handoff(Handoff::Fair);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff) -> Self
    where
        T: Sized,
    {
        self.lock = self.lock.with_handoff(handoff);
        self
    }

    /// Keeps the lease for up to `idle` after the last guard, so that the next guard costs no round trip.
    ///
    /// Meanwhile the driver renews the lease, and every guard still gets a fencing token of its own.
    /// [`MutexGuard::release`] keeps the lease as well: it returns without a request to the store. The process gives
    /// the lease up
    ///
    /// - as soon as the store says that another process wants it;
    /// - after it has been idle for `idle`;
    /// - at [`shutdown`](crate::Locks::shutdown);
    /// - when the mutex is dropped.
    ///
    /// A store without a queue cannot say that another process wants the lease. Over such a store the process
    /// keeps no lease.
    ///
    /// The process notices the loss of a cached lease as early as the loss of any other lease. The cache has two
    /// costs. If the process stands still or dies while it keeps the lease, waiters wait for the end of the lease;
    /// without the cache the lock would be free. And the process does not hear of clients without a place in the
    /// queue (another library, `try_lock`, a client without the right to subscribe). Such a client waits until the
    /// lease has been idle for `idle`, or until the first guard is dropped after the process has had the lease for a
    /// third of its [`ttl`](crate::Builder::ttl): that guard gives the lease back. Use the cache for locks that
    /// processes of this library take again and again.
    ///
    /// The cache needs [renewal](crate::Builder::renewal). Without renewal, the process keeps no
    /// lease.
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
    /// let index = locks.mutex("index", 0)?.with_cache(Duration::from_secs(1));
    /// *index.lock().await? += 1;
    /// assert!(index.is_cached() && !index.is_held());
    ///
    /// *index.lock().await? += 1; // no request to the store
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_cache(mut self, idle: Duration) -> Self
    where
        T: Sized,
    {
        self.lock = self.lock.with_cache(idle);
        self
    }

    options!("of this mutex", "locks.mutex(\"report\", 0)?", |this, change| {
        this.lock = this.lock.clone().with_policy(change)
    }, T: Sized);

    /// Whether a guard of this process holds the lock now. The call sends no request.
    ///
    /// The answer says nothing about other processes. A guard with a lost lease does not count.
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }

    /// Whether this process keeps the lease although no guard holds the lock: see
    /// [`with_cache`](Self::with_cache).
    pub fn is_cached(&self) -> bool {
        self.lock.is_cached()
    }

    /// The name of the lock.
    pub fn key(&self) -> &Key {
        self.lock.key()
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
    /// let mut stock = locks.mutex("stock/apples", 3)?;
    /// *stock.get_mut() += 1;
    /// assert_eq!(stock.key().as_bytes(), b"stock/apples");
    /// assert_eq!(stock.into_inner(), 4);
    /// # Ok::<(), lock_sync::Error>(())
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        Arc::get_mut(&mut self.data).expect("guards keep the mutex borrowed or alive").get_mut()
    }

    /// Takes the value out. This does not affect other processes.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        Arc::into_inner(self.data).expect("guards keep the mutex borrowed or alive").into_inner()
    }

    fn default_wait(&self) -> Wait {
        self.lock.default_wait()
    }
}

/// Shows what this process knows, without asking the store.
impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        debug.field("key", self.key());
        match self.data.try_lock() {
            Ok(data) if !self.lock.is_held() => debug.field("data", &&*data),
            _ => debug.field("data", &format_args!("<locked>")),
        };
        debug.finish()
    }
}
