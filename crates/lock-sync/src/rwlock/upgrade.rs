//! From reading to writing.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomPinned;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::poll_proceed;

use super::seats::Seated;
use super::{
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
use crate::blocking::block_on;
use crate::engine::{Denial, Hold, Upgrading, Wait};
use crate::error::{LockError, TryLockError};
use crate::locking::{lock_error, try_lock_error};

/// Why an upgrade did not come to pass, with the guard that goes on reading.
///
/// It turns into the reason alone, which lets go of the guard: in a function that returns a [`LockError`]
/// by `upgrade().await?`, in others by `upgrade().await.map_err(UpgradeError::into_error)?`.
#[derive(Clone)]
#[must_use = "it holds the guard that was to be upgraded"]
pub struct UpgradeError<G, E = LockError> {
    guard: G,
    error: E,
}

impl<G, E> UpgradeError<G, E> {
    /// Why.
    pub fn error(&self) -> &E {
        &self.error
    }

    /// Why. The guard is dropped.
    pub fn into_error(self) -> E {
        self.error
    }

    /// The guard, as it was before.
    pub fn into_guard(self) -> G {
        self.guard
    }

    /// The guard, as it was before, and why it still is.
    pub fn into_parts(self) -> (G, E) {
        (self.guard, self.error)
    }
}

impl<G, E: fmt::Debug> fmt::Debug for UpgradeError<G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<G, E> fmt::Display for UpgradeError<G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock is still held to read alone")
    }
}

impl<G, E: std::error::Error + 'static> std::error::Error for UpgradeError<G, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<G> From<UpgradeError<G>> for LockError {
    fn from(error: UpgradeError<G>) -> Self {
        error.error
    }
}

impl<G> From<UpgradeError<G, TryLockError>> for TryLockError {
    fn from(error: UpgradeError<G, TryLockError>) -> Self {
        error.error
    }
}

/// Waits to write: what [`RwLockUpgradableReadGuard::upgrade`] returns.
#[pin_project]
#[must_use = "dropping it lets go of the lock"]
pub struct Upgrade<'a, T: ?Sized> {
    #[pin]
    climb: Climb<tokio::sync::RwLockReadGuard<'a, T>>,
    lock: &'a RwLock<T>,
}

impl<'a, T: ?Sized> Upgrade<'a, T> {
    pub(super) fn new(
        data: tokio::sync::RwLockReadGuard<'a, T>,
        hold: Seated,
        lock: &'a RwLock<T>,
        wait: Wait,
    ) -> Self {
        Self { climb: Climb::new(data, hold, wait), lock }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(
        self,
    ) -> Result<RwLockWriteGuard<'a, T>, UpgradeError<RwLockUpgradableReadGuard<'a, T>>> {
        block_on(self)
    }

    /// Does not wait.
    pub(super) async fn attempt(
        self,
    ) -> Result<RwLockWriteGuard<'a, T>, UpgradeError<RwLockUpgradableReadGuard<'a, T>, TryLockError>>
    {
        let mut this = pin!(self);
        poll_fn(|context| this.as_mut().poll_guard(context, try_lock_error)).await
    }

    #[expect(clippy::type_complexity, reason = "a guard, or the other guard and why")]
    fn poll_guard<E>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        error: impl FnOnce(Denial) -> E,
    ) -> Poll<Result<RwLockWriteGuard<'a, T>, UpgradeError<RwLockUpgradableReadGuard<'a, T>, E>>>
    {
        let this = self.project();
        let lock: &'a RwLock<T> = this.lock;
        let climbed = ready!(this.climb.poll(context, || lock.data.try_write().ok()));
        Poll::Ready(match climbed {
            Ok((data, hold)) => Ok(RwLockWriteGuard::new(data, hold, lock)),
            Err((data, hold, denial)) => Err(UpgradeError {
                guard: RwLockUpgradableReadGuard::new(data, hold, lock),
                error: error(denial),
            }),
        })
    }
}

impl<'a, T: ?Sized> Future for Upgrade<'a, T> {
    type Output = Result<RwLockWriteGuard<'a, T>, UpgradeError<RwLockUpgradableReadGuard<'a, T>>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_guard(context, lock_error)
    }
}

impl<T: ?Sized> fmt::Debug for Upgrade<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade").field("key", self.lock.key()).finish_non_exhaustive()
    }
}

/// Waits to write: what [`OwnedRwLockUpgradableReadGuard::upgrade`] returns.
#[pin_project]
#[must_use = "dropping it lets go of the lock"]
pub struct UpgradeOwned<T: ?Sized> {
    // In this order: see `OwnedRwLockWriteGuard`.
    #[pin]
    climb: Climb<tokio::sync::OwnedRwLockReadGuard<T>>,
    lock: Arc<RwLock<T>>,
}

impl<T: ?Sized> UpgradeOwned<T> {
    pub(super) fn new(
        data: tokio::sync::OwnedRwLockReadGuard<T>,
        hold: Seated,
        lock: Arc<RwLock<T>>,
        wait: Wait,
    ) -> Self {
        Self { climb: Climb::new(data, hold, wait), lock }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(
        self,
    ) -> Result<OwnedRwLockWriteGuard<T>, UpgradeError<OwnedRwLockUpgradableReadGuard<T>>> {
        block_on(self)
    }

    /// Does not wait.
    pub(super) async fn attempt(
        self,
    ) -> Result<
        OwnedRwLockWriteGuard<T>,
        UpgradeError<OwnedRwLockUpgradableReadGuard<T>, TryLockError>,
    > {
        let mut this = pin!(self);
        poll_fn(|context| this.as_mut().poll_guard(context, try_lock_error)).await
    }

    #[expect(clippy::type_complexity, reason = "a guard, or the other guard and why")]
    fn poll_guard<E>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        error: impl FnOnce(Denial) -> E,
    ) -> Poll<Result<OwnedRwLockWriteGuard<T>, UpgradeError<OwnedRwLockUpgradableReadGuard<T>, E>>>
    {
        let this = self.project();
        let lock: &Arc<RwLock<T>> = this.lock;
        let take_data = || Arc::clone(&lock.data).try_write_owned().ok();
        let climbed = ready!(this.climb.poll(context, take_data));
        Poll::Ready(match climbed {
            Ok((data, hold)) => Ok(OwnedRwLockWriteGuard::new(data, hold, Arc::clone(lock))),
            Err((data, hold, denial)) => Err(UpgradeError {
                guard: OwnedRwLockUpgradableReadGuard::new(data, hold, Arc::clone(lock)),
                error: error(denial),
            }),
        })
    }
}

impl<T: ?Sized> Future for UpgradeOwned<T> {
    type Output = Result<OwnedRwLockWriteGuard<T>, UpgradeError<OwnedRwLockUpgradableReadGuard<T>>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_guard(context, lock_error)
    }
}

impl<T: ?Sized> fmt::Debug for UpgradeOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeOwned").field("key", self.lock.key()).finish_non_exhaustive()
    }
}

/// The data and the right to write it; or to read it, as before, and why.
type Climbed<R, W> = Result<(W, Seated), (R, Seated, Denial)>;

/// First the engine's grant, then the data, of which `R` is held to read until then.
#[pin_project]
struct Climb<R> {
    // In this order: whoever gets the lock next finds the data free.
    reading: Option<R>,
    upgrading: Upgrading,
    hold: Option<Hold>,
    seat: Option<OwnedSemaphorePermit>,
    /// As tokio's futures, so that what is inside may change.
    #[pin]
    _pinned: PhantomPinned,
}

impl<R> Climb<R> {
    fn new(reading: R, hold: Seated, wait: Wait) -> Self {
        let (hold, seat) = hold.into_parts();
        Self {
            reading: Some(reading),
            upgrading: Upgrading::new(hold, wait),
            hold: None,
            seat,
            _pinned: PhantomPinned,
        }
    }

    /// The data that `take_data` finds free once the hold is exclusive; or what there was, and why.
    fn poll<W>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<W>,
    ) -> Poll<Climbed<R, W>> {
        let this = self.project();
        if this.hold.is_none() {
            match ready!(this.upgrading.poll(context)) {
                Ok(hold) => {
                    *this.hold = Some(hold);
                    // Nobody here can write in between: the engine grants to none but this one.
                    *this.reading = None;
                }
                Err((hold, denial)) => {
                    let Some(reading) = this.reading.take() else {
                        panic!("an upgrade was polled after it had completed");
                    };
                    return Poll::Ready(Err((
                        reading,
                        Seated::new(hold, this.seat.take()),
                        denial,
                    )));
                }
            }
        }
        let coop = ready!(poll_proceed(context));
        match (take_data(), this.hold.take()) {
            (Some(data), Some(hold)) => {
                coop.made_progress();
                Poll::Ready(Ok((data, Seated::new(hold, this.seat.take()))))
            }
            (_, hold) => {
                // As after any grant, only `Debug` can look at the data, and is done in a moment.
                *this.hold = hold;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}
