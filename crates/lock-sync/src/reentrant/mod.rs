//! A mutex that its owner may lock again.

mod error;
mod guard;
mod lock;
mod owner;
mod reentry;
mod scope;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, JointBackend, Key};

pub use error::{ReentrantLockError, TryReentrantLockError};
pub use guard::{OwnerGuard, ReentrantGuard};
pub use lock::{LockAs, ReentrantLock};
pub use owner::{Owner, ParseOwnerError};
pub use reentry::Reentry;
pub use scope::{OwnerScope, current_owner, owner_scope, owner_scope_sync};

use crate::Locks;
use crate::blocking::assert_may_block;
use crate::engine::{Entry, Wait};

/// A mutex that holds across processes, and that whoever holds it may lock again.
///
/// It is made by [`Locks::reentrant_mutex`], which gives it a name. It is for code that locks what its
/// caller may have locked already. Where the guard can be handed down instead, do that:
/// [`MutexGuard::reenter`](crate::MutexGuard::reenter) on an ordinary [`Mutex`](crate::Mutex) gives it a
/// name, and the compiler checks it.
///
/// # Who holds it
///
/// An [`Owner`], not a task: tasks have no identity that would tell a nested call from another branch of
/// a `join!`. There are two ways to say who it is:
///
/// - [`lock_as`](Self::lock_as) is given the owner. It borrows it mutably, and the
///   [guard](OwnerGuard::split) lends it on, so that the compiler sees which calls are nested.
/// - [`lock`](Self::lock) takes the owner of the [`owner_scope`](crate::owner_scope) that it runs in, and
///   fails outside one. Nothing is handed down, and the branches of a `join!` in one scope are one owner.
///
/// An owner that holds the lock enters again at once, without asking the store and before everybody who
/// waits, with the same fencing token. The lock is given up when the last of its guards goes, in whatever
/// order. An owner can be [sent to another process](Owner#handing-it-to-another-process), which then
/// enters beside the first: the store counts them, and the lock is free when both have let go. The first
/// entry from another process asks the store.
///
/// # The data
///
/// Two guards of one owner reach it at once, so they give `&T` and not `&mut T`. What is to be changed
/// goes into a `Cell`, a `RefCell` or a mutex of the standard library inside.
///
/// # If the lease is lost
///
/// Every guard of the owner in this process tells. Locking again fails with
/// [`ReentrantLockError::Lost`] for as long as one of them is there, because what the outer calls began
/// under the lock is not protected any more.
///
/// # Examples
///
/// ```
/// use std::sync::Mutex;
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, owner_scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let tree = locks.reentrant_mutex("tree", Mutex::new(vec!["root"]))?;
///
/// owner_scope(async {
///     let outer = tree.lock().await?;
///     let inner = tree.lock().await?; // no request, no waiting
///     assert_eq!(inner.fencing_token(), outer.fencing_token());
///     inner.lock().expect("nobody panicked").push("leaf");
///     Ok::<_, lock_sync::ReentrantLockError>(())
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// It coerces to a mutex of a trait object:
///
/// ```
/// # use std::sync::Arc;
/// # use lock_core::memory::MemoryBackend;
/// # use lock_sync::{Locks, ReentrantMutex};
/// # fn main() -> Result<(), lock_core::Error> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let answer: Arc<ReentrantMutex<dyn Fn() -> u32 + Send + Sync>> =
///     Arc::new(locks.reentrant_mutex("answer", || 42)?);
/// # Ok(())
/// # }
/// ```
pub struct ReentrantMutex<T: ?Sized> {
    entry: Arc<Entry>,
    data: T,
}

impl<B: ?Sized> Locks<B> {
    /// The reentrant mutex with this name, around a value of this process.
    ///
    /// The value is local, as that of a [`mutex`](Self::mutex) is. Nothing is sent until somebody locks
    /// it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind) if the name, with the
    /// [prefix](crate::Builder::prefix), is too long.
    pub fn reentrant_mutex<T, K>(&self, name: K, value: T) -> Result<ReentrantMutex<T>, Error>
    where
        // Here, and not on the block, so that a backend that lacks it is told how to get it.
        B: JointBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        Ok(ReentrantMutex { entry: self.entry(name)?, data: value })
    }
}

impl<T: ?Sized> ReentrantMutex<T> {
    /// The name of the lock.
    pub fn key(&self) -> &Key {
        self.entry.key()
    }

    /// Whether a guard of this process holds the lock now. Asks nobody.
    ///
    /// Of other processes it says nothing, and a guard whose lease was lost does not count.
    pub fn is_held(&self) -> bool {
        self.entry.is_held()
    }

    /// Locks in the name of an owner: at once if it holds the lock already, else waiting until the lock is
    /// free here and everywhere.
    ///
    /// The guard keeps the owner; [`split`](OwnerGuard::split) lends it to whoever is called next. Waits
    /// for as long as the [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) says.
    ///
    /// # Cancel safety
    ///
    /// Each owner has a place of its own in the store's queue. Dropping the future gives it up, and
    /// whatever it has asked of the store by then is undone in the background. Other guards of the owner
    /// are not touched.
    ///
    /// # If the lease is lost
    ///
    /// While a guard of this owner whose lease was lost is still there, it cannot lock again.
    ///
    /// # Errors
    ///
    /// - [`ReentrantLockError::Lost`] if this owner has lost the lock and does not know it yet;
    /// - [`ReentrantLockError::Timeout`] if the wait limit was reached;
    /// - [`ReentrantLockError::Backend`] if the store refused or could not be reached for longer than a
    ///   lease lives, and there is no limit that says to wait longer;
    /// - [`ReentrantLockError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, Owner};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.reentrant_mutex("account/7", ())?;
    /// let mut owner = Owner::new()?;
    /// let mut outer = mutex.lock_as(&mut owner).await?;
    ///
    /// let (_data, owner) = outer.split();
    /// let inner = mutex.lock_as(owner).await?;
    /// assert!(inner.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An owner is in one place at a time:
    ///
    /// ```compile_fail,E0499
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, Owner};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// # let mutex = locks.reentrant_mutex("account/7", ())?;
    /// let mut owner = Owner::new()?;
    /// tokio::join!(mutex.lock_as(&mut owner), mutex.lock_as(&mut owner)); // does not compile
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_as<'a>(&'a self, owner: &'a mut Owner) -> LockAs<'a, T> {
        LockAs::new(self, owner, self.default_wait())
    }

    /// Locks in the name of an owner, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Errors
    ///
    /// As [`lock_as`](Self::lock_as).
    pub fn lock_as_timeout<'a>(&'a self, owner: &'a mut Owner, limit: Duration) -> LockAs<'a, T> {
        LockAs::new(self, owner, Wait::AtMost(limit))
    }

    /// Locks in the name of an owner if it holds the lock already or nobody does, without waiting for
    /// another one.
    ///
    /// Asks the store once unless it is known here.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Errors
    ///
    /// - [`TryReentrantLockError::WouldBlock`] if another owner holds the lock, or waits for it here;
    /// - [`TryReentrantLockError::Lost`] as [`lock_as`](Self::lock_as);
    /// - [`TryReentrantLockError::Backend`] if the store could not be asked;
    /// - [`TryReentrantLockError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    pub async fn try_lock_as<'a>(
        &'a self,
        owner: &'a mut Owner,
    ) -> Result<OwnerGuard<'a, T>, TryReentrantLockError> {
        Ok(LockAs::new(self, owner, Wait::Try).await?)
    }

    /// Locks in the name of an owner, from synchronous code.
    ///
    /// Needs no runtime of the caller's.
    ///
    /// # Errors
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as tokio's blocking functions do.
    /// `spawn_blocking` and `block_in_place` are none.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, Owner};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.reentrant_mutex("config", 1)?;
    /// let mut owner = Owner::new()?;
    /// assert_eq!(*mutex.blocking_lock_as(&mut owner)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking_lock_as<'a>(
        &'a self,
        owner: &'a mut Owner,
    ) -> Result<OwnerGuard<'a, T>, ReentrantLockError> {
        assert_may_block();
        self.lock_as(owner).block()
    }

    /// Locks in the name of the owner in whose [`owner_scope`](crate::owner_scope) it is first polled: at
    /// once if that holds the lock already, else waiting until the lock is free here and everywhere.
    ///
    /// Branches of a `join!` or `select!` in one scope are one owner, and do not exclude one another.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # If the lease is lost
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Errors
    ///
    /// - [`ReentrantLockError::NoOwnerScope`] outside a scope, as in a task that was spawned within one;
    /// - else as [`lock_as`](Self::lock_as).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, owner_scope};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.reentrant_mutex("ledger", ())?;
    /// owner_scope(async {
    ///     let outer = mutex.lock().await?;
    ///     let inner = mutex.lock().await?;
    ///     drop(outer); // still held: `inner` is there
    ///     assert!(inner.is_valid());
    ///     Ok::<_, lock_sync::ReentrantLockError>(())
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> ReentrantLock<'_, T> {
        ReentrantLock::new(self, self.default_wait())
    }

    /// Locks in the name of the owner of this scope, waiting for at most `limit` from the first poll on.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn lock_timeout(&self, limit: Duration) -> ReentrantLock<'_, T> {
        ReentrantLock::new(self, Wait::AtMost(limit))
    }

    /// Locks in the name of the owner of this scope if it holds the lock already or nobody does, without
    /// waiting for another one.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Errors
    ///
    /// [`TryReentrantLockError::NoOwnerScope`] outside a scope; else as
    /// [`try_lock_as`](Self::try_lock_as).
    pub async fn try_lock(&self) -> Result<ReentrantGuard<'_, T>, TryReentrantLockError> {
        Ok(ReentrantLock::new(self, Wait::Try).await?)
    }

    /// Locks in the name of the owner of this scope, from synchronous code in an
    /// [`owner_scope_sync`](crate::owner_scope_sync).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Panics
    ///
    /// As [`blocking_lock_as`](Self::blocking_lock_as).
    #[track_caller]
    pub fn blocking_lock(&self) -> Result<ReentrantGuard<'_, T>, ReentrantLockError> {
        assert_may_block();
        self.lock().block()
    }

    /// The value, without locking: no guard of this process can exist.
    ///
    /// It says nothing about other processes.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }

    /// Takes the value out. Other processes are not affected.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.data
    }

    fn default_wait(&self) -> Wait {
        self.entry.shared().default_wait()
    }
}

/// Shows what this process knows, without asking the store.
impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ReentrantMutex");
        debug.field("key", self.key());
        if self.entry.is_held() {
            debug.field("data", &format_args!("<locked>"));
        } else {
            debug.field("data", &&self.data);
        }
        debug.finish()
    }
}
