//! The futures that wait for a reentrant mutex.

use std::time::Duration;

use lock_core::OwnerToken;

use super::error::Unentered;
use super::{Owner, OwnerGuard, ReentrantGuard, ReentrantMutex, scope};
use crate::bare::{Denial, Locking, Wait};
use crate::error::{LockError, TryLockError};
use crate::waits::{Attempt, block, future};

impl<T: ?Sized> ReentrantMutex<T> {
    /// Locks in the name of an owner. If the owner already holds the lock, the call enters at once. Otherwise it
    /// waits until the lock is free.
    ///
    /// The guard keeps the owner borrowed; [`split`](OwnerGuard::split) lends it to a nested call. The
    /// [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) bounds the wait.
    ///
    /// # Cancel safety
    ///
    /// Each owner has a place of its own in the queue of the store. Dropping the future gives the place up,
    /// and the driver undoes its request in the background. This does not affect other guards of the owner.
    ///
    /// # If the lease is lost
    ///
    /// The owner cannot lock again while one of its guards with a lost lease still exists in this process.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if this owner has lost its lease, and a guard of that lease still exists;
    /// - [`LockError::Timeout`] if the wait limit was reached;
    /// - [`LockError::Backend`] if the store refused, or, without a wait limit, if the store was out of reach
    ///   for longer than a lease lives;
    /// - [`LockError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, Owner, OwnerGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.reentrant_mutex("account/7", ())?;
    /// let mut owner = Owner::new()?;
    /// let mut outer = mutex.lock_as(&mut owner).await?;
    ///
    /// let (_data, owner) = outer.split();
    /// let inner = mutex.lock_as(owner).await?;
    /// assert!(OwnerGuard::lease(&inner).is_valid());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The compiler allows one call with an owner at a time:
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
        self.as_owner(owner, self.default_wait())
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
        self.as_owner(owner, Wait::AtMost(limit))
    }

    /// Locks in the name of an owner if the owner already holds the lock or the lock is free, without waiting for
    /// another owner.
    ///
    /// The call asks the store once, unless this process already knows the answer.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if another owner holds the lock, or waits for it in this process;
    /// - [`TryLockError::Lost`] as [`lock_as`](Self::lock_as);
    /// - [`TryLockError::Backend`] if the store could not be asked;
    /// - [`TryLockError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    pub async fn try_lock_as<'a>(
        &'a self,
        owner: &'a mut Owner,
    ) -> Result<OwnerGuard<'a, T>, TryLockError> {
        self.given_back_unless_held(owner.token()).await;
        Ok(Attempt(self.as_owner(owner, Wait::Try)).await?)
    }

    /// Locks in the name of an owner, from synchronous code.
    ///
    /// The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as with tokio's blocking functions. The code in
    /// `spawn_blocking` or `block_in_place` is not in such a context.
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
    ) -> Result<OwnerGuard<'a, T>, LockError> {
        block(self.lock_as(owner))
    }

    /// Locks in the name of the owner of the [`owner_scope`](crate::owner_scope) in which the future is first polled.
    /// If the owner already holds the lock, the call enters at once. Otherwise it waits until the lock is free.
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
    /// - [`LockError::NoOwnerScope`] outside a scope, also in a task that was spawned within a scope;
    /// - the errors of [`lock_as`](Self::lock_as).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, ReentrantGuard, owner_scope};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.reentrant_mutex("ledger", ())?;
    /// owner_scope(async {
    ///     let outer = mutex.lock().await?;
    ///     let inner = mutex.lock().await?;
    ///     drop(outer); // still held: `inner` is there
    ///     assert!(ReentrantGuard::lease(&inner).is_valid());
    ///     Ok::<_, lock_sync::LockError>(())
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> ReentrantLock<'_, T> {
        self.in_scope(self.default_wait())
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
        self.in_scope(Wait::AtMost(limit))
    }

    /// Locks in the name of the owner of this scope if that owner already holds the lock or the lock is free, without
    /// waiting for another owner.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_as`](Self::lock_as).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::NoOwnerScope`] outside a scope;
    /// - the errors of [`try_lock_as`](Self::try_lock_as).
    pub async fn try_lock(&self) -> Result<ReentrantGuard<'_, T>, TryLockError> {
        self.given_back_unless_held(scope::current_token()?).await;
        Ok(Attempt(self.in_scope(Wait::Try)).await?)
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
    pub fn blocking_lock(&self) -> Result<ReentrantGuard<'_, T>, LockError> {
        block(self.lock())
    }

    fn as_owner<'a>(&'a self, owner: &'a mut Owner, wait: Wait) -> LockAs<'a, T> {
        let locking = self.locking(owner.token(), wait);
        LockAs::new(ByOwner { locking, owner: Some(owner) }, self)
    }

    fn in_scope(&self, wait: Wait) -> ReentrantLock<'_, T> {
        ReentrantLock::new(InScope { wait, on_driver: false, locking: None }, self)
    }

    fn locking(&self, token: OwnerToken, wait: Wait) -> Locking {
        self.lock.joint(token).locking(super::owner::mode(token), wait)
    }

    /// Waits until the store has answered the releases of this lock by this process. An owner that holds the lock does
    /// not wait, and enters at once.
    async fn given_back_unless_held(&self, token: OwnerToken) {
        if !self.lock.joint(token).is_held() {
            self.lock.given_back().await;
        }
    }
}

future! {
    /// The future that [`ReentrantMutex::lock_as`] returns.
    #[must_use = "futures do nothing unless polled"]
    LockAs['a, T: ?Sized]['a, T](by: ByOwner<'a>, mutex: &'a ReentrantMutex<T>)
        -> Result<OwnerGuard<'a, T>, Denial => LockError>
    |context| {
        by.locking.poll(context, || Some(())).map_ok(|(hold, ())| {
            let owner = by.owner.take().expect("a lock future is granted the lock once");
            OwnerGuard::new(*mutex, owner, hold)
        })
    }
}

/// The wait of an owner.
pub(super) struct ByOwner<'a> {
    locking: Locking,
    /// `None` once the guard has it.
    owner: Option<&'a mut Owner>,
}

impl ByOwner<'_> {
    fn on_driver(&mut self) {
        self.locking.on_driver();
    }
}

future! {
    /// The future that [`ReentrantMutex::lock`] returns.
    #[must_use = "futures do nothing unless polled"]
    ReentrantLock['a, T: ?Sized]['a, T](scoped: InScope, mutex: &'a ReentrantMutex<T>)
        -> Result<ReentrantGuard<'a, T>, Unentered => LockError>
    |context| {
        let locking = match &mut scoped.locking {
            Some(locking) => locking,
            none => {
                let mut locking = mutex.locking(scope::current_token()?, scoped.wait);
                if scoped.on_driver {
                    locking.on_driver();
                }
                none.insert(locking)
            }
        };
        let locked = locking.poll(context, || Some(()));
        locked.map_ok(|(hold, ())| ReentrantGuard::new(*mutex, hold)).map_err(Unentered::Denied)
    }
}

/// The wait in the name of the owner of the scope in which the future is first polled.
pub(super) struct InScope {
    wait: Wait,
    on_driver: bool,
    /// Set from the first poll on.
    locking: Option<Locking>,
}

impl InScope {
    fn on_driver(&mut self) {
        self.on_driver = true;
    }
}
