//! The wait of a reader: first the short way to a lease that readers share, then the way of all holders.

use std::task::{Context, Poll};

use lock_core::Mode;
use tokio::task::coop::poll_proceed;

use super::Core;
use super::access::Access;
use super::admission::Admitted;
use crate::bare::{Denial, Wait, completed};

/// The wait inside the futures of readers. It can be dropped at any point.
///
/// A reader that shares a lease at once needs none of the parts of a longer wait. So they are in a box, and the future
/// is small.
pub(super) enum Reading {
    New { wait: Wait, on_driver: bool },
    Waiting(Box<Access>),
    Done,
}

impl Reading {
    pub(super) fn new(wait: Wait) -> Self {
        Self::New { wait, on_driver: false }
    }

    /// Sends the requests from the driver, for a caller that blocks its thread.
    pub(super) fn on_driver(&mut self) {
        if let Self::New { on_driver, .. } = self {
            *on_driver = true;
        }
    }

    #[inline]
    pub(super) fn poll<D>(
        &mut self,
        context: &mut Context<'_>,
        core: &Core,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Admitted, D), Denial>> {
        if let Self::New { wait, on_driver } = *self {
            if let Some(found) = share(context, core, &take_data) {
                *self = Self::Done;
                return Poll::Ready(Ok(found));
            }
            let mut access = Box::new(Access::new(core, Mode::Shared, wait));
            if core.quota.is_none() {
                access.has_tried_to_share();
            }
            if on_driver {
                access.on_driver();
            }
            *self = Self::Waiting(access);
        }
        match self {
            Self::Waiting(access) => access.poll(context, take_data),
            Self::New { .. } | Self::Done => completed(),
        }
    }
}

/// The short way. A task whose budget is used up takes the long one, which keeps its place in the line.
#[inline]
fn share<D>(
    context: &mut Context<'_>,
    core: &Core,
    take_data: impl Fn() -> Option<D>,
) -> Option<(Admitted, D)> {
    if core.quota.is_some() {
        return None;
    }
    let Poll::Ready(coop) = poll_proceed(context) else { return None };
    let hold = core.lock.share(Mode::Shared)?;
    // Only `Debug` can have the data, and only for a moment.
    let data = take_data()?;
    coop.made_progress();
    Some((Admitted::new(hold, None), data))
}
