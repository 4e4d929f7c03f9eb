//! The state machine of one key: events in, actions out.
//!
//! It decides everything that happens to a lock inside one process, and does nothing. No runtime,
//! no clock, no I/O: every event brings the time, and what must be done comes back as
//! [`Effects`]. That is why every order of events can be tested.
//!
//! One lease on the store serves many holders here: those that fit on it together. Where a lease does not
//! do for the first who waits, and the store may grant a second one beside it, that is asked for. Each has
//! a *seat*, which tells what the store knows of it.
//!
//! What it upholds, whatever the order of events:
//! - those who hold the lock at once may do so together;
//! - waiters are served in the order in which they came;
//! - this process has one request for a lease per key on its way at a time, and one owner per request;
//! - a claim that may be held on the store is released, or its lease has ended, before the machine
//!   forgets it;
//! - while others wait elsewhere, the lock goes back to the store within the budget;
//! - every waiter gets an outcome.

mod asking;
mod converting;
mod effects;
mod held;
mod holding;
mod holds;
mod losing;
mod renewing;
mod timing;
mod upgrading;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Acquire, Claim, Clock, Demand, Error, FencingToken, Instant, Key, Mode, OwnerToken, Ttl,
};

use super::lease::Lease;
use super::queue::{Patience, Queue, WaiterId};
use crate::error::{LeaseLost, LossReason};
use crate::handoff::Handoff;

pub(super) use converting::Part;
pub(crate) use effects::Deadline;
pub(super) use effects::{Effects, Op};
use held::Held;
pub(super) use holding::Ending;
pub(crate) use holds::HoldId;
use holds::{Holds, beside, covers};
use renewing::LOW_TOKENS;
pub(crate) use timing::renewal_window;
use upgrading::Upgrade;
use watching::Watching;

/// How the locks of one [`Locks`](crate::Locks) behave.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) ttl: Ttl,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
}

/// What a holder wants to become of the lock after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) handoff: Handoff,
    /// How long the lease is kept when nobody here wants it.
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

type Outcome = Result<Ticket, Denial>;

/// How an attempt to enter began.
#[derive(Debug)]
pub(super) enum Entered {
    /// It is over already.
    Done(Outcome),
    /// Send this request on behalf of the waiter, and report with
    /// [`attempt_done`](Machine::attempt_done) no matter what becomes of the waiter.
    Attempt(WaiterId, Acquire),
    /// Somebody else's turn comes first.
    Queued(WaiterId),
}

#[derive(Debug)]
pub(super) struct Machine<W> {
    key: Key,
    policy: Policy,
    clock: Clock,
    owners: fn() -> Result<OwnerToken, Error>,
    /// What the store knows of this process.
    seats: Vec<Phase>,
    queue: Queue<W, Outcome>,
    /// The hold that wants to be exclusive, if there is one.
    upgrade: Option<Upgrade<W>>,
    /// What became of others that did, until somebody asks.
    upgraded: Vec<(HoldId, Outcome)>,
    watch: Watching,
    /// When a watch that is not needed any more is given up.
    rest_at: Instant,
    closed: bool,
    /// How many holds there have been: the serial number of the latest.
    holds: u64,
    /// Tokens of permits up to this one have been given out, here or elsewhere.
    last_token: Option<FencingToken>,
    /// How many tokens the last lease used: the measure for the next reservation.
    used_last: u32,
    /// When a reader last came the short way.
    shared_at: Instant,
    /// For how many of those in line permits are asked for at once.
    run: u32,
    /// How often in a row the store has refused a claim that no hint can reach.
    polls: u32,
    /// Since when this process has taken the lock turn after turn without hearing whether others want it.
    alone_since: Option<Instant>,
}

/// What the store knows of one claim. What is known of a lease is moved from phase to phase: it is boxed.
#[derive(Debug)]
enum Phase {
    /// Nothing.
    Idle,
    /// A request is under way.
    Attempting {
        claim: Claim,
        /// How many had joined the line when the claim was drawn.
        line: u64,
        /// No earlier request for it was answered.
        fresh: bool,
        /// It asks for a place in the store's queue.
        queued: bool,
        /// The claim may have one already, or the lease itself.
        placed: bool,
        /// The store stopped answering: the claim may be held.
        outage: Option<Outage>,
        heard: Heard,
        /// A hint said that others wait.
        wanted: bool,
    },
    /// Refused: waiting for a hint, or for the time to ask again.
    Waiting {
        claim: Claim,
        line: u64,
        outage: Option<Outage>,
        /// The claim has a place in the store's queue, or may have one.
        placed: bool,
        /// Hints before this are answered at this: others go first.
        yielding: Option<Instant>,
        until: Instant,
        /// Whether the request may be repeated a little earlier, in company: only to keep its place.
        relaxed: bool,
    },
    /// Held by somebody here.
    Held(Box<Held>),
    /// Held by nobody here, but not given up: for the sake of the next who wants it, or because
    /// the next has no token yet.
    Kept { held: Box<Held>, manner: Manner, until: Instant },
    /// The lease is lost, but guards live that had it, and with them a way to the data. Those who
    /// wait here wait for their end; the lock is others' meanwhile.
    Lost { mode: Mode, holds: Holds, loss: LeaseLost },
    /// Given up by the last holder, not yet by the store.
    Releasing {
        held: Box<Held>,
        stage: Stage,
        /// The claim that asks for a place in the queue in its stead.
        next: Option<Next>,
        /// The store stopped answering.
        outage: Option<Outage>,
    },
}

/// A claim that is to be queued by the release of another.
#[derive(Debug)]
struct Next {
    claim: Claim,
    line: u64,
    heard: Heard,
}

/// What hints said about a claim while a request for it was under way. The answer may be older.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// A refusal may be out of date: ask again at once.
    again: bool,
    /// When to ask again at the latest.
    ask_by: Instant,
}

impl Heard {
    const NOTHING: Self = Self { again: false, ask_by: Instant::FAR_FUTURE };
}

#[derive(Debug)]
enum Stage {
    /// Nothing was sent yet: the lease can still be used.
    Queued,
    /// It is under way. At this instant somebody looks after it.
    Sent(Instant),
    /// It failed, and is due again at this instant.
    Failed(Instant),
}

#[derive(Clone, Debug)]
struct Outage {
    since: Instant,
    error: Error,
    tries: u32,
}

impl Outage {
    /// The outage so far, and one more failure.
    fn continued(before: Option<Self>, now: Instant, error: Error) -> Self {
        let (since, tries) = before.map_or((now, 0), |outage| (outage.since, outage.tries + 1));
        Self { since, error, tries }
    }
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
            seats: vec![Phase::Idle],
            queue: Queue::new(),
            upgrade: None,
            upgraded: Vec::new(),
            watch: Watching::Off,
            rest_at: Instant::FAR_FUTURE,
            closed: false,
            holds: 0,
            last_token: None,
            used_last: 0,
            shared_at: Instant::from_nanos(0),
            run: 1,
            polls: 0,
            alone_since: None,
        }
    }

    /// Whether nothing is held, wanted or under way.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.seats.iter().all(|phase| matches!(phase, Phase::Idle)) && self.queue.is_empty()
    }

    /// Whose claim it is that is held, wanted or given up, on the first seat.
    #[cfg(test)]
    pub(super) fn owner(&self) -> Option<OwnerToken> {
        match &self.seats[0] {
            Phase::Idle | Phase::Lost { .. } => None,
            Phase::Attempting { claim, .. } | Phase::Waiting { claim, .. } => Some(claim.owner),
            Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } => {
                Some(held.claim.owner)
            }
        }
    }

    /// Whose leases are waited for to be renewed or converted.
    #[cfg(test)]
    pub(super) fn renewing(&self) -> Vec<OwnerToken> {
        let owner = |phase: &Phase| match phase {
            Phase::Held(held) | Phase::Kept { held, .. } if held.renewing => Some(held.claim.owner),
            _ => None,
        };
        self.seats.iter().filter_map(owner).collect()
    }

    /// Whether a renewal of the current lease is under way.
    #[cfg(test)]
    pub(super) fn is_renewing(&self) -> bool {
        matches!(&self.seats[0], Phase::Held(held) | Phase::Kept { held, .. } if held.renewing)
    }

    /// Whether it was refused, and waits.
    #[cfg(test)]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.seats[0], Phase::Waiting { .. })
    }

    /// When it asks again, if it was refused and the store answers.
    #[cfg(test)]
    pub(super) fn asks_at(&self) -> Option<Instant> {
        match &self.seats[0] {
            Phase::Waiting { until, outage: None, .. } => Some(*until),
            _ => None,
        }
    }

    /// What is known of others who wait for what is held.
    #[cfg(test)]
    pub(super) fn demand(&self) -> Option<Demand> {
        match &self.seats[0] {
            Phase::Held(held) | Phase::Kept { held, .. } => Some(held.demand()),
            _ => None,
        }
    }

    /// Whether somebody here holds the lock.
    pub(super) fn is_held(&self) -> bool {
        self.seats.iter().any(|phase| matches!(phase, Phase::Held(_)))
    }

    /// Whether a lease is kept although nobody here holds it.
    pub(super) fn is_cached(&self) -> bool {
        self.queue.is_empty() && self.seats.iter().any(|phase| matches!(phase, Phase::Kept { .. }))
    }

    /// The claims to be released if the machine goes away now.
    pub(super) fn left_behind(&self) -> impl Iterator<Item = &Claim> {
        self.seats.iter().filter_map(|phase| match phase {
            Phase::Kept { held, .. } => Some(&held.claim),
            _ => None,
        })
    }

    /// The claim under which the store knows what this hold is on, unless that is over.
    pub(super) fn claim(&self, hold: HoldId) -> Option<&Claim> {
        match self.seats.get(hold.seat()) {
            Some(Phase::Held(held)) if held.holds.get(hold).is_some() => Some(&held.claim),
            _ => None,
        }
    }

    /// A task wants the lock.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        want: Mode,
        patience: Patience,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> Entered {
        if self.closed {
            return Entered::Done(Err(Denial::Closed));
        }
        // What its owner holds already it waits for behind nobody.
        let joint = matches!(want, Mode::Joint { .. });
        if joint && let Some(outcome) = self.enter_again(now, want, manner) {
            return Entered::Done(outcome);
        }
        let first = self.queue.is_empty();
        if first && let Some(ticket) = self.enter_at_once(now, want, manner, effects) {
            return Entered::Done(Ok(ticket));
        }
        // What is kept here for nobody in particular makes way.
        self.clear_kept(now, want, effects);
        if first && let Some(seat) = self.to_restock(now, want) {
            let id = self.queue.push(patience, want);
            self.restock(seat, now, effects);
            return Entered::Queued(id);
        }
        if (first || joint) && self.may_ask_after_flush(now, want, effects) {
            let id = self.queue.push(patience, want);
            return match self.begin_attempt(now, want, patience != Patience::Try, None) {
                Ok(request) => Entered::Attempt(id, request),
                Err(error) => {
                    self.queue.remove(id);
                    Entered::Done(Err(Denial::Failed(error)))
                }
            };
        }
        if patience == Patience::Try && !(first && self.is_in_motion()) {
            return Entered::Done(Err(Denial::WouldBlock));
        }
        Entered::Queued(self.queue.push(patience, want))
    }

    /// The short way for one more reader to those who read already, if there is nothing else to decide.
    pub(super) fn share(&mut self, now: Instant, manner: Manner) -> Option<Ticket> {
        let plain = !self.closed
            && self.queue.is_empty()
            && self.upgrade.is_none()
            && self.policy.max_hold.is_none();
        if !plain {
            return None;
        }
        let quiet = |phase: &Phase| matches!(phase, Phase::Held(held) | Phase::Kept { held, .. } if held.is_shared_quietly());
        let seat = self.seats.iter().position(quiet)?;
        if self.seats.len() > 1 && !self.is_tolerated(seat, Mode::Shared) {
            return None;
        }
        let phase = &mut self.seats[seat];
        let (Phase::Held(held) | Phase::Kept { held, .. }) = phase else { return None };
        if !held.may_go_on(now, manner, &self.policy) {
            return None;
        }
        self.holds += 1;
        self.shared_at = now;
        let ticket = held.share((seat, self.holds), manner)?;
        if matches!(phase, Phase::Kept { .. })
            && let Phase::Kept { held, .. } = std::mem::replace(phase, Phase::Idle)
        {
            *phase = Phase::Held(held);
        }
        Some(ticket)
    }

    /// The short way out for a reader beside whom others go on reading. Returns whether it was taken.
    pub(super) fn unshare(&mut self, hold: HoldId) -> bool {
        let plain = self.queue.is_empty() && self.upgrade.is_none();
        match self.seats.get_mut(hold.seat()) {
            Some(Phase::Held(held)) if plain => held.holds.remove_beside_others(hold),
            _ => false,
        }
    }

    /// The short way out for the last reader of a lease that stays here for a moment, counted from when the
    /// last reader came: that takes no clock. `armed` is when the machine is going to be looked at in any
    /// case. Returns whether it was taken.
    pub(super) fn linger(&mut self, hold: HoldId, manner: Manner, armed: Instant) -> bool {
        let (seat, now) = (hold.seat(), self.shared_at);
        let Some(Phase::Held(held)) = self.seats.get(seat) else { return false };
        let until = held.idles(manner).map(|idle| now + idle);
        let plain = self.queue.is_empty()
            && self.upgrade.is_none()
            && manner.handoff != Handoff::Never
            && held.tokens_left() >= LOW_TOKENS
            && held.demand() == Demand::Quiet
            && self.may_keep(now, held);
        let Some(until) = until.filter(|until| plain && armed <= *until) else { return false };
        let Phase::Held(held) = &mut self.seats[seat] else { return false };
        if !held.holds.remove_alone(hold, now) {
            return false;
        }
        if let Phase::Held(held) = std::mem::replace(&mut self.seats[seat], Phase::Idle) {
            self.seats[seat] = Phase::Kept { held, manner, until };
        }
        true
    }

    /// Takes away seats at the end that nobody has any more.
    pub(super) fn clear_seats(&mut self) {
        while let [_, .., Phase::Idle] = &self.seats[..] {
            self.seats.pop();
        }
    }

    /// Whether something is about to happen without anybody's letting go: the next token comes, or the
    /// answer to an attempt or a release that nobody here waits for any more.
    fn is_in_motion(&self) -> bool {
        self.seats.iter().any(|phase| match phase {
            Phase::Attempting { .. } | Phase::Kept { .. } | Phase::Releasing { .. } => true,
            Phase::Held(held) => held.has_idle_permits(),
            _ => false,
        })
    }

    /// Enters a lease that is here, if there is one with room.
    fn enter_at_once(
        &mut self,
        now: Instant,
        want: Mode,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> Option<Ticket> {
        for seat in 0..self.seats.len() {
            match &self.seats[seat] {
                Phase::Held(held)
                    if held.has_room(want)
                        && !self.is_upgrading(seat)
                        && self.is_tolerated(seat, want)
                        && self.admits(seat, now, manner, None) =>
                {
                    let ticket = self.ticket(seat, now, want, manner);
                    if ticket.is_some() {
                        self.settle_in(seat, now, effects);
                        return ticket;
                    }
                }
                Phase::Kept { .. } | Phase::Releasing { stage: Stage::Queued, .. } => {
                    if let Some(ticket) = self.take_back(seat, now, want, manner, effects) {
                        return Some(ticket);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Enters what the group of this hold has here already. An outcome only if it has something.
    fn enter_again(&mut self, now: Instant, want: Mode, manner: Manner) -> Option<Outcome> {
        for seat in 0..self.seats.len() {
            match &self.seats[seat] {
                Phase::Held(held) if held.claim.mode == want && held.holds.live() > 0 => {
                    if !held.lease.is_valid(now) {
                        return Some(Err(Denial::Lost(LeaseLost::new(LossReason::Expired))));
                    }
                    return self.ticket(seat, now, want, manner).map(Ok);
                }
                Phase::Lost { mode, loss, .. } if *mode == want => {
                    return Some(Err(Denial::Lost(*loss)));
                }
                _ => {}
            }
        }
        None
    }

    /// A task that waits without a limit joins the line and leaves its waker, if there is nothing else
    /// to decide. That takes no clock, and one look at the line.
    pub(super) fn join(&mut self, want: Mode, waker: impl FnOnce() -> W) -> Option<WaiterId> {
        let waits = match (&self.seats[..], want) {
            (_, Mode::Joint { .. }) => false,
            ([Phase::Held(held)], _) => !self.queue.is_empty() || !held.has_room(want),
            ([Phase::Waiting { .. } | Phase::Attempting { .. }], _) => true,
            ([Phase::Lost { mode, holds, .. }], _) => !holds.tolerate(*mode, want),
            ([Phase::Releasing { stage: Stage::Sent(_), .. }], _) => true,
            _ => false,
        };
        let asks = matches!(&self.seats[..], [Phase::Held(held)] if beside(held.claim.mode, want));
        if self.closed || !waits || asks && self.queue.is_empty() {
            return None;
        }
        let id = self.queue.push(Patience::Forever, want);
        self.queue.park(id, |_| waker());
        Some(id)
    }

    /// A waiter asks what became of it; `None` leaves its waker.
    pub(super) fn poll(
        &mut self,
        id: WaiterId,
        waker: impl FnOnce(Option<W>) -> W,
    ) -> Option<Outcome> {
        if self.queue.park(id, waker) { None } else { self.queue.take(id) }
    }

    /// Takes back the waker that a waiter has left.
    pub(super) fn unpark(&mut self, id: WaiterId) -> Option<W> {
        self.queue.unpark(id)
    }

    /// A waiter leaves, whatever its state.
    pub(super) fn cancel(
        &mut self,
        now: Instant,
        id: WaiterId,
        manner: Manner,
        effects: &mut Effects<W>,
    ) {
        match self.queue.remove(id) {
            Some(Ok(ticket)) => {
                self.release(now, ticket.hold, manner, effects);
            }
            Some(Err(_)) | None => self.line_changed(now, effects),
        }
    }

    /// Refuses newcomers and sends the waiters home. The current holds go on.
    pub(super) fn close(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.closed = true;
        self.deny_all(&Denial::Closed, effects);
        self.deny_upgrade(now, Denial::Closed, effects);
        self.line_changed(now, effects);
        self.stop_watching(effects);
    }

    /// There is no driver any more: nobody renews, releases or listens.
    pub(super) fn stop(&mut self, now: Instant, error: &Error, effects: &mut Effects<W>) {
        self.closed = true;
        self.deny_all(&Denial::Failed(error.clone()), effects);
        for seat in 0..self.seats.len() {
            self.lose(seat, now, LossReason::DriverStopped, effects);
            if matches!(self.seats[seat], Phase::Releasing { stage: Stage::Failed(_), .. }) {
                self.seats[seat] = Phase::Idle;
            }
        }
        self.line_changed(now, effects);
        self.stop_watching(effects);
    }

    /// Whoever was first in line may not be any more: lets go of claims that nobody here waits for, and
    /// sees to whoever is first now.
    fn line_changed(&mut self, now: Instant, effects: &mut Effects<W>) {
        if self.queue.is_empty() {
            self.rest_watch(now);
        }
        for seat in 0..self.seats.len() {
            self.settle_seat(seat, now, effects);
        }
        if !self.queue.is_empty() {
            self.serve_here(now, effects);
            self.next_attempt(now, effects);
        }
    }

    /// Lets go of the claim on this seat if nobody here waits for it.
    fn settle_seat(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let over = match &self.seats[seat] {
            Phase::Waiting { claim, .. } => !self.is_wanted(claim.mode),
            Phase::Kept { until, .. } => self.queue.is_empty() && (self.closed || now >= *until),
            _ => false,
        };
        if !over {
            return;
        }
        match std::mem::replace(&mut self.seats[seat], Phase::Idle) {
            // The claim may be held, or have a place in the queue: the store must hear of it.
            Phase::Waiting { claim, outage, placed, .. } if outage.is_some() || placed => {
                let end = now + self.policy.ttl.duration();
                self.give_up(seat, Held::unseen(self.clock, claim, end, now), effects);
            }
            Phase::Kept { held, .. } => self.give_up(seat, held, effects),
            _ => {}
        }
    }

    /// Whether a claim in this mode is what somebody here waits for now.
    fn is_wanted(&self, mode: Mode) -> bool {
        match mode {
            Mode::Joint { .. } => self.queue.find(mode).is_some(),
            _ => self.queue.first_want() == Some(mode),
        }
    }
}
