//! The way to a guard: first the engine's grant, then the data.

use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::Mode;
use pin_project::pin_project;
use tokio::task::coop::poll_proceed;

use crate::engine::{Acquiring, Denial, Entry, Hold, Manner, Wait};
use crate::error::{LockError, TryLockError};

/// What the futures of all primitives wait with. It can be dropped at any point.
#[pin_project]
pub(crate) struct Locking {
    acquiring: Acquiring,
    hold: Option<Hold>,
    /// As tokio's futures, so that what is inside may change.
    #[pin]
    _pinned: PhantomPinned,
}

impl Locking {
    pub(crate) fn new(entry: &Arc<Entry>, mode: Mode, wait: Wait, manner: Manner) -> Self {
        let acquiring = Acquiring::new(Arc::clone(entry), mode, wait, manner);
        Self { acquiring, hold: None, _pinned: PhantomPinned }
    }

    /// For a caller that blocks its thread: nobody else may be there to drive its runtime.
    pub(crate) fn on_driver(&mut self) {
        self.acquiring.on_driver();
    }

    /// The hold, and the data that `take_data` finds free by then.
    pub(crate) fn poll<D>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Hold, D), Denial>> {
        let this = self.project();
        let hold = match this.hold.take() {
            Some(hold) => hold,
            None => ready!(this.acquiring.poll(context))?,
        };
        // A task that locks in a loop yields to the others now and then, as with tokio's locks. It has
        // its turn by then: a budget that is used up costs nobody a place in the queue.
        let Poll::Ready(coop) = poll_proceed(context) else {
            *this.hold = Some(hold);
            return Poll::Pending;
        };
        let Some(data) = take_data() else {
            // The engine grants when no guard is left that stands in the way. Only `Debug` can have the
            // data, and will have looked at it in a moment.
            *this.hold = Some(hold);
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        coop.made_progress();
        Poll::Ready(Ok((hold, data)))
    }
}

pub(crate) fn lock_error(denial: Denial) -> LockError {
    match denial {
        Denial::Timeout(source) => LockError::Timeout { source },
        // Only those who do not wait are turned away so.
        Denial::WouldBlock => LockError::Timeout { source: None },
        Denial::Closed => LockError::Closed,
        Denial::Lost(lost) => LockError::Lost(lost),
        Denial::Failed(error) => LockError::Backend(error),
    }
}

pub(crate) fn try_lock_error(denial: Denial) -> TryLockError {
    match denial {
        Denial::WouldBlock | Denial::Timeout(_) => TryLockError::WouldBlock,
        Denial::Closed => TryLockError::Closed,
        Denial::Lost(lost) => TryLockError::Lost(lost),
        Denial::Failed(error) => TryLockError::Backend(error),
    }
}
