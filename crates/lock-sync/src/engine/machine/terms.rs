//! The types that the machine and its callers exchange.

use std::sync::Arc;

use lock_core::observer;
use lock_core::{Acquire, AcquireOutcome, Claim, Error, FencingToken, Instant, Released};

use crate::engine::holdings::HoldId;
use crate::engine::queue::WaiterId;
use crate::engine::validity::Validity;
use crate::error::LeaseLost;

/// The answer of the store to a request for a lease, or for its conversion.
pub(crate) type AcquireAnswer = Result<AcquireOutcome, Error>;

/// The answer of the store to a release, and to the request for a place that the release took along.
pub(crate) type ReleaseAnswer = Result<(Released, Option<AcquireOutcome>), Error>;

/// The outcome of a waiter that has become a holder.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) hold: HoldId,
    pub(crate) lease: Arc<Validity>,
    pub(crate) token: FencingToken,
    /// When the caller began the hold. Before that, some instant since the grant of the lease.
    pub(crate) since: Instant,
    /// The end of the maximum hold.
    pub(crate) hold_until: Instant,
    /// The way by which the waiter came to its hold.
    pub(crate) entered: observer::Entered,
}

impl Ticket {
    /// The ticket of a caller that did not wait. If the lease was here without a holder, no holder has passed it on.
    pub(super) fn without_waiting(mut self) -> Self {
        if self.entered == observer::Entered::HandOff {
            self.entered = observer::Entered::Cached;
        }
        self
    }

    /// The caller begins the hold now. Fails if the hold has lost its lease, as far as the clock and the machine know.
    pub(crate) fn begin(&mut self) -> Result<(), LeaseLost> {
        self.since = self.lease.now();
        self.lease.check(self.hold.serial(), self.hold_until, self.since)
    }
}

/// Why a waiter got no ticket.
#[derive(Clone, Debug)]
pub(crate) enum Denial {
    WouldBlock,
    Timeout(Option<Error>),
    Closed,
    Failed(Error),
    /// The lease that the waiter would have shared or upgraded is lost.
    Lost(LeaseLost),
}

/// A write of the value by a holder.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) claim: Claim,
    /// The token of the holder from now on. It is the version of the value.
    pub(crate) token: FencingToken,
    /// Whether the write is to end the lease in the same step.
    pub(crate) ends: bool,
    /// Whether an earlier write under the lease has no answer.
    pub(crate) follows_doubt: bool,
}

pub(super) type Outcome = Result<Ticket, Denial>;

/// How an attempt to enter began.
#[derive(Debug)]
pub(in super::super) enum Entrance {
    /// The attempt has its outcome.
    Done(Outcome),
    /// The caller sends this request for the waiter, and reports the answer with
    /// [`attempt_done`](super::Machine::attempt_done) even if the waiter has left.
    Attempt(WaiterId, Acquire),
    /// The waiter stands in line, and its caller has nothing to send.
    Queued(WaiterId),
}
