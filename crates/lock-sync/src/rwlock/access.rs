//! The wait for a guard: first a permit, if the lock has a maximum; then the engine's grant; then the data.

use std::task::{Context, Poll, ready};

use lock_core::Mode;

use super::admission::{Admitted, Permit};
use super::admitting::Admitting;
use super::{Core, RwLock};
use crate::bare::{Denial, Locking, Wait, completed};

/// The wait inside every future of the lock. It can be dropped at any point.
pub(super) enum Access {
    Admitting(Box<Admitting>),
    // In this order, so that the task that gets the permit next finds the lock given up.
    Locking(Locking, Option<Permit>),
    Failed,
}

impl Access {
    pub(super) fn new(core: &Core, mode: Mode, wait: Wait) -> Self {
        match &core.quota {
            Some(quota) => Self::Admitting(Box::new(Admitting::new(core, quota, mode, wait))),
            None => Self::Locking(core.lock.locking(mode, wait), None),
        }
    }

    /// Sends the requests from the driver. A caller that blocks its thread needs this, because no other thread may
    /// be running the caller's runtime.
    pub(super) fn on_driver(&mut self) {
        match self {
            Self::Admitting(admitting) => admitting.on_driver(),
            Self::Locking(locking, _) => locking.on_driver(),
            Self::Failed => {}
        }
    }

    /// The reader has tried the short way.
    pub(super) fn has_tried_to_share(&mut self) {
        if let Self::Locking(locking, _) = self {
            locking.has_tried_to_share();
        }
    }

    pub(super) fn poll<D>(
        &mut self,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Admitted, D), Denial>> {
        let outcome = ready!(self.poll_parts(context, take_data));
        if outcome.is_err() {
            // The rest of a failed wait must not keep other tasks out until the future is dropped.
            *self = Self::Failed;
        }
        Poll::Ready(outcome)
    }

    fn poll_parts<D>(
        &mut self,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Admitted, D), Denial>> {
        loop {
            match self {
                Self::Admitting(admitting) => {
                    let (locking, permit) = ready!(admitting.poll(context))?;
                    *self = Self::Locking(locking, Some(permit));
                }
                Self::Locking(locking, permit) => {
                    let (hold, data) = ready!(locking.poll(context, &take_data))?;
                    return Poll::Ready(Ok((Admitted::new(hold, permit.take()), data)));
                }
                Self::Failed => completed(),
            }
        }
    }
}

impl<T: ?Sized, C> RwLock<T, C> {
    pub(super) fn access(&self, mode: Mode, wait: Wait) -> Access {
        Access::new(&self.core, mode, wait)
    }
}
