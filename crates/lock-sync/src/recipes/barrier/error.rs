//! The error of a barrier.

use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;

use crate::bare::Denial;

/// Why a participant did not pass a [`Barrier`](crate::Barrier).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BarrierError {
    /// The wait limit was reached.
    ///
    /// If the store had failed or had not answered when the limit was reached, `source` says so. Otherwise too few
    /// participants had arrived.
    Timeout {
        /// The last failure of the backend, unless it has answered since.
        source: Option<Error>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The backend failed in a way that waiting does not cure; it failed for longer than a lease lives; or another
    /// participant has given another number of participants.
    Backend(Error),
}

impl From<Denial> for BarrierError {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Timeout(source) => Self::Timeout { source },
            // A waiter gets neither: it waits, and does not share or strengthen a lease that it holds.
            Denial::WouldBlock | Denial::Lost(_) => Self::Timeout { source: None },
            Denial::Closed => Self::Closed,
            Denial::Failed(error) => Self::Backend(error),
        }
    }
}

impl fmt::Display for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout { .. } => "too few have arrived at the barrier within the wait limit",
            Self::Closed => "the locks are shutting down",
            Self::Backend(_) => "the lock backend failed",
        })
    }
}

impl StdError for BarrierError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::Closed => None,
            Self::Backend(source) => Some(source),
        }
    }
}
