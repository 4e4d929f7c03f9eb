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

/// An asynchronous mutex, as [`tokio::sync::Mutex`] is one, that excludes other processes as well.
///
/// It is made by [`Locks::mutex`](crate::Locks::mutex), which gives it a name: everything of that
/// name, in any process that uses the same store, is one lock. The value inside is this process's
/// own, and is reached through the guard like tokio's.
///
/// # What the guard means
///
/// A guard is a *lease*: the store takes the lock back unless the lease is renewed, which the driver
/// does in the background for as long as the guard lives. If that fails, because the store is out of
/// reach, forgot the lock, or this process was stopped, the lease is lost although the guard is there.
/// The guard tells: [`is_valid`](MutexGuard::is_valid) by the clock, without any I/O;
/// [`lost`](MutexGuard::lost) as a future; [`scope`](MutexGuard::scope) by cancelling the work.
/// `&mut T` stays sound even then, because whoever is next in this process waits until the lost guard
/// is dropped; other processes do not.
///
/// A process can be stopped between the check and the write. What must survive that checks
/// [`fencing_token`](MutexGuard::fencing_token) where it is written.
///
/// # Order
///
/// Tasks of one process are served in exactly the order in which they first polled, as tokio's are.
/// Processes stand in the store's queue, one place each, in the order in which they came; how long a
/// turn is when others wait is said by [`Handoff`](crate::Handoff). Over a store without a queue,
/// whoever asks at the right moment is next. Who is first here asks the store, and the others wait for
/// the answer: a future that has begun and is then left unpolled holds them up, as
/// one of tokio's does that was given the lock.
///
/// # Differences from `tokio::sync::Mutex`
///
/// - It is made by [`Locks::mutex`](crate::Locks::mutex). There is no `new`, `const_new`, `Default`
///   or `From<T>`, because a lock needs a name and a store.
/// - `lock` and its siblings return a `Result`, and `try_lock` is `async`: both may ask the store.
/// - Releasing on drop is *enqueued*: see [`MutexGuard`].
/// - `Arc<Mutex<T>>` does not coerce to `Arc<Mutex<dyn Trait>>`; see
///   [`Locks::mutex_from_boxed`](crate::Locks::mutex_from_boxed).
/// - Additional: [`lock_timeout`](Self::lock_timeout), [`key`](Self::key), and the guards' lease, whose
///   methods hide those of the same name of the data: `(*guard).key()` reaches the data's.
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
    /// Free whenever the engine grants, but for a moment in which `Debug` looks at it. Shared only with
    /// owned guards, which keep the `Arc` of the mutex as well and drop it later.
    data: Arc<tokio::sync::Mutex<T>>,
}

impl<B: ?Sized> Locks<B> {
    /// The mutex with this name, around a value of this process.
    ///
    /// The value is local: the lock is what processes share. Two mutexes of one name exclude each
    /// other but have a value each; wrap one in an `Arc` to share its value between tasks.
    ///
    /// Nothing is sent until somebody locks it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if the name, with the [prefix](crate::Builder::prefix), is too long.
    pub fn mutex<T, K>(&self, name: K, value: T) -> Result<Mutex<T>, Error>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        Ok(Mutex::new(self.bare_lock(name)?, Arc::new(tokio::sync::Mutex::new(value))))
    }

    /// The mutex with this name, around a value that may be unsized.
    ///
    /// A [`Mutex`] does not coerce to one of a trait object by itself; a boxed
    /// `tokio` mutex does:
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

    /// Says how far this lock is passed on inside the process while others wait elsewhere, in place of
    /// what its [`Locks`](crate::Locks) say.
    ///
    /// It holds for guards of this mutex: whoever lets go decides.
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

    /// Keeps the lease for up to `idle` after the last guard, so that the next one costs no round trip.
    ///
    /// The lease is renewed meanwhile, and every guard still gets a fencing token of its own. It is
    /// given up as soon as another process wants it, which the store says; when it has been idle for
    /// that long; at [`shutdown`](crate::Locks::shutdown); and with the mutex. Over a store that
    /// cannot say who wants it (one without a queue) it is not kept.
    ///
    /// A lease that is kept is noticed to be lost no later than one that is held. But a process that
    /// is stopped while it keeps one makes the others wait for the end of the lease, where otherwise
    /// the lock would be free. And who does not stand in the store's queue (another library, `try_lock`,
    /// a client that may not subscribe) cannot make itself heard: it waits until the lease has been idle
    /// for that long, or is given back after it has been here for a third of its
    /// [`ttl`](crate::Builder::ttl), which happens with the guard that is dropped next. Use it for locks
    /// that are taken again and again, by processes of this library.
    ///
    /// Needs [renewal](crate::Builder::renewal), without which nothing is kept.
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

    /// Whether a guard of this process holds the lock now. Asks nobody.
    ///
    /// Of other processes it says nothing, and a guard whose lease was lost does not count.
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

    /// The value, without locking: no guard of this process can exist.
    ///
    /// It says nothing about other processes.
    pub fn get_mut(&mut self) -> &mut T {
        Arc::get_mut(&mut self.data).expect("guards keep the mutex borrowed or alive").get_mut()
    }

    /// Takes the value out. Other processes are not affected.
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
