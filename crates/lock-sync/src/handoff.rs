//! How far a lock is passed on inside one process.

use std::time::Duration;

/// What happens to a lock that one task gives up while others of the same process wait for it.
///
/// Passing it on inside the process costs no round trip, and each holder still gets a fencing token
/// of its own. While nobody stands in the store's queue the lock stays in the process, unless it is
/// [`Never`](Self::Never) to be passed on; the store tells when that changes. This says how far it may
/// be passed on while others *do* wait, or while nothing is known about them because the store has no
/// queue. It needs [renewal](crate::Builder::renewal), without which only the half of a lease is passed
/// on.
///
/// A client that wants the lock and does not stand in the queue cannot be heard: another library on the
/// same key, `try_lock`, a client that may not subscribe. For their sake a lock that has stayed for a
/// second goes back to the store for a few milliseconds. A process that may not subscribe itself knows
/// nothing of others at all. If its tasks have taken the lock in turn for a sixth of a lease, but no less
/// than one second and no more than five, the lock goes back to the store for half a second.
///
/// # What it costs the others
///
/// Measured with four processes of 16 tasks each on two cores, with an empty critical section: fair,
/// some 8 000 hand-overs a second, each to another process, and a wait of 7 ms at the median; with the
/// default budget some 400 000, a wait of 25 µs at the median and 2 to 3 ms at the 99th percentile, and
/// no process without the lock for longer than the others' budgets. `benches/FIGURES.md` in the repository
/// tells more.
///
/// Said for all locks with [`Builder::handoff`](crate::Builder::handoff), and for one with
/// [`Mutex::with_handoff`](crate::Mutex::with_handoff).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handoff {
    /// Back to the store every time, whether or not another process waits: every guard has a grant of its
    /// own.
    ///
    /// Each guard costs a round trip. In return, tokens increase even when the store forgets everything
    /// (`FLUSHALL`): the store then grants higher tokens, but a process that does not know of it yet may pass
    /// on lower tokens, which it reserved before. A resource that compares tokens refuses those. With `Never`
    /// no holder gets a token that was reserved for an earlier grant.
    Never,
    /// Back to the store as soon as another process waits: processes take turns, one holder each.
    Fair,
    /// Passed on until one of the two limits is reached, counted from when another process was heard of; then
    /// back to the store. The process goes to the end of the queue.
    Budget {
        /// How often.
        handoffs: u32,
        /// For how long. A holder that is slower than this is the last of its turn.
        time: Duration,
    },
}

impl Handoff {
    /// Whether, after `served` holders in this `time`, the lock may go to another one of the process.
    pub(crate) fn allows(self, served: u32, elapsed: Duration) -> bool {
        match self {
            Self::Never | Self::Fair => false,
            Self::Budget { handoffs, time } => served <= handoffs && elapsed < time,
        }
    }
}

impl Default for Handoff {
    /// 256 hand-offs or 10 ms, whichever comes first.
    fn default() -> Self {
        Self::Budget { handoffs: 256, time: Duration::from_millis(10) }
    }
}
