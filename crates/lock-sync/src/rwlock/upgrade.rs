//! From reading to writing.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomPinned;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::Convertible;
use pin_project::pin_project;
use tokio::task::coop::poll_proceed;

use super::admission::{Admitted, Permit};
use super::{
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard, UpgradeError,
};
use crate::blocking::block_on;
use crate::engine::{Denial, Hold, Upgrading, Wait};
use crate::error::TryLockError;
use crate::locking::{lock_error, try_lock_error};

/// Waits to write: what [`RwLockUpgradableReadGuard::upgrade`] returns.
#[pin_project]
#[must_use = "dropping it lets go of the lock"]
pub struct Upgrade<'a, T: ?Sized, C = Convertible> {
    #[pin]
    climb: Climb<tokio::sync::RwLockReadGuard<'a, T>>,
    lock: &'a RwLock<T, C>,
}

impl<'a, T: ?Sized, C> Upgrade<'a, T, C> {
    pub(super) fn new(
        data: tokio::sync::RwLockReadGuard<'a, T>,
        hold: Admitted,
        lock: &'a RwLock<T, C>,
        wait: Wait,
    ) -> Self {
        Self { climb: Climb::new(data, hold, wait), lock }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(
        self,
    ) -> Result<RwLockWriteGuard<'a, T, C>, UpgradeError<RwLockUpgradableReadGuard<'a, T, C>>> {
        block_on(self)
    }

    /// Does not wait.
    pub(super) async fn attempt(
        self,
    ) -> Result<
        RwLockWriteGuard<'a, T, C>,
        UpgradeError<RwLockUpgradableReadGuard<'a, T, C>, TryLockError>,
    > {
        let mut this = pin!(self);
        poll_fn(|context| this.as_mut().poll_guard(context, try_lock_error)).await
    }

    #[expect(clippy::type_complexity, reason = "a guard, or the other guard and why")]
    fn poll_guard<E>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        error: impl FnOnce(Denial) -> E,
    ) -> Poll<
        Result<RwLockWriteGuard<'a, T, C>, UpgradeError<RwLockUpgradableReadGuard<'a, T, C>, E>>,
    > {
        let this = self.project();
        let lock: &'a RwLock<T, C> = this.lock;
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

impl<'a, T: ?Sized, C> Future for Upgrade<'a, T, C> {
    type Output =
        Result<RwLockWriteGuard<'a, T, C>, UpgradeError<RwLockUpgradableReadGuard<'a, T, C>>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_guard(context, lock_error)
    }
}

impl<T: ?Sized, C> fmt::Debug for Upgrade<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade").field("key", self.lock.key()).finish_non_exhaustive()
    }
}

/// Waits to write: what [`OwnedRwLockUpgradableReadGuard::upgrade`] returns.
#[pin_project]
#[must_use = "dropping it lets go of the lock"]
pub struct UpgradeOwned<T: ?Sized, C = Convertible> {
    // In this order: see `OwnedRwLockWriteGuard`.
    #[pin]
    climb: Climb<tokio::sync::OwnedRwLockReadGuard<T>>,
    lock: Arc<RwLock<T, C>>,
}

impl<T: ?Sized, C> UpgradeOwned<T, C> {
    pub(super) fn new(
        data: tokio::sync::OwnedRwLockReadGuard<T>,
        hold: Admitted,
        lock: Arc<RwLock<T, C>>,
        wait: Wait,
    ) -> Self {
        Self { climb: Climb::new(data, hold, wait), lock }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(
        self,
    ) -> Result<OwnedRwLockWriteGuard<T, C>, UpgradeError<OwnedRwLockUpgradableReadGuard<T, C>>>
    {
        block_on(self)
    }

    /// Does not wait.
    pub(super) async fn attempt(
        self,
    ) -> Result<
        OwnedRwLockWriteGuard<T, C>,
        UpgradeError<OwnedRwLockUpgradableReadGuard<T, C>, TryLockError>,
    > {
        let mut this = pin!(self);
        poll_fn(|context| this.as_mut().poll_guard(context, try_lock_error)).await
    }

    #[expect(clippy::type_complexity, reason = "a guard, or the other guard and why")]
    fn poll_guard<E>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        error: impl FnOnce(Denial) -> E,
    ) -> Poll<
        Result<OwnedRwLockWriteGuard<T, C>, UpgradeError<OwnedRwLockUpgradableReadGuard<T, C>, E>>,
    > {
        let this = self.project();
        let lock: &Arc<RwLock<T, C>> = this.lock;
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

impl<T: ?Sized, C> Future for UpgradeOwned<T, C> {
    type Output =
        Result<OwnedRwLockWriteGuard<T, C>, UpgradeError<OwnedRwLockUpgradableReadGuard<T, C>>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_guard(context, lock_error)
    }
}

impl<T: ?Sized, C> fmt::Debug for UpgradeOwned<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeOwned").field("key", self.lock.key()).finish_non_exhaustive()
    }
}

/// The data and the right to write it; or to read it, as before, and why.
type Climbed<R, W> = Result<(W, Admitted), (R, Admitted, Denial)>;

/// First the engine's grant, then the data, of which `R` is held to read until then.
#[pin_project]
struct Climb<R> {
    // In this order: whoever gets the lock next finds the data free.
    reading: Option<R>,
    upgrading: Upgrading,
    hold: Option<Hold>,
    permit: Option<Permit>,
    /// As tokio's futures, so that what is inside may change.
    #[pin]
    _pinned: PhantomPinned,
}

impl<R> Climb<R> {
    fn new(reading: R, hold: Admitted, wait: Wait) -> Self {
        let (hold, permit) = hold.into_parts();
        Self {
            reading: Some(reading),
            upgrading: Upgrading::new(hold, wait),
            hold: None,
            permit,
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
                        Admitted::new(hold, this.permit.take()),
                        denial,
                    )));
                }
            }
        }
        let coop = ready!(poll_proceed(context));
        match (take_data(), this.hold.take()) {
            (Some(data), Some(hold)) => {
                coop.made_progress();
                Poll::Ready(Ok((data, Admitted::new(hold, this.permit.take()))))
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
