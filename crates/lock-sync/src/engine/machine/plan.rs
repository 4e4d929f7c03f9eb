//! What each seat should become, and when: decisions, and nothing else.
//!
//! [`Machine::plan`] looks at one seat and at the clock. It names the one step that is due now, if there is
//! one, and the next instant at which a step may become due. [`settle`](super::settle) performs steps until
//! none is due; the earliest instant of all plans is the machine's next deadline. So whatever an event
//! changes, no event has to know what follows from it.

use lock_core::{Demand, Instant, Mode};

use super::Machine;
use super::facts::{Asking, Change, Watching};
use super::leased::{Going, Leased, Release, Stage};
use super::seat::Seat;
use super::staying::Fate;
use super::step::{Plan, Step};
use super::timing::renewal_window;
use crate::engine::holds::beside;
use crate::engine::queue::Patience;
use crate::error::LossReason;

/// When a lease that stays has fewer tokens than this, the process asks for more.
pub(super) const LOW_TOKENS: u32 = 1024;

impl<W> Machine<W> {
    /// Adds the plan of this seat.
    #[inline]
    pub(super) fn plan(&self, seat: usize, plan: &mut Plan) {
        match &self.seats[seat] {
            Seat::Free => {}
            Seat::Asking(asking) => self.plan_asking(asking, plan),
            Seat::Leased(leased) => match &leased.stage {
                Stage::Live => self.plan_lease(seat, leased, plan),
                Stage::Going(going) => Self::plan_release(going, plan),
                Stage::Lost(_) if leased.holds.is_empty() => plan.do_now(Step::Clear),
                Stage::Lost(_) => {}
            },
        }
    }

    pub(super) fn blank_plan(&self, now: Instant) -> Plan {
        Plan::new(now, renewal_window(self.policy.ttl))
    }

    // ---- A claim that was not granted ----

    fn plan_asking(&self, asking: &Asking, plan: &mut Plan) {
        if asking.sent.is_some() {
            return;
        }
        let mode = asking.claim.mode;
        if self.queue.first_want() != Some(mode) {
            return plan.do_now(Step::Drop);
        }
        if asking.hinted {
            plan.do_now(Step::Ask { insists: false });
        }
        plan.about(asking.until, asking.relaxed, Step::Ask { insists: true });
        // A claim that could have a place, and has asked for none, asks for one.
        let settled = asking.outage.is_none() && asking.yielding.is_none();
        if settled && !asking.queued && self.is_waited_for() && self.may_be_queued(mode, plan.now) {
            plan.do_now(Step::Ask { insists: false });
        }
    }

    /// Whether the first waiter is ready to wait.
    pub(super) fn is_waited_for(&self) -> bool {
        self.queue.first().is_some_and(|(_, patience)| patience != Patience::Try)
    }

    /// Whether a claim in this mode has a use for a place in the store's queue, and can hear of its turn.
    fn may_be_queued(&self, want: Mode, now: Instant) -> bool {
        matches!(self.watch, Watching::On { .. }) && !self.has_all(want, now)
    }

    /// Whether all permits that there are by this declaration are here. Then no other process keeps
    /// them back, and a place in the store's queue would only make it seem that one wants them.
    pub(super) fn has_all(&self, want: Mode, now: Instant) -> bool {
        let Mode::Permits { of, .. } = want else { return false };
        let valid = |leased: &&Leased| !leased.spent && leased.lease.is_valid(now);
        let here = self.seats.iter().filter_map(Seat::leased).filter(valid);
        of > 0 && here.map(|leased| leased.permits(of)).sum::<u64>() >= u64::from(of)
    }

    // ---- A lease that is going ----

    fn plan_release(going: &Going, plan: &mut Plan) {
        match going.release {
            Release::Failed(at) => plan.at(at, Step::ReleaseAgain),
            Release::Sent(look) => plan.at(look, Step::LookAfterRelease),
            Release::Due => {}
        }
    }

    // ---- A lease that is here ----

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

    /// A lease whose last live holder has gone, but not all of its guards or permits.
    fn plan_leftovers(leased: &Leased, plan: &mut Plan) {
        if leased.holds.has_dead() {
            // Each guard that is left has lost the lease.
            plan.do_now(Step::Lose(LossReason::HeldTooLong));
        } else if leased.change.is_none()
            && leased.claim.mode == leased.holds.need(leased.claim.mode)
        {
            // All that is left of it is to be forgotten.
            plan.do_now(Step::GiveUp);
        }
    }

    fn plan_idle(&self, seat: usize, leased: &Leased, plan: &mut Plan) {
        let stays = match self.queue.first_want() {
            Some(want) => {
                leased.has_room(want)
                    && self.is_tolerated(seat, want)
                    && leased.fate(plan.now, self.manner, &self.policy) != Fate::GiveUp
            }
            None => {
                plan.wake(leased.idle_until);
                plan.now < leased.idle_until && self.may_idle(leased, plan.now)
            }
        };
        if !stays {
            plan.do_now(Step::GiveUp);
        }
    }

    /// Whether a lease may stay without a holder: only if other processes that want it can make
    /// themselves heard, or the process is about to learn whether they can.
    pub(super) fn may_idle(&self, leased: &Leased, now: Instant) -> bool {
        let joint = leased.claim.mode.is_joint();
        let heard = match (leased.demand(), &self.watch) {
            (_, Watching::Failed { .. }) => false,
            (Demand::Unknown, Watching::On { .. }) => !leased.is_silent(),
            _ => true,
        };
        heard && !joint && !self.closed && self.policy.renew && leased.may_idle(now)
    }

    // ---- Conversions ----

    fn plan_conversion(&self, seat: usize, leased: &Leased, plan: &mut Plan) {
        let upgrades = self.upgrades(seat);
        if upgrades && self.tries_to_upgrade() && !self.may_be_exclusive(seat, leased) {
            // It does not even wait for the answer to an earlier conversion.
            return plan.do_now(Step::RefuseUpgrade);
        }
        match (&leased.change, upgrades) {
            (Some(change), _) => self.plan_change(leased, change, plan),
            (None, true) => self.plan_upgrade(seat, leased, plan),
            // What was begun has to be known first, whatever is to follow.
            (None, false) if !self.policy.converts => {}
            (None, false) if leased.renewal.is_none() && !leased.spent => {
                let hurried = self.is_hurried(leased);
                plan.at(leased.weaken_due(hurried), Step::Weaken { hurried });
            }
            (None, false) => {}
        }
    }

    /// Whether no guard of this process is in the way of the one hold on this seat, should that become exclusive.
    fn may_be_exclusive(&self, seat: usize, leased: &Leased) -> bool {
        leased.holds.live() == 1
            && !leased.holds.has_dead()
            && self.is_tolerated(seat, Mode::Exclusive)
    }

    /// The conversion under way. Its outcome has to be known before the next.
    fn plan_change(&self, leased: &Leased, change: &Change, plan: &mut Plan) {
        let held_up = !change.strengthens() && leased.renewal.is_some();
        if change.sent || held_up || leased.spent {
            return;
        }
        // A caller that does not wait needs to know at once.
        plan.at(if self.tries_to_upgrade() { plan.now } else { change.at }, Step::Convert);
    }

    /// The upgrade that is wanted on this seat.
    fn plan_upgrade(&self, seat: usize, leased: &Leased, plan: &mut Plan) {
        let alone = self.may_be_exclusive(seat, leased);
        let asked = self.upgrade.as_ref().is_some_and(|upgrade| upgrade.stocked);
        if leased.claim.mode != Mode::Exclusive {
            if leased.renewal.is_none() {
                plan.do_now(Step::Strengthen);
            }
        } else if alone && leased.tokens.left() > 0 {
            plan.do_now(Step::GrantUpgrade);
        } else if alone && leased.renewal.is_none() {
            // A grant always comes with a token: where a renewal brings none, the lease becomes weaker
            // for a moment, and the store upgrades it.
            let step = if asked || !self.policy.renew {
                Step::Weaken { hurried: true }
            } else {
                Step::Stock
            };
            plan.do_now(step);
        }
    }

    #[inline]
    pub(super) fn tries_to_upgrade(&self) -> bool {
        let upgrade = self.upgrade.as_ref();
        upgrade.is_some_and(|upgrade| self.queue.patience(upgrade.id) == Some(Patience::Try))
    }

    /// Whether a waiter here wants permits and this lease has some that no holder uses: the process
    /// returns those before it asks for more. Once it has asked, they go back together.
    fn is_hurried(&self, leased: &Leased) -> bool {
        let lease = leased.claim.mode;
        let asks = self.seats.iter().any(|seat| matches!(seat, Seat::Asking(_)));
        let want = self.queue.first_want().filter(|want| beside(lease, *want));
        lease.counts() && !asks && want.is_some_and(|want| !leased.has_room(want))
    }

    // ---- Renewals ----

    fn plan_renewal(&self, leased: &Leased, plan: &mut Plan) {
        // Until the outcome of a conversion is known, the store may not know the lease as it was.
        if !self.policy.renew || leased.renewal.is_some() || leased.weakening().is_some() {
            return;
        }
        plan.about(leased.renew_at, leased.relaxed, Step::Renew);
        plan.at(leased.check_at.unwrap_or(Instant::FAR_FUTURE), Step::Renew);
        if self.wants_stock(leased) || self.wants_news(leased) {
            plan.do_now(Step::Renew);
        }
    }

    /// Whether to ask for tokens before the lease is due.
    #[inline]
    fn wants_stock(&self, leased: &Leased) -> bool {
        if !leased.may_stock() {
            return false;
        }
        // A second holder is no sign of a third; and others may be on their way to the queue, in whose turn
        // it ends.
        let goes_on = leased.used > 2;
        let wanted = goes_on || self.manner.cache.is_some() || !self.queue.is_empty();
        match leased.is_idle() {
            true => leased.tokens.left() < if wanted { LOW_TOKENS } else { 1 },
            false => {
                goes_on && leased.demand() == Demand::Quiet && leased.tokens.left() < LOW_TOKENS
            }
        }
    }

    /// Whether a lease that stays without a holder needs to know what other processes want.
    #[inline]
    fn wants_news(&self, leased: &Leased) -> bool {
        leased.is_idle()
            && leased.demand() == Demand::Unknown
            && !leased.inquired
            && matches!(self.watch, Watching::On { .. })
    }

    // ---- All seats ----

    /// Whether no guard of another lease is in the way of one more hold on this seat. A guard may be in
    /// the way whose lease is over, be that known already or not.
    #[inline]
    pub(super) fn is_tolerated(&self, seat: usize, want: Mode) -> bool {
        self.seats.iter().enumerate().all(|(other, theirs)| match theirs {
            Seat::Leased(leased) if other != seat => {
                leased.holds.is_empty() || leased.holds.tolerate(leased.claim.mode, want)
            }
            _ => true,
        })
    }

    /// Whether the process asks the store for a lease in this mode now: if it has no lease that the store
    /// could not grant the new one beside, and no other request stands in the store's line.
    #[inline]
    pub(super) fn may_ask(&self, want: Mode) -> bool {
        // Every waiter waits for an upgrade.
        self.upgrade.is_none()
            && self.seats.iter().all(|seat| match seat {
                Seat::Free => true,
                Seat::Asking(_) => false,
                Seat::Leased(leased) => match &leased.stage {
                    // What no holder uses goes back before the process asks for more.
                    Stage::Live => {
                        !leased.holds.is_empty()
                            && beside(leased.claim.mode, want)
                            && !leased.has_idle_permits()
                    }
                    Stage::Lost(_) => leased.holds.tolerate(leased.claim.mode, want),
                    // What is given up must be back before the process asks whether it is free.
                    Stage::Going(_) => false,
                },
            })
    }

    /// Whether something is about to happen although no holder lets go: the next token comes, or the
    /// answer to a request or a release.
    pub(super) fn is_in_motion(&self) -> bool {
        self.seats.iter().any(|seat| match seat {
            Seat::Asking(asking) => asking.sent.is_some(),
            Seat::Leased(leased) => match leased.stage {
                Stage::Live => leased.holds.is_empty() || leased.has_idle_permits(),
                Stage::Going(_) => true,
                Stage::Lost(_) => false,
            },
            Seat::Free => false,
        })
    }
}
