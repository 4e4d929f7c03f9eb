//! The state machine of one key: events in, pass out.
//!
//! It decides everything that happens to a lock inside one process, and does nothing. It has no runtime,
//! no clock and no I/O: every event brings the time, and what the shell has to do comes back as
//! [`Pass`]. That is why tests can put any events in any order.
//!
//! One lease on the store serves many holders here, as far as they fit on it together. Where a lease does
//! not do for the first waiter, and the store may grant a second one beside it, the machine asks for that.
//! Each lease has a *seat*. Holds in one group, which hold jointly, have a machine of their own.
//!
//! How it works: an event records facts, then [`settle`] compares what each seat is with what its [`plan`]
//! says that it should be, and acts. No event picks its own follow-ups.
//!
//! What the machine upholds, whatever the order of events:
//! - holders that hold the lock at once may do so together;
//! - waiters are served in the order in which they came;
//! - this process has one request for a lease under way at a time, and one owner per request;
//! - the machine forgets a claim that the store may hold only when the claim is released or its lease has
//!   ended;
//! - while other processes wait, the lock goes back to the store within the budget;
//! - every waiter gets an outcome.

mod asking;
mod converting;
mod facts;
mod giving_back;
mod leased;
mod losing;
mod pass;
mod plan;
#[cfg(test)]
mod probe;
mod releasing;
mod renewing;
mod seat;
mod settle;
mod short_ways;
mod staying;
mod step;
mod terms;
mod timing;
mod watching;
mod weakening;

use lock_core::{Claim, Clock, Error, Instant, Key, Mode, OwnerToken};

use super::queue::{Patience, Queue, WaiterId};
use crate::error::{LeaseLost, LossReason};
use crate::handoff::Handoff;

pub(super) use converting::Part;
pub(crate) use giving_back::Return;
pub(crate) use pass::Deadline;
pub(super) use pass::{Op, Pass};
pub(super) use releasing::{Ending, Rest, Urgency};
pub(super) use terms::Entered;
pub(crate) use terms::{Denial, Manner, Policy, Ticket};
pub(crate) use timing::{BACKOFF, renewal_window};

use super::holds::HoldId;
use facts::{Outage, Upgrade, Watching};
use leased::{Memory, Release, Stage};
use seat::Seat;
use terms::Outcome;

#[derive(Debug)]
pub(super) struct Machine<W> {
    key: Key,
    policy: Policy,
    clock: Clock,
    owners: fn() -> Result<OwnerToken, Error>,
    /// What the store knows of this process.
    seats: Vec<Seat>,
    queue: Queue<W, Outcome>,
    /// The waiter at the head of the line, if a holder wants to be exclusive.
    upgrade: Option<Upgrade>,
    /// How the latest task wants the lock to be passed on.
    manner: Manner,
    watch: Watching,
    /// When a watch that is not needed any more is given up.
    rest_at: Instant,
    /// When [`tick`](Self::tick) has something to do, if no event comes first.
    next: Option<Deadline>,
    closed: bool,
    /// How many holds there have been: the serial number of the latest.
    holds: u64,
    /// How many tokens the last lease used: the measure for the next reservation.
    used_last: u32,
    /// When a reader last came the short way.
    shared_at: Instant,
    /// For how many waiters the machine asks for permits at once.
    run: u32,
    /// How often in a row the store has refused a claim that no hint can reach.
    polls: u32,
    /// Since when this process has taken the lock turn after turn without hearing whether others want it.
    alone_since: Option<Instant>,
    /// The next claim lets other processes go first: until the first instant if a hint says that the key is
    /// free, and until the second in any case.
    courtesy: Option<(Instant, Instant)>,
    /// What the latest lease has left for the next.
    memory: Option<Memory>,
    /// The store did not answer the last release: the next claim has waited for the store since then.
    trouble: Option<Outage>,
}

impl<W> Machine<W> {
    pub(super) fn new(
        key: Key,
        policy: Policy,
        clock: Clock,
        owners: fn() -> Result<OwnerToken, Error>,
    ) -> Self {
        Self {
            key,
            policy,
            clock,
            owners,
            seats: vec![Seat::Free],
            queue: Queue::new(),
            upgrade: None,
            manner: Manner { handoff: Handoff::Fair, cache: None },
            watch: Watching::Off,
            rest_at: Instant::FAR_FUTURE,
            next: None,
            closed: false,
            holds: 0,
            used_last: 0,
            shared_at: Instant::from_nanos(0),
            run: 1,
            polls: 0,
            alone_since: None,
            courtesy: None,
            memory: None,
            trouble: None,
        }
    }

    // ---- What others ask ----

    /// When [`tick`](Self::tick) has something to do, if no event comes first.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        self.next
    }

    /// Whether a holder of this process has the lock.
    pub(super) fn is_held(&self) -> bool {
        self.seats.iter().filter_map(Seat::live).any(|leased| !leased.holds.is_empty())
    }

    /// Whether a lease is here although no holder has it.
    pub(super) fn is_cached(&self) -> bool {
        self.queue.is_empty()
            && self.seats.iter().filter_map(Seat::live).any(|leased| leased.is_idle())
    }

    /// The claims to be released if the machine goes away now.
    pub(super) fn left_behind(&self) -> impl Iterator<Item = &Claim> {
        let idle = self.seats.iter().filter_map(Seat::live).filter(|leased| leased.is_idle());
        idle.map(|leased| &leased.claim)
    }

    /// The claim under which the store knows the lease of this hold, unless the lease is over.
    pub(super) fn claim(&self, hold: HoldId) -> Option<&Claim> {
        let leased = self.seats.get(hold.seat())?.live()?;
        leased.holds.get(hold).map(|_| &leased.claim)
    }

    /// Whether a release has failed and waits for another try.
    pub(super) fn is_retrying(&self) -> bool {
        self.seats.iter().filter_map(Seat::leased).any(|leased| {
            matches!(&leased.stage, Stage::Going(going)
                if matches!(going.release, Release::Failed(_)))
        })
    }

    // ---- Waiters ----

    /// A task wants the lock.
    pub(super) fn enter(
        &mut self,
        want: Mode,
        patience: Patience,
        manner: Manner,
        pass: &mut Pass<W>,
    ) -> Entered {
        let now = pass.now;
        if let Some(denial) = self.refuses(want, now) {
            return Entered::Done(Err(denial));
        }
        let first = self.queue.is_empty();
        if patience == Patience::Try && !first {
            return Entered::Done(Err(Denial::WouldBlock));
        }
        self.manner = manner;
        if first && self.upgrade.is_none() {
            self.take_back(want, now);
        }
        let id = self.queue.push(patience, want);
        self.settle(pass);
        if let Some(outcome) = self.queue.take(id) {
            return Entered::Done(outcome);
        }
        match first.then(|| pass.take_attempt()).flatten() {
            Some(request) => Entered::Attempt(id, request),
            None => Entered::Queued(id),
        }
    }

    /// Why a newcomer cannot even wait.
    fn refuses(&self, want: Mode, now: Instant) -> Option<Denial> {
        if self.closed {
            return Some(Denial::Closed);
        }
        if !want.is_joint() {
            return None;
        }
        // The guards of one owner would wait for themselves.
        self.seats.iter().filter_map(Seat::leased).find_map(|leased| match leased.stage {
            Stage::Lost(loss) => Some(Denial::Lost(loss)),
            Stage::Live if leased.is_held() && !leased.lease.is_valid(now) => {
                Some(Denial::Lost(LeaseLost::new(LossReason::Expired)))
            }
            _ => None,
        })
    }

    /// A waiter asks what became of it; `None` leaves its waker, and hands out the former one.
    pub(super) fn poll(&mut self, id: WaiterId, waker: &mut Option<W>) -> Option<Outcome> {
        if self.queue.park(id, waker) { None } else { self.queue.take(id) }
    }

    /// What became of a waiter, if anything did.
    pub(super) fn take(&mut self, id: WaiterId) -> Option<Outcome> {
        self.queue.take(id)
    }

    /// The waker that a waiter has left.
    pub(super) fn parked(&self, id: WaiterId) -> Option<&W> {
        self.queue.parked(id)
    }

    /// Takes back the waker that a waiter has left.
    pub(super) fn unpark(&mut self, id: WaiterId) -> Option<W> {
        self.queue.unpark(id)
    }

    /// A waiter leaves, whatever its state.
    pub(super) fn cancel(&mut self, id: WaiterId, manner: Manner, pass: &mut Pass<W>) {
        let (waker, outcome) = self.queue.remove(id);
        pass.discard(waker);
        match outcome {
            Some(Ok(ticket)) => drop(self.release(ticket.hold, manner, pass)),
            Some(Err(_)) | None => self.settle(pass),
        }
    }

    /// A waiter for an upgrade leaves. Its hold stays as it is.
    pub(super) fn abandon_upgrade(&mut self, id: WaiterId, pass: &mut Pass<W>) {
        let now = pass.now;
        if self.upgrade.as_ref().is_some_and(|upgrade| upgrade.id == id) {
            self.leave_upgrade(now);
        }
        pass.discard(self.queue.remove(id).0);
        self.settle(pass);
    }

    // ---- Time, and the end ----

    /// Time has passed.
    pub(super) fn tick(&mut self, pass: &mut Pass<W>) {
        self.expire_waiters(pass);
        self.settle(pass);
    }

    /// Refuses newcomers and sends the waiters home. The current holds go on.
    pub(super) fn close(&mut self, pass: &mut Pass<W>) {
        self.closed = true;
        self.deny_all(&Denial::Closed, pass);
        self.settle(pass);
    }

    /// There is no driver any more that renews, releases or listens.
    pub(super) fn stop(&mut self, error: &Error, pass: &mut Pass<W>) {
        self.closed = true;
        self.deny_all(&Denial::Failed(error.clone()), pass);
        for seat in 0..self.seats.len() {
            let leased = self.seats[seat].leased();
            if leased.is_some_and(|leased| leased.is_held()) {
                self.lose(seat, LossReason::DriverStopped, pass);
            }
            self.drop_failed_release(seat);
        }
        self.settle(pass);
    }
}
