//! How far a lock is passed on inside one process.

use std::time::Duration;

/// What happens to a lock that one task gives up while others of the same process wait for it.
///
/// Passing it on inside the process costs no round trip, and each holder still gets a fencing token
/// of its own. Other processes wait meanwhile: this says for how long at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handoff {
    /// Back to the store every time: processes take turns as the store lets them.
    Never,
    /// Passed on until one of the two is reached, counted from the grant by the store.
    Budget {
        /// How often.
        handoffs: u32,
        /// For how long.
        time: Duration,
    },
}

impl Handoff {
    pub(crate) fn budget(self) -> (u32, Duration) {
        match self {
            Self::Never => (0, Duration::ZERO),
            Self::Budget { handoffs, time } => (handoffs, time),
        }
    }
}

impl Default for Handoff {
    /// 256 hand-offs or 10 ms, whichever comes first.
    fn default() -> Self {
        Self::Budget { handoffs: 256, time: Duration::from_millis(10) }
    }
}
