//! A mutex that its owner may lock again.

mod error;
mod guard;
mod lock;
mod owner;
mod passed;
mod reentry;
mod scope;

use std::fmt;

use lock_core::{Error, Key};

pub use guard::{OwnerGuard, ReentrantGuard};
pub use lock::{LockAs, ReentrantLock};
pub use owner::Owner;
pub use passed::{ParseOwnerError, PassedOwner};
pub use reentry::Reentry;
pub use scope::{OwnerScope, current_owner, owner_scope, owner_scope_sync};

use crate::Locks;
use crate::bare::{BareLock, Wait};
use crate::options::options;

/// A mutex that holds across processes, and that its owner may lock again.
///
/// [`Locks::reentrant_mutex`] makes a mutex and gives it a name. Use it for a function whose caller may have
/// locked the mutex already. If the caller can pass its guard to the function, use
/// [`MutexGuard::reenter`](crate::MutexGuard::reenter) on an ordinary [`Mutex`](crate::Mutex) instead: the
/// compiler then checks each nested entry.
///
/// # The owner
///
/// An [`Owner`] holds the lock, and not a task: within a task, a nested call and another branch of a `join!`
/// look alike. There are two ways to name the owner:
///
/// - [`lock_as`](Self::lock_as) takes the owner as an argument. The call borrows the owner mutably, and the
///   [guard](OwnerGuard::split) lends the owner to nested calls. So the compiler checks which calls are nested.
/// - [`lock`](Self::lock) uses the owner of the [`owner_scope`](crate::owner_scope) in which it runs, and
///   fails outside a scope. It needs no argument, and the branches of a `join!` in one scope are one owner.
///
/// An owner that holds the lock enters again at once, without a request to the store, before all waiters, and with
/// the fencing token that it has. The owner gives the lock up when its last guard is dropped. If the backend has
/// [joint holders](lock_core::JointBackend), an owner can be [sent to another
/// process](Owner#handing-it-to-another-process). Both processes then hold the lock jointly: the store counts them,
/// and the lock is free when both have given it up. The first entry from another process asks the store. Over any
/// other backend, an owner enters again in its own process only.
///
/// # The data
///
/// Several guards of one owner give access to the data at once, so they give `&T` and not `&mut T`. Put data
/// that changes into a `Cell`, a `RefCell` or a mutex of the standard library.
///
/// # If the lease is lost
///
/// Every guard of the owner in this process reports the loss. While one of these guards exists, locking again fails
/// with [`LockError::Lost`](crate::LockError::Lost), because the lock no longer protects the work that the outer calls
/// began.
///
/// # Other options
///
/// An owner enters again under the lease that it has, so all handles of one mutex in a process need the same options
/// ([`with_ttl`](Self::with_ttl) and its siblings). Through a handle with other options, an owner enters under a second
/// lease, as it does from another process. Where the store has no joint holders, the owner then waits for itself.
///
/// # Examples
///
/// ```
/// use std::sync::Mutex;
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, ReentrantGuard, owner_scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let tree = locks.reentrant_mutex("tree", Mutex::new(vec!["root"]))?;
///
/// owner_scope(async {
///     let outer = tree.lock().await?;
///     let inner = tree.lock().await?; // no request, no waiting
///     let token = |guard| ReentrantGuard::lease(guard).fencing_token();
///     assert_eq!(token(&inner), token(&outer));
///     inner.lock().expect("no holder panicked").push("leaf");
///     Ok::<_, lock_sync::LockError>(())
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// A reentrant mutex coerces to a mutex of a trait object:
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
    lock: BareLock,
    data: T,
}

impl<B: ?Sized> Locks<B> {
    /// Makes the reentrant mutex with this name, around a value of this process.
    ///
    /// The value is local, like the value of a [`mutex`](Self::mutex). The call sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind) if the name, with the
    /// [prefix](crate::Builder::prefix), is too long.
    pub fn reentrant_mutex<T, K>(&self, name: K, value: T) -> Result<ReentrantMutex<T>, Error>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        Ok(ReentrantMutex { lock: self.bare_lock(name)?, data: value })
    }
}

impl<T: ?Sized> ReentrantMutex<T> {
    options!("of this mutex", "locks.reentrant_mutex(\"report\", 0)?", |this, change| {
        this.lock = this.lock.clone().with_policy(change)
    }, T: Sized);

    /// The name of the lock.
    pub fn key(&self) -> &Key {
        self.lock.key()
    }

    /// Whether a guard of this process holds the lock now. The call sends no request.
    ///
    /// The answer says nothing about other processes. A guard with a lost lease does not count.
    pub fn is_held(&self) -> bool {
        self.lock.is_held_by_any()
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
    /// let mut stock = locks.reentrant_mutex("stock/apples", 3)?;
    /// *stock.get_mut() += 1;
    /// assert_eq!(stock.key().as_bytes(), b"stock/apples");
    /// assert_eq!(stock.into_inner(), 4);
    /// # Ok::<(), lock_sync::Error>(())
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }

    /// Takes the value out. This does not affect other processes.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        self.data
    }

    fn default_wait(&self) -> Wait {
        self.lock.default_wait()
    }
}

/// Shows what this process knows, without asking the store.
impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ReentrantMutex");
        debug.field("key", self.key());
        if self.is_held() {
            debug.field("data", &format_args!("<locked>"));
        } else {
            debug.field("data", &&self.data);
        }
        debug.finish()
    }
}
