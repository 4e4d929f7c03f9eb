//! The state machine of one key: events in, actions out.
//!
//! It decides everything that happens to a lock inside one process, and does nothing. No runtime,
//! no clock, no I/O: every event brings the time, and what must be done comes back as
//! [`Effects`]. That is why every order of events can be tested.
//!
//! What it upholds, whatever the order of events:
//! - at most one hold is current;
//! - waiters are served in the order in which they came;
//! - the store sees one request of this process per key at a time, and one owner per request;
//! - a claim that may be held on the store is released, or its lease has ended, before the machine
//!   forgets it;
//! - while others wait elsewhere, the lock goes back to the store within the budget;
//! - every waiter gets an outcome.

mod asking;
mod effects;
mod held;
mod holding;
mod timing;
mod watching;

use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use lock_core::Demand;
use lock_core::{Acquire, Claim, Clock, Error, Instant, Key, OwnerToken, Ttl};

use super::lease::Lease;
use super::queue::{Patience, Queue, WaiterId};
use crate::error::LossReason;
use crate::handoff::Handoff;

pub(crate) use effects::Deadline;
pub(super) use effects::{Effects, Op};
use held::Held;
pub(crate) use timing::renewal_window;
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
    pub(crate) hold: u64,
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
    phase: Phase,
    queue: Queue<W, Outcome>,
    watch: Watching,
    /// When a watch that is not needed any more is given up.
    rest_at: Instant,
    closed: bool,
    /// How many holds there have been: the name of the current one.
    holds: u64,
    /// How many tokens the last lease used: the measure for the next reservation.
    used_last: u32,
}

/// What the store knows of this process.
#[derive(Debug)]
enum Phase {
    /// Nothing.
    Idle,
    /// A request is under way.
    Attempting {
        claim: Claim,
        /// No earlier request for it was answered.
        fresh: bool,
        /// It asks for a place in the store's queue.
        queued: bool,
        /// The claim may have one already.
        placed: bool,
        /// The store stopped answering: the claim may be held.
        outage: Option<Outage>,
        /// A hint came meanwhile: a refusal may be out of date.
        again: bool,
        /// A hint said that others wait.
        wanted: bool,
    },
    /// Refused: waiting for a hint, or for the time to ask again.
    Waiting {
        claim: Claim,
        outage: Option<Outage>,
        /// The claim has a place in the store's queue, or may have one.
        placed: bool,
        /// Hints before this are answered at this: others go first.
        yielding: Option<Instant>,
        until: Instant,
    },
    /// Held by the current hold.
    Held(Held),
    /// Held by nobody here, but not given up: for the sake of the next who wants it, or because
    /// the next has no token yet.
    Kept { held: Held, manner: Manner, until: Instant },
    /// The lease is lost, but the guard of this hold lives, and with it a way to the data. Those who
    /// wait here wait for its end; the lock is others' meanwhile.
    Lost { hold: u64 },
    /// Given up by the last holder, not yet by the store.
    Releasing {
        held: Held,
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
    /// A hint came about it before the answer.
    again: bool,
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
            phase: Phase::Idle,
            queue: Queue::new(),
            watch: Watching::Off,
            rest_at: Instant::FAR_FUTURE,
            closed: false,
            holds: 0,
            used_last: 0,
        }
    }

    /// Whether nothing is held, wanted or under way.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.queue.is_empty()
    }

    /// Whose claim it is that is held, wanted or given up.
    #[cfg(test)]
    pub(super) fn owner(&self) -> Option<OwnerToken> {
        match &self.phase {
            Phase::Idle | Phase::Lost { .. } => None,
            Phase::Attempting { claim, .. } | Phase::Waiting { claim, .. } => Some(claim.owner),
            Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } => {
                Some(held.claim.owner)
            }
        }
    }

    /// Whether a renewal of the current lease is under way.
    #[cfg(test)]
    pub(super) fn is_renewing(&self) -> bool {
        matches!(&self.phase, Phase::Held(held) | Phase::Kept { held, .. } if held.renewing)
    }

    /// Whether it was refused, and waits.
    #[cfg(test)]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    /// What is known of others who wait for what is held.
    #[cfg(test)]
    pub(super) fn demand(&self) -> Option<Demand> {
        match &self.phase {
            Phase::Held(held) | Phase::Kept { held, .. } => Some(held.demand()),
            _ => None,
        }
    }

    /// Whether a hold is current.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held(_))
    }

    /// Whether the lease is kept although nobody here holds it.
    pub(super) fn is_cached(&self) -> bool {
        matches!(self.phase, Phase::Kept { .. }) && self.queue.is_empty()
    }

    /// The claim to be released if the machine goes away now.
    pub(super) fn left_behind(&self) -> Option<&Claim> {
        match &self.phase {
            Phase::Kept { held, .. } => Some(&held.claim),
            _ => None,
        }
    }

    /// A task wants the lock.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        patience: Patience,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> Entered {
        if self.closed {
            return Entered::Done(Err(Denial::Closed));
        }
        match &self.phase {
            Phase::Idle => {
                let id = self.queue.push(patience);
                return match self.begin_attempt(None) {
                    Ok(request) => Entered::Attempt(id, request),
                    Err(error) => {
                        self.queue.remove(id);
                        Entered::Done(Err(Denial::Failed(error)))
                    }
                };
            }
            Phase::Kept { .. } | Phase::Releasing { stage: Stage::Queued, .. }
                if self.queue.is_empty() =>
            {
                if let Some(ticket) = self.take_back(now, manner, effects) {
                    return Entered::Done(Ok(ticket));
                }
            }
            // Only for a moment: until the next token, or the answer to an attempt or a release that
            // nobody here waits for any more.
            Phase::Attempting { .. } | Phase::Releasing { .. } if self.queue.is_empty() => {}
            _ if patience == Patience::Try => return Entered::Done(Err(Denial::WouldBlock)),
            _ => {}
        }
        Entered::Queued(self.queue.push(patience))
    }

    /// A task that waits without a limit joins the line and leaves its waker, if there is nothing else
    /// to decide. That takes no clock, and one look at the line.
    pub(super) fn join(&mut self, waker: impl FnOnce() -> W) -> Option<WaiterId> {
        let waits = match &self.phase {
            Phase::Held(_) | Phase::Waiting { .. } | Phase::Attempting { .. } => true,
            Phase::Lost { .. } | Phase::Releasing { stage: Stage::Sent(_), .. } => true,
            Phase::Idle | Phase::Kept { .. } | Phase::Releasing { .. } => false,
        };
        if self.closed || !waits {
            return None;
        }
        let id = self.queue.push(Patience::Forever);
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
            Some(Err(_)) | None => self.settle_empty(now, effects),
        }
    }

    /// Refuses newcomers and sends the waiters home. The current hold goes on.
    pub(super) fn close(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.closed = true;
        self.deny_all(&Denial::Closed, effects);
        self.settle_empty(now, effects);
        self.stop_watching(effects);
    }

    /// There is no driver any more: nobody renews, releases or listens.
    pub(super) fn stop(&mut self, now: Instant, error: &Error, effects: &mut Effects<W>) {
        self.closed = true;
        self.deny_all(&Denial::Failed(error.clone()), effects);
        self.lose(now, LossReason::DriverStopped, effects);
        if matches!(self.phase, Phase::Releasing { stage: Stage::Failed(_), .. }) {
            self.phase = Phase::Idle;
        }
        self.settle_empty(now, effects);
        self.stop_watching(effects);
    }

    /// Lets go of a claim that nobody here waits for any more.
    fn settle_empty(&mut self, now: Instant, effects: &mut Effects<W>) {
        if !self.queue.is_empty() {
            return;
        }
        self.rest_watch(now);
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            // The claim may be held, or have a place in the queue: the store must hear of it.
            Phase::Waiting { claim, outage, placed, .. } if outage.is_some() || placed => {
                let end = now + self.policy.ttl.duration();
                self.give_up(Held::unseen(self.clock, claim, end, now), effects);
            }
            Phase::Waiting { .. } => {}
            Phase::Kept { held, until, .. } if self.closed || now >= until => {
                self.give_up(held, effects);
            }
            other => self.phase = other,
        }
    }

    /// Denies those at the front who did not come to wait.
    fn deny_tries(&mut self, denial: &Denial, effects: &mut Effects<W>) {
        while let Some((id, Patience::Try)) = self.queue.first() {
            let waker = self.queue.settle(id, Err(denial.clone()));
            effects.wake(waker);
        }
    }

    fn deny_all(&mut self, denial: &Denial, effects: &mut Effects<W>) {
        self.deny_unless(denial, effects, |_| false);
    }

    fn deny_unless(
        &mut self,
        denial: &Denial,
        effects: &mut Effects<W>,
        spare: impl Fn(Patience) -> bool,
    ) {
        for id in self.queue.waiting() {
            if self.queue.patience(id).is_some_and(|patience| !spare(patience)) {
                let waker = self.queue.settle(id, Err(denial.clone()));
                effects.wake(waker);
            }
        }
    }
}
