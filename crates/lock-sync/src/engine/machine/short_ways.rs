//! The short ways: what most tasks do, without a pass.
//!
//! Each changes nothing that a [plan](super::plan) looks at, or nothing that makes a step due earlier. Where a task
//! cannot take its short way, it takes the long one.

use lock_core::{Demand, Instant, Mode};

use super::leased::Stage;
use super::plan::LOW_TOKENS;
use super::seat::Seat;
use super::{Machine, Manner, Ticket};
use crate::engine::holds::{HoldId, beside};
use crate::engine::queue::{Patience, WaiterId};

impl<W> Machine<W> {
    /// Whether a task that waits without a limit may [`join`](Self::join) the line.
    pub(in super::super) fn may_join(&self, want: Mode) -> bool {
        let [seat] = &self.seats[..] else { return false };
        let waits = match seat {
            Seat::Free => false,
            Seat::Asking(_) => true,
            Seat::Leased(leased) => match &leased.stage {
                Stage::Live if leased.holds.is_empty() => false,
                Stage::Live if self.queue.is_empty() => {
                    !leased.has_room(want) && !beside(leased.claim.mode, want)
                }
                Stage::Live => true,
                Stage::Lost(_) => !leased.holds.tolerate(leased.claim.mode, want),
                Stage::Going(_) => !leased.is_going_soon(),
            },
        };
        waits && !self.closed && !want.is_joint()
    }

    /// A task that waits without a limit joins the line and leaves its waker, if there is nothing else
    /// to decide. That takes no clock, and one look at the line.
    pub(in super::super) fn join(&mut self, want: Mode, waker: &mut Option<W>) -> Option<WaiterId> {
        if !self.may_join(want) {
            return None;
        }
        let id = self.queue.push(Patience::Forever, want);
        self.queue.park(id, waker);
        Some(id)
    }

    /// The short way from an exclusive holder to the next waiter, while no other process wants the lock. `None` if
    /// it was not taken; otherwise the waker of that waiter, if it has left one.
    ///
    /// What a longer pass would find due meanwhile, the next tick finds: nothing here moves a deadline forward.
    pub(in super::super) fn pass_on(
        &mut self,
        hold: HoldId,
        now: Instant,
        manner: Manner,
    ) -> Option<Option<W>> {
        let [Seat::Leased(leased)] = &mut self.seats[..] else { return None };
        let plain = !self.closed
            && self.upgrade.is_none()
            && self.policy.max_hold.is_none()
            && leased.is_live()
            && leased.claim.mode == Mode::Exclusive
            && leased.demand() == Demand::Quiet
            && leased.change.is_none()
            && leased.tokens.left() > LOW_TOKENS
            && leased.may_go_on(now, manner, &self.policy);
        if !plain || self.queue.first_want() != Some(Mode::Exclusive) {
            return None;
        }
        let (waiter, _) = self.queue.first()?;
        leased.holds.remove_only(hold)?;
        self.manner = manner;
        self.holds += 1;
        let at = (0, self.holds);
        let ticket = leased.ticket(at, Mode::Exclusive, Instant::FAR_FUTURE, now)?;
        let waker = self.queue.settle(waiter, Ok(ticket));
        leased.crowded |= !self.queue.is_empty();
        Some(waker)
    }

    /// The short way for one more reader to those who read already, if there is nothing else to decide.
    pub(in super::super) fn share(&mut self, now: Instant, manner: Manner) -> Option<Ticket> {
        let plain = !self.closed
            && self.queue.is_empty()
            && self.upgrade.is_none()
            && self.policy.max_hold.is_none();
        if !plain {
            return None;
        }
        let quiet =
            |seat: &Seat| matches!(seat, Seat::Leased(leased) if leased.is_shared_quietly());
        let seat = self.seats.iter().position(quiet)?;
        if self.seats.len() > 1 && !self.is_tolerated(seat, Mode::Shared) {
            return None;
        }
        let leased = self.seats[seat].leased_mut()?;
        if !leased.may_go_on(now, manner, &self.policy) {
            return None;
        }
        self.holds += 1;
        self.shared_at = now;
        self.manner = manner;
        leased.share((seat, self.holds))
    }

    /// The short way out for a reader beside whom others go on reading. Returns whether it was taken.
    pub(in super::super) fn unshare(&mut self, hold: HoldId) -> bool {
        let plain = self.queue.is_empty() && self.upgrade.is_none();
        let leased = self.seats.get_mut(hold.seat()).and_then(Seat::live_mut);
        leased.filter(|_| plain).is_some_and(|leased| leased.holds.remove_beside_others(hold))
    }

    /// The short way out for the last reader of a lease that stays here for a moment, counted from when the
    /// last reader came: that takes no clock. `armed` is when the machine is going to be looked at in any
    /// case. Returns whether it was taken.
    pub(in super::super) fn linger(
        &mut self,
        hold: HoldId,
        manner: Manner,
        armed: Instant,
    ) -> bool {
        let (seat, now) = (hold.seat(), self.shared_at);
        let Some(leased) = self.seats.get(seat).and_then(Seat::live) else { return false };
        let until = now + leased.idles(now, manner, self.policy.ttl);
        let plain = until > now
            && armed <= until
            && self.queue.is_empty()
            && self.upgrade.is_none()
            && leased.tokens.left() >= LOW_TOKENS
            && leased.demand() == Demand::Quiet
            && self.may_idle(leased, now);
        let leased = self.seats.get_mut(seat).and_then(Seat::live_mut).filter(|_| plain);
        leased.is_some_and(|leased| {
            leased.idle_until = until;
            leased.holds.remove_alone(hold, now)
        })
    }
}
