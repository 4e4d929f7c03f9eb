//! How long a process hands a lock off among its own tasks.

use std::time::Duration;

/// What happens to a lock that one task gives up while other tasks of its process wait.
///
/// A hand-off costs no round trip, and each holder still gets a fencing token of its own. While no other process
/// waits in the queue of the store, the lock stays in the process, except with [`Never`](Self::Never). The store
/// tells the process when another process begins to wait. `Handoff` says how long the process may hand the lock off
/// while other processes *do* wait, or while it does not know about them because the store has no queue. Hand-offs
/// need [renewal](crate::Builder::renewal): without renewal, a process hands a lease off only during the first half
/// of its ttl.
///
/// Some clients want the lock but have no place in the queue: clients of other libraries, `try_lock`, clients
/// without the right to subscribe. To give these clients a chance, a lock that has stayed for a second goes back
/// to the store for a few milliseconds. A process without the right to subscribe does not know whether other
/// processes wait. Its tasks take the lock in turn for a sixth of a lease, but for one second at least and five
/// at most. Then the lock goes back to the store for half a second.
///
/// # What hand-offs cost other processes
///
/// These figures are for four processes of 16 tasks each on two cores, with an empty critical section:
///
/// - [`Fair`](Self::Fair): some 8 000 hand-overs a second, each to another process. The median wait is 7 ms;
/// - the default budget: some 400 000 hand-offs a second. The median wait is 25 µs, and the 99th percentile
///   is 2 to 3 ms. No process waits longer than the budgets of all other processes together.
///
/// `benches/FIGURES.md` in the repository has more figures.
///
/// [`Builder::handoff`](crate::Builder::handoff) sets it for all locks, and
/// [`Mutex::with_handoff`](crate::Mutex::with_handoff) for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handoff {
    /// The lock goes back to the store after every holder, whether or not another process waits. Every guard has
    /// a grant of its own.
    ///
    /// Each guard costs a round trip. In return, the tokens of later holders are higher even when the store forgets
    /// everything (`FLUSHALL`). With other variants, a process that does not yet know of the loss may give its next
    /// holders tokens that it reserved before, which are lower than new grants. A resource that compares tokens
    /// refuses these holders. With `Never` no holder gets a reserved token.
    Never,
    /// The lock goes back to the store as soon as another process waits: processes take turns, with one holder for each
    /// turn.
    Fair,
    /// The process hands the lock off until it reaches one of the two limits. Both count from the moment when the
    /// process learns that another process waits. Then the lock goes back to the store, and the process goes to the
    /// end of the queue. If the waiting processes give up and new ones come while one holder has the lock, the number
    /// of hand-offs does not begin anew.
    Budget {
        /// The greatest number of hand-offs.
        handoffs: u32,
        /// The longest time for hand-offs. The holder at the end of this time is the last holder of
        /// the turn.
        time: Duration,
    },
}

impl Default for Handoff {
    /// A budget of 256 hand-offs or 10 ms, whichever comes first.
    fn default() -> Self {
        Self::Budget { handoffs: 256, time: Duration::from_millis(10) }
    }
}
