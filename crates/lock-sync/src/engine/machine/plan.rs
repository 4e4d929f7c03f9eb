//! The plan of each seat: decisions, and nothing else.
//!
//! [`Machine::plan`] looks at one seat and at the time. It names the step that is due now, if there is one, and the
//! next instant at which a step may become due. [`settle`](super::settle) takes steps until none is due. The
//! machine's next deadline is the earliest instant of all plans, of the limits of its waiters and of its watch. So no
//! event has to know its consequences.

use std::time::Duration;

use lock_core::{Instant, Mode};

use super::facts::{Asking, Watching};
use super::leased::{Going, Leased, Stage};
use super::seat::Seat;
use super::{Deadline, Machine};
use crate::engine::holdings::beside;
use crate::engine::queue::Patience;
use crate::engine::request::{Outage, Request};
use crate::engine::tokens::LOW_TOKENS;
use crate::error::LossReason;

/// One step that brings a seat nearer to what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask the store for the claim. `insists`: the time to ask has come without a hint, so the claim asks for a
    /// place even if no other process can be in its way.
    Ask { insists: bool },
    /// Let go of a claim that no waiter here needs, or of a lost lease whose last guard has gone.
    Drop,
    /// Declare the lease lost.
    Lose(LossReason),
    /// End a hold whose limit is reached.
    EndHold,
    /// Return the lease to the store.
    GiveUp,
    /// Ask the store to convert the lease to this mode, for the first time or again.
    Convert(Mode),
    /// Grant the upgrade: the lease is exclusive, and its only holder waits for that.
    GrantUpgrade,
    /// Renew the lease, and ask for tokens if there are few.
    Renew,
    /// Deny the waiters: the store has not answered for as long as they are ready to wait for it.
    Despair,
    /// Treat the release under way as failed, because its answer is overdue.
    FailRelease,
}

/// The step that is due, and when to look again.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) now: Instant,
    /// How much earlier a flexible step may be taken.
    window: Duration,
    pub(super) step: Option<Step>,
    exact: Instant,
    flexible: Instant,
}

impl Plan {
    pub(super) fn new(now: Instant, window: Duration) -> Self {
        let never = Instant::FAR_FUTURE;
        Self { now, window, step: None, exact: never, flexible: never }
    }

    /// A step for this instant. If several steps are due, the first one added counts.
    #[inline]
    pub(super) fn at(&mut self, at: Instant, step: Step) {
        if at <= self.now {
            self.step.get_or_insert(step);
        } else {
            self.wake(at);
        }
    }

    /// A step that sends this request. A relaxed request may be earlier by the window.
    #[inline]
    pub(super) fn send(&mut self, request: &Request, step: Step) {
        match request.at {
            _ if request.sent => {}
            at if !request.relaxed => self.at(at, step),
            at if self.now + self.window < at => self.flexible = self.flexible.min(at),
            _ => self.do_now(step),
        }
    }

    #[inline]
    pub(super) fn do_now(&mut self, step: Step) {
        self.step.get_or_insert(step);
    }

    /// The machine has to look again at this instant, unless it has passed.
    #[inline]
    pub(super) fn look(&mut self, at: Instant) {
        if self.now < at {
            self.wake(at);
        }
    }

    /// The machine has to look again at this instant.
    #[inline]
    pub(super) fn wake(&mut self, at: Instant) {
        self.exact = self.exact.min(at);
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let at = self.exact.min(self.flexible);
        let flexible = self.flexible < self.exact;
        (at < Instant::FAR_FUTURE).then_some(Deadline { at, flexible })
    }
}

impl<W> Machine<W> {
    /// Adds the plan of this seat.
    #[inline]
    pub(super) fn plan(&self, seat: usize, plan: &mut Plan) {
        match &self.seats[seat] {
            Seat::Free => {}
            Seat::Asking(asking) => self.plan_asking(asking, plan),
            Seat::Leased(leased) => match &leased.stage {
                Stage::Live => self.plan_lease(seat, leased, plan),
                Stage::Going(going) => self.plan_release(going, plan),
                Stage::Lost(_) if leased.holds.is_empty() => plan.do_now(Step::Drop),
                Stage::Lost(_) => {}
            },
        }
    }

    // ---- Claims that were not granted ----

    fn plan_asking(&self, asking: &Asking, plan: &mut Plan) {
        let request = &asking.request;
        self.plan_despair(request.outage.as_ref(), plan);
        if request.sent {
            return;
        }
        let mode = asking.claim.mode;
        if self.queue.first_want() != Some(mode) {
            return plan.do_now(Step::Drop);
        }
        // A claim to which a place in the store's queue is of use, and which has not asked for one, asks now. Hints
        // tell it of its turn.
        let hears = self.watch == Watching::On && request.outage.is_none();
        let places = hears && asking.yielding.is_none() && !self.has_all(mode);
        if asking.hinted || places && !asking.queued && self.is_waited_for() {
            plan.do_now(Step::Ask { insists: false });
        }
        plan.send(request, Step::Ask { insists: true });
    }

    /// The end of the patience with a store that does not answer, if it does not come with an answer.
    fn plan_despair(&self, outage: Option<&Outage>, plan: &mut Plan) {
        if let (Some(outage), Some(limit)) = (outage, self.policy.outage_limit)
            && !(outage.told || self.queue.is_empty())
        {
            plan.at(outage.since + limit, Step::Despair);
        }
    }

    /// Whether the first waiter is ready to wait.
    pub(super) fn is_waited_for(&self) -> bool {
        self.queue.first().is_some_and(|(_, patience)| patience != Patience::Try)
    }

    /// Whether this process has all the permits that `want` declares. Then no other process has any of them. A
    /// place in the store's queue would only make it look as if another process wanted permits.
    pub(super) fn has_all(&self, want: Mode) -> bool {
        let Mode::Permits { of, .. } = want else { return false };
        of > 0 && self.permits_here(of) >= u64::from(of)
    }

    /// How many of these permits this process certainly has.
    pub(super) fn permits_here(&self, of: u32) -> u64 {
        let permits =
            self.leases().filter(|leased| leased.is_usable(self.pass.now)).map(|leased| {
                // Permits that are being given back may belong to another process already.
                match leased.change.as_ref().map_or(leased.claim.mode, |change| change.to) {
                    Mode::Permits { take, of: known } if known == of => u64::from(take),
                    _ => 0,
                }
            });
        permits.sum()
    }

    // ---- Leases that are going ----

    fn plan_release(&self, going: &Going, plan: &mut Plan) {
        self.plan_despair(going.release.outage.as_ref(), plan);
        let request = &going.release;
        match request.sent {
            true => plan.at(request.at, Step::FailRelease),
            // The shell sends a release that is due.
            false => plan.look(request.at),
        }
    }

    // ---- Live leases ----

    #[inline]
    fn plan_lease(&self, seat: usize, leased: &Leased, plan: &mut Plan) {
        plan.at(leased.lease.deadline(), Step::Lose(LossReason::Expired));
        plan.at(leased.holds.first_limit(), Step::EndHold);
        if leased.holds.is_empty() {
            self.plan_idle(seat, leased, plan);
        } else if leased.holds.live() == 0 {
            Self::plan_leftovers(leased, plan);
        }
        self.plan_conversion(seat, leased, plan);
        self.plan_renewal(leased, plan);
    }

    /// A lease without a live holder that still has guards or forgotten permits.
    fn plan_leftovers(leased: &Leased, plan: &mut Plan) {
        if leased.holds.has_dead() {
            // Every remaining guard has lost the lease.
            plan.do_now(Step::Lose(LossReason::HeldTooLong));
        } else if leased.change.is_none()
            && leased.claim.mode == leased.holds.need(leased.claim.mode)
        {
            // Only forgotten permits remain.
            plan.do_now(Step::GiveUp);
        }
    }

    fn plan_idle(&self, seat: usize, leased: &Leased, plan: &mut Plan) {
        let stays = match self.queue.first_want() {
            // The store upgrades no lease beside this one.
            _ if self.upgrade.is_some() => false,
            Some(want) => self.admits(seat, want, leased.used == 0),
            None => {
                plan.look(leased.idle_until);
                plan.now < leased.idle_until && self.may_idle(leased, plan.now)
            }
        };
        if !stays {
            plan.do_now(Step::GiveUp);
        }
    }

    /// Whether a lease may stay without a holder. It may if this process hears of other processes that want the
    /// lease, or is about to learn whether it does.
    pub(super) fn may_idle(&self, leased: &Leased, now: Instant) -> bool {
        let joint = leased.claim.mode.is_joint();
        let deaf = matches!(self.watch, Watching::Failed(_))
            || self.watch == Watching::On && leased.turn.is_silent();
        let heard = !deaf && !leased.turn.is_wanted();
        let kept = leased.is_usable(now) && leased.change.is_none();
        heard && kept && !joint && !self.closed && self.policy.renew
    }

    // ---- Conversions ----

    fn plan_conversion(&self, seat: usize, leased: &Leased, plan: &mut Plan) {
        let (upgrades, tries) = (self.upgrades(seat), self.tries_to_upgrade());
        if let Some(change) = &leased.change {
            let held_up = match change.strengthens() {
                // The process gives its other leases back first. A try that holders here block is refused unasked.
                true if upgrades => self.is_in_motion() || tries && !self.may_be_exclusive(seat),
                _ => leased.renewal.sent,
            };
            if !(change.request.sent || held_up) {
                // A caller that only tries does not wait for the next attempt.
                plan.at(if tries { plan.now } else { change.request.at }, Step::Convert(change.to));
            }
        } else if upgrades {
            self.plan_upgrade(seat, leased, plan);
        } else if self.policy.converts && !leased.renewal.sent {
            self.plan_weakening(leased, plan);
        }
    }

    /// A weaker mode, once it is enough for the holders.
    #[inline]
    fn plan_weakening(&self, leased: &Leased, plan: &mut Plan) {
        let (at, mode) = (leased.weaken_at, leased.claim.mode);
        // A reader that comes between two writers of this process does not end their turn. The budget ends it.
        let wanted = mode != Mode::Exclusive && leased.turn.is_wanted();
        if at < Instant::FAR_FUTURE && (wanted || self.is_hurried(leased)) {
            plan.do_now(Step::Convert(leased.holds.need(mode)));
        } else {
            plan.at(at, Step::Convert(leased.holds.need_at_peak(mode)));
        }
    }

    /// Whether the only hold on this seat may become exclusive, as far as the guards of this process are concerned.
    pub(super) fn may_be_exclusive(&self, seat: usize) -> bool {
        let alone = |leased: &Leased| leased.holds.live() == 1 && !leased.holds.has_dead();
        self.seats[seat].live().is_some_and(alone) && self.is_tolerated(seat, Mode::Exclusive)
    }

    /// The upgrade that is wanted on this seat.
    fn plan_upgrade(&self, seat: usize, leased: &Leased, plan: &mut Plan) {
        let alone = self.may_be_exclusive(seat);
        let exclusive = leased.claim.mode == Mode::Exclusive;
        let asks = alone || !exclusive && !self.tries_to_upgrade();
        if exclusive && alone && leased.tokens.left() > 0 {
            plan.do_now(Step::GrantUpgrade);
        } else if asks && !leased.renewal.sent && !self.is_in_motion() {
            // The upgrade needs a token. A renewal may bring one. If it brings none, the lease becomes weaker for a
            // moment and the store upgrades it: that grant always brings a token.
            let renews = exclusive && self.policy.renew && !leased.tokens.asked;
            let to = if exclusive { leased.holds.need(Mode::Exclusive) } else { Mode::Exclusive };
            plan.do_now(if renews { Step::Renew } else { Step::Convert(to) });
        }
    }

    #[inline]
    pub(super) fn tries_to_upgrade(&self) -> bool {
        let upgrade = self.upgrade.as_ref();
        upgrade.is_some_and(|upgrade| self.queue.patience(upgrade.id) == Some(Patience::Try))
    }

    /// Whether the process returns the permits of this lease that no holder uses at once. It does in a shutdown. It also
    /// does if the first waiter wants permits that do not fit on this lease, because it asks for more only afterwards.
    /// Once it has asked, there is no hurry.
    fn is_hurried(&self, leased: &Leased) -> bool {
        let lease = leased.claim.mode;
        let want = self.queue.first_want().filter(|want| !self.is_asking() && beside(lease, *want));
        lease.counts() && (self.closed || want.is_some_and(|want| !leased.has_room(want)))
    }

    // ---- Renewals ----

    fn plan_renewal(&self, leased: &Leased, plan: &mut Plan) {
        // A renewal under way together with a weakening would not tell which of the two the store carries out first.
        // A lease without a live holder ends if the store does not make it weaker.
        let weakens = leased
            .weakening()
            .is_some_and(|change| change.request.sent || leased.holds.live() == 0);
        let renews = self.policy.renew;
        let wanted = renews || leased.lease.deadline() < leased.wanted_until;
        if !wanted || leased.renewal.sent || weakens {
            return;
        }
        plan.send(&leased.renewal, Step::Renew);
        // A lease without a holder may have yet to ask the store if other processes want it.
        let asks = || leased.is_idle() && leased.turn.is_unasked() && self.watch == Watching::On;
        if renews && (self.wants_stock(leased) || asks()) {
            plan.do_now(Step::Renew);
        }
    }

    /// Whether to ask for tokens before the renewal of the lease is due.
    #[inline]
    fn wants_stock(&self, leased: &Leased) -> bool {
        if leased.tokens.asked || leased.tokens.wanted {
            return !leased.tokens.asked;
        }
        // A second holder does not mean that there will be a third. And another process may be about to join the
        // store's queue, which ends the turn of this process.
        let goes_on = leased.used > 2;
        let wanted = goes_on || self.manner.cache().is_some() || !self.queue.is_empty();
        match leased.is_idle() {
            true => leased.tokens.left() < if wanted { LOW_TOKENS } else { 1 },
            false => goes_on && leased.turn.is_quiet() && leased.tokens.left() < LOW_TOKENS,
        }
    }

    // ---- All seats ----

    /// Whether the guards of all other leases allow one more hold on this seat. A guard counts even when its lease
    /// is over, because it still gives access to the data.
    #[inline]
    pub(super) fn is_tolerated(&self, seat: usize, want: Mode) -> bool {
        let others = self.seats.iter().enumerate().filter(|(other, _)| *other != seat);
        let mut leases = others.filter_map(|(_, other)| other.leased());
        leases.all(|leased| leased.holds.tolerate(leased.claim.mode, want))
    }

    /// The mode in which to ask the store for a lease now, if the first waiter needs a lease. After requests for permits
    /// that were granted at once, the mode includes permits for the waiters behind the first.
    #[inline]
    pub(super) fn wanted_lease(&self) -> Option<Mode> {
        let first = self.queue.first_want().filter(|want| self.may_ask(*want))?;
        let Mode::Permits { take: mut sum, of } = first else { return Some(first) };
        let room = u64::from(of).saturating_sub(self.permits_here(of));
        let pools = self.is_waited_for() && self.courtesy.is_none();
        let run = if pools { self.run as usize } else { 1 };
        for next in self.queue.wants().take(run).skip(1) {
            let Mode::Permits { take, of: known } = next else { break };
            if known != of || u64::from(sum) + u64::from(take) > room {
                break;
            }
            sum += take;
        }
        Some(Mode::Permits { take: sum, of })
    }

    /// Whether the process may ask the store for a lease in this mode now. It may if the store can grant the lease
    /// beside every lease that the process has, and the process asks for no other lease.
    #[inline]
    fn may_ask(&self, want: Mode) -> bool {
        // All waiters wait until the upgrade is over.
        self.upgrade.is_none()
            && self.seats.iter().all(|seat| match seat {
                Seat::Free => true,
                Seat::Asking(_) => false,
                Seat::Leased(leased) => match &leased.stage {
                    // Unused leases and permits go back before the process asks for more.
                    Stage::Live => {
                        !leased.holds.is_empty()
                            && beside(leased.claim.mode, want)
                            && !leased.has_idle_permits()
                    }
                    Stage::Lost(_) => leased.holds.tolerate(leased.claim.mode, want),
                    // The store must have the lease back before it can grant the next one.
                    Stage::Going(_) => false,
                },
            })
    }

    /// Whether the process has a claim that the store has not granted.
    pub(super) fn is_asking(&self) -> bool {
        self.seats.iter().any(|seat| matches!(seat, Seat::Asking(_)))
    }

    /// Whether an answer of the store may help the first waiter although no holder lets go: the answer to a request
    /// or a release, or the next token.
    pub(super) fn is_in_motion(&self) -> bool {
        self.seats.iter().any(|seat| match seat {
            Seat::Asking(asking) => asking.request.sent,
            Seat::Leased(leased) if leased.is_live() => {
                !leased.is_held() || leased.has_idle_permits()
            }
            _ => seat.going().is_some(),
        })
    }
}
