//! The futures of an upgrade.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::Convertible;
use tokio::task::coop::poll_proceed;

use super::admission::{Admitted, Permit};
use super::error::Refused;
use super::{
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard, UpgradeError,
};
use crate::bare::{Denial, Hold, Upgrading, Wait};
use crate::guard::Guarded;
use crate::waits::future;

future! {
    /// The future that [`RwLockUpgradableReadGuard::upgrade`] returns.
    #[must_use = "dropping it lets go of the lock"]
    Upgrade['a, T: ?Sized, C]['a, T, C] default Convertible,
    (climb: Climb<tokio::sync::RwLockReadGuard<'a, T>>, lock: &'a RwLock<T, C>)
        -> Result<
            RwLockWriteGuard<'a, T, C>,
            Refused<RwLockUpgradableReadGuard<'a, T, C>>
                => UpgradeError<RwLockUpgradableReadGuard<'a, T, C>>
        >
    |context| {
        let lock = *lock;
        climb.poll(context, || lock.data.try_write().ok()).map(|climbed| match climbed {
            Ok((data, hold)) => Ok(RwLockWriteGuard { core: Guarded { data, hold, lock } }),
            Err((data, hold, denial)) => Err(Refused(
                RwLockUpgradableReadGuard { core: Guarded { data, hold, lock } },
                denial,
            )),
        })
    }
}

future! {
    /// The future that [`OwnedRwLockUpgradableReadGuard::upgrade`] returns.
    #[must_use = "dropping it lets go of the lock"]
    UpgradeOwned[T: ?Sized, C][T, C] default Convertible,
    (climb: Climb<tokio::sync::OwnedRwLockReadGuard<T>>, lock: Arc<RwLock<T, C>>)
        -> Result<
            OwnedRwLockWriteGuard<T, C>,
            Refused<OwnedRwLockUpgradableReadGuard<T, C>>
                => UpgradeError<OwnedRwLockUpgradableReadGuard<T, C>>
        >
    |context| {
        let climbed = climb.poll(context, || Arc::clone(&lock.data).try_write_owned().ok());
        climbed.map(|climbed| {
            let lock = Arc::clone(lock);
            match climbed {
                Ok((data, hold)) => Ok(OwnedRwLockWriteGuard { core: Guarded { data, hold, lock } }),
                Err((data, hold, denial)) => Err(Refused(
                    OwnedRwLockUpgradableReadGuard { core: Guarded { data, hold, lock } },
                    denial,
                )),
            }
        })
    }
}

/// The data with write access; or the data with read access, as before, and the reason.
type Climbed<R, W> = Result<(W, Admitted), (R, Admitted, Denial)>;

/// The wait for an upgrade: first for the grant of the engine, then for the data. Until then `R` gives read access to
/// the data.
pub(super) struct Climb<R> {
    // In this order, so that the next holder finds the data free.
    reading: Option<R>,
    upgrading: Upgrading,
    hold: Option<Hold>,
    permit: Option<Permit>,
}

impl<R> Climb<R> {
    pub(super) fn new(reading: R, hold: Admitted, wait: Wait) -> Self {
        let (hold, permit) = hold.into_parts();
        Self { reading: Some(reading), upgrading: Upgrading::new(hold, wait), hold: None, permit }
    }

    /// The driver sends every upgrade, so there is nothing to change for a caller that blocks its thread.
    fn on_driver(&mut self) {}

    /// Returns the data that `take_data` takes once the hold is exclusive; or the read access, and the reason.
    fn poll<W>(
        &mut self,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<W>,
    ) -> Poll<Climbed<R, W>> {
        if self.hold.is_none() {
            match ready!(self.upgrading.poll(context)) {
                Ok(hold) => {
                    self.hold = Some(hold);
                    // No waiter of this process can write in between: the engine grants the lock to this hold alone.
                    self.reading = None;
                }
                Err((hold, denial)) => {
                    let Some(reading) = self.reading.take() else {
                        panic!("an upgrade was polled after it had completed");
                    };
                    return Poll::Ready(Err((
                        reading,
                        Admitted::new(hold, self.permit.take()),
                        denial,
                    )));
                }
            }
        }
        let coop = ready!(poll_proceed(context));
        match (take_data(), self.hold.take()) {
            (Some(data), Some(hold)) => {
                coop.made_progress();
                Poll::Ready(Ok((data, Admitted::new(hold, self.permit.take()))))
            }
            (_, hold) => {
                // As after any grant, only `Debug` can have the data, and only for a moment.
                self.hold = hold;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}
