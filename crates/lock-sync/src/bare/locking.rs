//! The way to a guard: first the engine's grant, then the data.

use std::task::{Context, Poll, ready};

use lock_core::Mode;
use tokio::task::coop::poll_proceed;

use super::BareLock;
use crate::engine::{Acquiring, Denial, Hold, Wait};
use crate::error::{LockError, TryLockError};

/// What the futures of all primitives wait with. It can be dropped at any point.
pub(crate) struct Locking {
    acquiring: Acquiring,
    hold: Option<Hold>,
}

impl BareLock {
    /// Begins to wait for the lock, for a future that yields a guard.
    pub(crate) fn locking(&self, mode: Mode, wait: Wait) -> Locking {
        Locking { acquiring: self.acquiring(mode, wait), hold: None }
    }
}

impl Locking {
    /// For a caller that blocks its thread: then no other thread may drive the runtime of the caller.
    pub(crate) fn on_driver(&mut self) {
        self.acquiring.on_driver();
    }

    /// The hold, and the data that `take_data` finds free by then.
    pub(crate) fn poll<D>(
        &mut self,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Hold, D), Denial>> {
        let hold = match self.hold.take() {
            Some(hold) => hold,
            None => ready!(self.acquiring.poll(context))?,
        };
        // A task that locks in a loop yields to the others now and then, as with tokio's locks. It has
        // its turn by then: a budget that is used up costs the task no place in the queue.
        let Poll::Ready(coop) = poll_proceed(context) else {
            self.hold = Some(hold);
            return Poll::Pending;
        };
        let Some(data) = take_data() else {
            // The engine grants when no guard is left that stands in the way. Only `Debug` can have the
            // data, and will have looked at it in a moment.
            self.hold = Some(hold);
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        coop.made_progress();
        Poll::Ready(Ok((hold, data)))
    }
}

impl From<Denial> for LockError {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Timeout(source) => Self::Timeout { source },
            // Only a caller that does not wait is turned away so.
            Denial::WouldBlock => Self::Timeout { source: None },
            Denial::Closed => Self::Closed,
            Denial::Lost(lost) => Self::Lost(lost),
            Denial::Failed(error) => Self::Backend(error),
        }
    }
}

impl From<Denial> for TryLockError {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::WouldBlock | Denial::Timeout(_) => Self::WouldBlock,
            Denial::Closed => Self::Closed,
            Denial::Lost(lost) => Self::Lost(lost),
            Denial::Failed(error) => Self::Backend(error),
        }
    }
}
