//! An owner for all code of a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use lock_core::{Error, OwnerToken};
use pin_project::pin_project;
use tokio::task::futures::TaskLocalFuture;

use super::Owner;
use super::error::Unentered;
use crate::error::LockError;

/// Runs a future with an owner of its own. Inside the future,
/// [`ReentrantMutex::lock`](crate::ReentrantMutex::lock) locks in the name of that owner, and enters the
/// locks that the owner already holds.
///
/// It needs no runtime, and works with any executor.
///
/// # Which code has one owner
///
/// - All code that the future awaits has one owner, at any depth. **The branches of `join!`, `select!` or a
///   `FuturesUnordered` inside the future have this owner too: they do not exclude one another.** The library cannot
///   distinguish a branch from a nested call. If the branches must exclude one another, give each its own
///   `owner_scope`.
/// - A task that is spawned inside has no owner. Locking there returns
///   [`NoOwnerScope`](LockError::NoOwnerScope), so the task cannot enter by mistake. To give the task this
///   owner on purpose, use [`current_owner`].
/// - A scope inside another scope has another owner, which waits for the locks that the outer owner holds. If the
///   outer owner waits for the inner scope, both wait for ever. A [wait limit](crate::Builder::wait_limit) ends such a
///   wait.
///
/// A guard may leave the scope. It holds the lock until it is dropped.
///
/// # Cancel safety
///
/// As `future`.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, LockError, ReentrantMutex, owner_scope};
///
/// async fn ship(order: &ReentrantMutex<()>) -> Result<(), LockError> {
///     let _guard = order.lock().await?;
///     pack(order).await
/// }
///
/// async fn pack(order: &ReentrantMutex<()>) -> Result<(), LockError> {
///     let _guard = order.lock().await?; // also alone, and at once if `ship` has it
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let order = locks.reentrant_mutex("orders/42", ())?;
/// owner_scope(ship(&order)).await?;
/// assert!(matches!(ship(&order).await, Err(LockError::NoOwnerScope)));
/// # Ok(())
/// # }
/// ```
pub fn owner_scope<F: Future>(future: F) -> OwnerScope<F> {
    OwnerScope(OWNER.scope(Scope::default(), future))
}

/// Runs synchronous code with an owner of its own. It works as [`owner_scope`], for
/// [`ReentrantMutex::blocking_lock`](crate::ReentrantMutex::blocking_lock).
///
/// A thread that starts inside has no owner.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, ReentrantGuard, owner_scope_sync};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let order = locks.reentrant_mutex("orders/42", ())?;
/// owner_scope_sync(|| {
///     let outer = order.blocking_lock()?;
///     let inner = order.blocking_lock()?;
///     let token = |guard| ReentrantGuard::lease(guard).fencing_token();
///     assert_eq!(token(&outer), token(&inner));
///     Ok::<_, lock_sync::LockError>(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub fn owner_scope_sync<R>(work: impl FnOnce() -> R) -> R {
    OWNER.sync_scope(Scope::default(), work)
}

/// The owner of the [`owner_scope`] in which this code runs, for another process or task.
///
/// The owner can then act in two places at once, and the lock does not exclude one place while the other holds it.
///
/// # Errors
///
/// - [`LockError::NoOwnerScope`] outside a scope;
/// - [`LockError::Backend`] if the operating system gives no random bytes.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, current_owner, owner_scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let order = std::sync::Arc::new(locks.reentrant_mutex("orders/42", ())?);
/// owner_scope(async {
///     let _guard = order.lock().await?;
///     let (owner, order) = (current_owner()?, order.clone());
///     tokio::spawn(owner.scope(async move { order.lock().await.map(drop) })).await??;
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub fn current_owner() -> Result<Owner, LockError> {
    Ok(Owner::from_token(current_token()?))
}

impl Owner {
    /// Runs a future in the name of this owner. It works as [`owner_scope`], for an existing owner.
    pub fn scope<F: Future>(self, future: F) -> OwnerScope<F> {
        OwnerScope(OWNER.scope(Scope::of(self), future))
    }

    /// Runs synchronous code in the name of this owner. It works as [`owner_scope_sync`], for an existing owner.
    pub fn scope_sync<R>(self, work: impl FnOnce() -> R) -> R {
        OWNER.sync_scope(Scope::of(self), work)
    }
}

pub(super) fn current_token() -> Result<OwnerToken, Unentered> {
    match OWNER.try_with(Scope::token) {
        Ok(token) => token.map_err(Unentered::NoOwner),
        Err(_) => Err(Unentered::NoOwnerScope),
    }
}

/// The future that [`owner_scope`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct OwnerScope<F>(#[pin] TaskLocalFuture<Scope, F>);

impl<F: Future> Future for OwnerScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().0.poll(context)
    }
}

impl<F> fmt::Debug for OwnerScope<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerScope").finish_non_exhaustive()
    }
}

tokio::task_local! {
    static OWNER: Scope;
}

/// The owner of one scope, generated when it is first needed.
#[derive(Default)]
struct Scope(OnceLock<OwnerToken>);

impl Scope {
    fn of(owner: Owner) -> Self {
        Self(OnceLock::from(owner.token()))
    }

    fn token(&self) -> Result<OwnerToken, Error> {
        match self.0.get() {
            Some(token) => Ok(*token),
            None => OwnerToken::generate().map(|token| *self.0.get_or_init(|| token)),
        }
    }
}
