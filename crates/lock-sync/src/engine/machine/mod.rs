//! The state machine of one key: events in, passes out.
//!
//! The machine makes every decision about a lock inside one process, and carries out none of them. It has no
//! runtime and no I/O. Each event brings the time, and the work for the shell comes back as a [`Pass`].
//! Therefore tests can feed it any events in any order.
//!
//! One lease from the store serves many holders of this process, as long as their modes fit on it together. If no
//! lease has room for the first waiter and the store may grant another lease beside the present ones, the machine
//! asks for that lease. Each lease has a *seat*. Each group that holds the key jointly has a machine of its own.
//!
//! An event records facts. Then [`settle`] compares each seat with its [`plan`], and takes the steps that are due.
//! The plan chooses these steps, and no event does.
//!
//! The machine keeps these invariants in every order of events:
//! - the modes of simultaneous holders are compatible;
//! - waiters are served in the order in which they came;
//! - the machine has at most one request for a lease under way, and each claim has an owner token of its own;
//! - the machine drops a claim that the store may hold only when the claim is released or its lease has
//!   ended;
//! - while other processes wait, the lock goes back to the store within the budget;
//! - every waiter gets an outcome.

mod asking;
mod converting;
mod facts;
mod gate;
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
mod terms;
mod watching;
mod writing;

use std::sync::Arc;

use lock_core::{Acquire, Claim, Error, Instant, Key, Mode, OwnerToken};

use super::queue::{Patience, Queue, WaiterId};
use crate::error::LossReason;
use crate::handoff::Handoff;

pub(super) use gate::Opening;
pub(crate) use giving_back::Return;
pub(crate) use pass::Deadline;
use pass::Pass;
pub(super) use pass::{Fact, Op};
pub(crate) use releasing::Ending;
pub(super) use releasing::Rest;
pub(super) use terms::Entrance;
pub(crate) use terms::{AcquireAnswer, Denial, ReleaseAnswer, Ticket, Write};

use super::holdings::{HoldId, Holdings};
use super::manner::Manner;
use super::policy::Policy;
use super::request::Outage;
use super::validity::Validity;
use facts::{Upgrade, Watching};
use leased::{Leased, Stage};
use seat::Seat;
use terms::Outcome;

#[derive(Debug)]
pub(crate) struct Machine<W> {
    key: Key,
    policy: Policy,
    owners: fn() -> Result<OwnerToken, Error>,
    /// The claims of this process, one on each seat. The first seat always exists.
    seats: Vec<Seat>,
    queue: Queue<W, Outcome>,
    /// The upgrade that a holder waits for. Its waiter goes before the line.
    upgrade: Option<Upgrade>,
    /// How the task of the latest call wants the lock to be passed on.
    manner: Manner,
    watch: Watching,
    /// How often in a row the watch has failed.
    watch_failures: u32,
    /// When the machine gives up a watch that it no longer needs.
    rest_at: Instant,
    /// When [`tick`](Self::tick) has something to do, if no event comes first.
    pub(super) next: Option<Deadline>,
    closed: bool,
    /// How many holds there have been: the serial number of the latest.
    holds: u64,
    /// How many tokens the last lease used. The next reservation is sized by this number.
    used_last: u32,
    /// Holders on this seat with this manner pass the lease on without a look at the clock. Every event clears this.
    express: Option<(usize, Manner)>,
    /// When a holder that shares a lease last took the short way in.
    shared_at: Instant,
    /// For how many waiters the machine asks for permits in one request.
    run: u32,
    /// How often in a row the store has refused a claim that no hint can reach.
    polls: u32,
    /// Since when this process has taken the lock turn after turn without hearing whether other processes want it.
    alone_since: Option<Instant>,
    /// The next claim lets other processes go first. It asks at the first instant if a hint has said by then that
    /// the key is free, and at the second instant in any case.
    courtesy: Option<(Instant, Instant)>,
    /// The memory of the holds of the latest lease, for the next one.
    spare: Holdings,
    /// What the gate shows to its readers, and what holders see of a lease. Each lease takes it, unless an earlier
    /// holder still refers to it.
    lease: Arc<Validity>,
    /// The store did not answer the last release. The outage counts for the next claim.
    trouble: Option<Outage>,
    /// Every error of an outage. An error may own anything, so its last copy leaves in a pass.
    errors: Vec<Arc<Error>>,
    /// The time of the present event, and what the event has asked for so far.
    pass: Pass<W>,
}

impl<W> Machine<W> {
    /// `lease` is what the gate shows to its readers.
    pub(super) fn new(
        key: Key,
        policy: Policy,
        lease: Arc<Validity>,
        owners: fn() -> Result<OwnerToken, Error>,
    ) -> Self {
        Self {
            key,
            policy,
            owners,
            seats: vec![Seat::Free],
            queue: Queue::new(),
            upgrade: None,
            manner: Manner::new(Handoff::Fair),
            watch: Watching::Off,
            watch_failures: 0,
            rest_at: Instant::FAR_FUTURE,
            next: None,
            closed: false,
            holds: 0,
            used_last: 0,
            express: None,
            shared_at: Instant::from_nanos(0),
            run: 1,
            polls: 0,
            alone_since: None,
            courtesy: None,
            spare: Holdings::default(),
            lease,
            trouble: None,
            errors: Vec::new(),
            pass: Pass::at(Instant::from_nanos(0)),
        }
    }

    /// A claim with an owner token of its own.
    fn draw(&self, mode: Mode) -> Result<Claim, Error> {
        let owner = (self.owners)()?;
        let label = self.policy.label.as_ref();
        let owner = label.map_or(owner, |label| owner.of_client(label.mark));
        Ok(Claim::exclusive(self.key.clone(), owner).in_mode(mode))
    }

    /// A request for the lease of this claim, with the value if the task of the latest call wants it.
    fn request(&self, claim: Claim, queued: bool) -> Acquire {
        let wants_value = self.manner.wants_value() && claim.mode == Mode::Exclusive;
        let mut request = Acquire::new(claim, self.policy.ttl).reserving(self.reserve());
        (request.queue, request.value) = (queued, wants_value);
        request
    }

    // ---- Events ----

    /// An event begins now. All calls up to [`end`](Self::end) belong to the event. The last of them must be, or
    /// imply, [`settle`](Self::settle).
    pub(super) fn begin(&mut self, now: Instant) {
        self.pass.now = now;
        self.express = None;
    }

    /// The event ends. Returns the work that it asks for.
    pub(super) fn end(&mut self) -> Pass<W> {
        let over = self.errors.extract_if(.., |error| Arc::strong_count(error) == 1);
        self.pass.errors.extend(over);
        let next = Pass::at(self.pass.now);
        std::mem::replace(&mut self.pass, next)
    }

    // ---- Queries ----

    /// Whether this process has a holder.
    pub(super) fn is_held(&self) -> bool {
        self.leases().any(Leased::is_held)
    }

    /// Whether this process keeps a lease that no holder uses and no waiter wants.
    pub(super) fn is_cached(&self) -> bool {
        self.queue.is_empty() && self.has_idle_lease()
    }

    /// Whether this process keeps a lease that no holder uses.
    pub(super) fn has_idle_lease(&self) -> bool {
        self.leases().any(Leased::is_idle)
    }

    /// The claim under which the store knows the lease of this hold, unless the lease is over.
    pub(super) fn claim(&self, hold: HoldId) -> Option<&Claim> {
        self.live(hold).filter(|leased| leased.holds.get(hold).is_some()).map(|it| &it.claim)
    }

    /// The lease of this hold, if this process has the lease and has not given it up.
    fn live(&self, hold: HoldId) -> Option<&Leased> {
        self.seats.get(hold.seat())?.live()
    }

    fn live_mut(&mut self, hold: HoldId) -> Option<&mut Leased> {
        self.seats.get_mut(hold.seat())?.live_mut()
    }

    /// The seat that is not free, if there is one such seat.
    #[inline]
    fn only_seat(&self) -> Option<usize> {
        let mut taken = (0..).zip(&self.seats).filter(|(_, seat)| !seat.is_free());
        let (only, _) = taken.next()?;
        taken.next().is_none().then_some(only)
    }

    fn leases(&self) -> impl Iterator<Item = &Leased> {
        self.seats.iter().filter_map(Seat::leased)
    }

    fn leases_mut(&mut self) -> impl Iterator<Item = &mut Leased> {
        self.seats.iter_mut().filter_map(Seat::leased_mut)
    }

    /// The seat of this owner's claim.
    fn seat_of(&self, owner: OwnerToken) -> Option<usize> {
        let owners = |seat: &Seat| seat.claim().is_some_and(|claim| claim.owner == owner);
        self.seats.iter().position(owners)
    }

    /// Whether a release has to wait although no guard keeps the entry alive. There are two cases: the release has
    /// failed and is due again later, or forgotten permits wait until the unused permits beside them are back.
    pub(super) fn release_waits(&self) -> bool {
        self.seats.iter().any(|seat| {
            let fails = seat.going().is_some_and(|going| going.release.is_failing());
            let left = |leased: &Leased| leased.holds.live() == 0 && leased.holds.has_forgotten();
            fails || seat.live().is_some_and(left)
        })
    }

    // ---- Waiters ----

    /// A task wants the lock.
    pub(super) fn enter(&mut self, want: Mode, patience: Patience, manner: Manner) -> Entrance {
        if let Some(denial) = self.refuses(want) {
            return Entrance::Done(Err(denial));
        }
        let first = self.queue.is_empty();
        if patience == Patience::Try && !first {
            return Entrance::Done(Err(Denial::WouldBlock));
        }
        self.manner = manner;
        if first && self.upgrade.is_none() {
            self.take_back(want);
        }
        let id = self.queue.push(patience, want);
        self.settle();
        if let Some(outcome) = self.queue.take(id) {
            return Entrance::Done(outcome.map(Ticket::without_waiting));
        }
        match self.pass.attempt.take_if(|_| first) {
            Some(request) => Entrance::Attempt(id, request),
            None => Entrance::Queued(id),
        }
    }

    /// The reason to refuse a caller before it waits, if there is one.
    fn refuses(&self, want: Mode) -> Option<Denial> {
        if self.closed {
            return Some(Denial::Closed);
        }
        // A group that has lost its lease is denied until its guards are gone. To wait for them would be to wait for
        // itself.
        let mut of_group = self.leases().filter(|_| want.is_joint());
        of_group.find_map(|leased| match leased.stage {
            Stage::Lost(loss) => Some(Denial::Lost(loss)),
            _ => None,
        })
    }

    /// The outcome of a waiter. Without an outcome the waiter leaves `waker`, and `waker` becomes the one that it
    /// left before.
    #[inline]
    pub(super) fn poll(&mut self, id: WaiterId, waker: &mut Option<W>) -> Option<Outcome> {
        if self.queue.park(id, waker) { None } else { self.queue.take(id) }
    }

    /// The waker that a waiter has left.
    pub(super) fn parked(&self, id: WaiterId) -> Option<&W> {
        self.queue.parked(id)
    }

    /// Takes back the waker that a waiter has left.
    pub(super) fn unpark(&mut self, id: WaiterId) -> Option<W> {
        self.queue.unpark(id)
    }

    /// Wakes the waiters in line. Each keeps its place.
    pub(super) fn rouse(&mut self) {
        for (id, ..) in self.queue.waiting() {
            self.pass.wake(self.queue.unpark(id));
        }
    }

    /// A waiter leaves, whatever its state. If it waits for an upgrade, its hold stays as it is.
    pub(super) fn cancel(&mut self, id: WaiterId, manner: Manner) -> Option<Denial> {
        self.leave_upgrade(|upgrade| upgrade.id == id);
        let (waker, outcome) = self.queue.remove(id);
        self.pass.dropped.extend(waker);
        match outcome? {
            Ok(ticket) => {
                self.release(ticket.hold, manner);
                None
            }
            Err(denial) => Some(denial),
        }
    }

    // ---- The end ----

    /// Refuses new callers and denies the waiters. The present holds go on.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The driver has gone: nothing renews, releases or listens any more.
    pub(super) fn stop(&mut self, error: &Error) {
        self.closed = true;
        self.deny_upgrade(Denial::Failed(error.clone()));
        self.deny_all(&Denial::Failed(error.clone()));
        for seat in 0..self.seats.len() {
            let going = self.seats[seat].going();
            if self.seats[seat].leased().is_some_and(Leased::is_held) {
                self.lose(seat, LossReason::DriverStopped);
            } else if going.is_some_and(|going| going.release.is_failing()) {
                // No driver repeats the release.
                self.seats[seat] = Seat::Free;
            }
        }
    }
}
