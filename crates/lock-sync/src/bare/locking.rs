//! The way to a guard: first the grant of the engine, then the data.

use std::task::{Context, Poll, ready};

use lock_core::Mode;
use tokio::task::coop::poll_proceed;

use super::BareLock;
use crate::engine::{Acquiring, Denial, Hold, Wait, completed};
use crate::error::{LockError, TryLockError};

/// The wait that the futures of all primitives share. It can be dropped at any point.
pub(crate) enum Locking {
    Acquiring(Acquiring),
    /// The lock is held, but the future is not ready: the data is in use, or the task has used up its budget.
    Held(Hold),
    Done,
}

impl BareLock {
    /// Begins to wait for the lock, for a future that yields a guard.
    #[inline]
    pub(crate) fn locking(&self, mode: Mode, wait: Wait) -> Locking {
        Locking::Acquiring(self.acquiring(mode, wait))
    }
}

impl Locking {
    /// For a caller that blocks its thread: perhaps no other thread runs the runtime of the caller.
    pub(crate) fn on_driver(&mut self) {
        if let Self::Acquiring(acquiring) = self {
            acquiring.on_driver();
        }
    }

    /// The reader has tried the short way.
    pub(crate) fn has_tried_to_share(&mut self) {
        if let Self::Acquiring(acquiring) = self {
            acquiring.has_tried_to_share();
        }
    }

    /// The hold, and the data that `take_data` takes once the hold is there.
    #[inline]
    pub(crate) fn poll<D>(
        &mut self,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Hold, D), Denial>> {
        let hold = match self {
            Self::Acquiring(acquiring) => ready!(acquiring.poll(context))?,
            Self::Held(_) | Self::Done => {
                let Self::Held(hold) = std::mem::replace(self, Self::Done) else { completed() };
                hold
            }
        };
        // A task that locks in a loop yields to other tasks now and then, as with tokio's locks. The task
        // yields only in its turn, so a used-up budget does not cost the task its place in the line.
        let Poll::Ready(coop) = poll_proceed(context) else {
            *self = Self::Held(hold);
            return Poll::Pending;
        };
        let Some(data) = take_data() else {
            // The engine grants the lock only when no guard is in the way. So only `Debug` can have the data, and
            // only for a moment.
            *self = Self::Held(hold);
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        coop.made_progress();
        Poll::Ready(Ok((hold, data)))
    }
}

/// Converts a denial into an error with the variants of [`LockError`].
macro_rules! denied {
    ($error:ident $(<$of:ident>)?) => {
        impl$(<$of>)? From<$crate::bare::Denial> for $error$(<$of>)? {
            fn from(denial: $crate::bare::Denial) -> Self {
                use $crate::bare::Denial;
                match denial {
                    Denial::Timeout(source) => Self::Timeout { source },
                    // Only a try gets this denial.
                    Denial::WouldBlock => Self::Timeout { source: None },
                    Denial::Closed => Self::Closed,
                    Denial::Lost(lost) => Self::Lost(lost),
                    Denial::Failed(error) => Self::Backend(error),
                }
            }
        }
    };
}

pub(crate) use denied;

denied!(LockError);

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
