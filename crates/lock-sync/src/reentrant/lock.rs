//! The futures that wait for a reentrant mutex.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::OwnerToken;
use pin_project::pin_project;

use super::{
    Owner, OwnerGuard, ReentrantGuard, ReentrantLockError, ReentrantMutex, TryReentrantLockError,
    scope,
};
use crate::asking::given_back;
use crate::blocking::{assert_may_block, block_on};
use crate::engine::Wait;
use crate::locking::Locking;

impl<T: ?Sized> ReentrantMutex<T> {
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
        given_back_unless_held(self, owner.token()).await;
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
        given_back_unless_held(self, scope::current_token()?).await;
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
}

/// Waits for a [`ReentrantMutex`] in the name of an owner: what [`ReentrantMutex::lock_as`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct LockAs<'a, T: ?Sized> {
    mutex: &'a ReentrantMutex<T>,
    /// Until the guard has it.
    owner: Option<&'a mut Owner>,
    #[pin]
    locking: Locking,
}

impl<'a, T: ?Sized> LockAs<'a, T> {
    pub(super) fn new(mutex: &'a ReentrantMutex<T>, owner: &'a mut Owner, wait: Wait) -> Self {
        Self { locking: locking(mutex, owner.token(), wait), mutex, owner: Some(owner) }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<OwnerGuard<'a, T>, ReentrantLockError> {
        self.locking.on_driver();
        block_on(self)
    }
}

impl<'a, T: ?Sized> Future for LockAs<'a, T> {
    type Output = Result<OwnerGuard<'a, T>, ReentrantLockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex: &'a ReentrantMutex<T> = this.mutex;
        this.locking
            .poll(context, || Some(()))
            .map_ok(|(hold, ())| {
                let owner = this.owner.take().expect("a lock future is granted the lock once");
                OwnerGuard::new(mutex, owner, hold)
            })
            .map_err(ReentrantLockError::from_denial)
    }
}

impl<T: ?Sized> fmt::Debug for LockAs<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockAs").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}

/// Waits for a [`ReentrantMutex`] in the name of the owner in whose scope it is first polled: what
/// [`ReentrantMutex::lock`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ReentrantLock<'a, T: ?Sized> {
    mutex: &'a ReentrantMutex<T>,
    wait: Wait,
    /// There is one from the first poll on.
    #[pin]
    locking: Option<Locking>,
}

impl<'a, T: ?Sized> ReentrantLock<'a, T> {
    pub(super) fn new(mutex: &'a ReentrantMutex<T>, wait: Wait) -> Self {
        Self { mutex, wait, locking: None }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<ReentrantGuard<'a, T>, ReentrantLockError> {
        let mut locking = locking(self.mutex, scope::current_token()?, self.wait);
        locking.on_driver();
        self.locking = Some(locking);
        block_on(self)
    }
}

impl<'a, T: ?Sized> Future for ReentrantLock<'a, T> {
    type Output = Result<ReentrantGuard<'a, T>, ReentrantLockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            if let Some(locking) = this.locking.as_mut().as_pin_mut() {
                return locking
                    .poll(context, || Some(()))
                    .map_ok(|(hold, ())| ReentrantGuard::new(this.mutex, hold))
                    .map_err(ReentrantLockError::from_denial);
            }
            let token = scope::current_token()?;
            this.locking.set(Some(locking(this.mutex, token, *this.wait)));
        }
    }
}

impl<T: ?Sized> fmt::Debug for ReentrantLock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantLock").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}

/// Waits for what this process has given up of the lock, unless this owner holds it: then it enters at once.
async fn given_back_unless_held<T: ?Sized>(mutex: &ReentrantMutex<T>, token: OwnerToken) {
    let shared = mutex.entry.shared();
    if !shared.joint_entry(mutex.entry.key(), token).is_held() {
        given_back(shared, mutex.entry.key()).await;
    }
}

fn locking<T: ?Sized>(mutex: &ReentrantMutex<T>, token: OwnerToken, wait: Wait) -> Locking {
    let shared = mutex.entry.shared();
    let entry = shared.joint_entry(mutex.entry.key(), token);
    Locking::new(&entry, super::owner::mode(token), wait, shared.manner)
}
