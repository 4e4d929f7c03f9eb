//! How far a process passes a lock on among its own tasks.

use std::time::Duration;

/// What happens to a lock that one task gives up while other tasks of its process wait for the lock.
///
/// A hand-off costs no round trip, and each holder still gets a fencing token of its own. While no other process
/// stands in the queue of the store, the lock stays in the process, except with [`Never`](Self::Never). The store
/// tells the process when another one begins to wait. `Handoff` says how far the process may pass the lock on while
/// others *do* wait, or while it does not know about them because the store has no queue. Hand-offs need
/// [renewal](crate::Builder::renewal): without it a process passes a lease on only during the first half of its time.
///
/// A client that wants the lock without a place in the queue cannot make itself heard: another library on the
/// key, `try_lock`, a client that may not subscribe. To give such clients a chance, a lock that has stayed for a
/// second goes back to the store for a few milliseconds. A process that may not subscribe itself knows
/// nothing about others. If its tasks have taken the lock in turn for a sixth of a lease, but no less
/// than one second and no more than five, the lock goes back to the store for half a second.
///
/// # What it costs the others
///
/// These figures are for four processes of 16 tasks each on two cores, with an empty critical section:
///
/// - [`Fair`](Self::Fair): some 8 000 hand-overs a second, each to another process, and a wait of 7 ms at the median;
/// - the default budget: some 400 000 a second, and a wait of 25 µs at the median and 2 to 3 ms at the 99th
///   percentile. No process is without the lock for longer than the budgets of the others.
///
/// `benches/FIGURES.md` in the repository has more figures.
///
/// [`Builder::handoff`](crate::Builder::handoff) sets it for all locks, and
/// [`Mutex::with_handoff`](crate::Mutex::with_handoff) for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handoff {
    /// The lock goes back to the store every time, whether or not another process waits. Every guard has a grant
    /// of its own.
    ///
    /// Each guard costs a round trip. In return, tokens increase even when the store forgets everything
    /// (`FLUSHALL`). The store then grants higher tokens, but a process that does not yet know of the loss may give
    /// its holders lower tokens, which it reserved before. A resource that compares tokens refuses those. With
    /// `Never` no holder gets a token that was reserved for an earlier grant.
    Never,
    /// The lock goes back to the store as soon as another process waits: processes take turns, one holder each.
    Fair,
    /// The process passes the lock on until one of the two limits is reached. Both count from the moment when the
    /// process learns that another one waits. Then the lock goes back to the store, and the process goes to the end
    /// of the queue.
    Budget {
        /// The greatest number of hand-offs.
        handoffs: u32,
        /// The longest time. A holder that is slower than this is the last of its turn.
        time: Duration,
    },
}

impl Handoff {
    /// Whether the lock may go to another holder of the process, after `served` holders in the time `elapsed`.
    pub(crate) fn allows(self, served: u32, elapsed: Duration) -> bool {
        match self {
            Self::Never | Self::Fair => false,
            Self::Budget { handoffs, time } => served <= handoffs && elapsed < time,
        }
    }
}

impl Default for Handoff {
    /// A budget of 256 hand-offs or 10 ms, whichever comes first.
    fn default() -> Self {
        Self::Budget { handoffs: 256, time: Duration::from_millis(10) }
    }
}
