//! A mutex that its owner may lock again.

mod error;
mod guard;
mod lock;
mod owner;
mod reentry;
mod scope;

use std::fmt;

use lock_core::{Error, JointBackend, Key};

pub use error::{ReentrantLockError, TryReentrantLockError};
pub use guard::{OwnerGuard, ReentrantGuard};
pub use lock::{LockAs, ReentrantLock};
pub use owner::{Owner, ParseOwnerError};
pub use reentry::Reentry;
pub use scope::{OwnerScope, current_owner, owner_scope, owner_scope_sync};

use crate::Locks;
use crate::bare::{BareLock, Wait};

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
    lock: BareLock,
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
        Ok(ReentrantMutex { lock: self.bare_lock(name)?, data: value })
    }
}

impl<T: ?Sized> ReentrantMutex<T> {
    /// The name of the lock.
    pub fn key(&self) -> &Key {
        self.lock.key()
    }

    /// Whether a guard of this process holds the lock now. Asks nobody.
    ///
    /// Of other processes it says nothing, and a guard whose lease was lost does not count.
    pub fn is_held(&self) -> bool {
        self.lock.is_held_by_any()
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
