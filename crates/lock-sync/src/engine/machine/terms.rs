//! What the machine and its callers say to one another.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Error, Instant, Ttl};

use crate::engine::holds::HoldId;
use crate::engine::lease::Lease;
use crate::engine::queue::WaiterId;
use crate::error::LeaseLost;
use crate::handoff::Handoff;

/// How the locks of one [`Locks`](crate::Locks) behave.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) ttl: Ttl,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// Whether the store can convert a lease that is held.
    pub(crate) converts: bool,
}

/// What a holder wants to become of the lock after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) handoff: Handoff,
    /// How long the lease is kept when no waiter here wants it.
    pub(crate) cache: Option<Duration>,
}

/// The right of one holder: what a guard carries.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) hold: HoldId,
    pub(crate) lease: Arc<Lease>,
    pub(crate) token: lock_core::FencingToken,
    /// The end of the maximum hold.
    pub(crate) hold_until: Instant,
}

/// Why a waiter got no ticket.
#[derive(Clone, Debug)]
pub(crate) enum Denial {
    WouldBlock,
    Timeout(Option<Error>),
    Closed,
    Failed(Error),
    /// What it would have shared, or made stronger, is lost.
    Lost(LeaseLost),
}

pub(super) type Outcome = Result<Ticket, Denial>;

/// How an attempt to enter began.
#[derive(Debug)]
pub(in super::super) enum Entered {
    /// It is over already.
    Done(Outcome),
    /// Send this request on behalf of the waiter, and report with
    /// [`attempt_done`](super::Machine::attempt_done) no matter what becomes of the waiter.
    Attempt(WaiterId, Acquire),
    /// The turn of another waiter comes first.
    Queued(WaiterId),
}
