//! The short ways: the most frequent calls, without a pass.
//!
//! A short way changes nothing that makes a step of a [plan](super::plan) due earlier. A task that cannot take its
//! short way takes the long one.

use std::sync::Arc;

use lock_core::{Instant, Mode};

use super::leased::Leased;
use super::seat::Seat;
use super::{Deadline, Machine, Manner, Ticket};
use crate::engine::holdings::{HoldId, beside};
use crate::engine::queue::{Patience, WaiterId};
use crate::engine::validity::Validity;

impl<W> Machine<W> {
    /// Whether a task that waits without a limit may [`join`](Self::join) the line.
    pub(in super::super) fn may_join(&self, want: Mode) -> bool {
        let waits = match &self.seats[..] {
            // Whatever the first waiter waits for, the next one waits for more.
            _ if !self.queue.is_empty() => true,
            [Seat::Asking(_)] => true,
            [Seat::Leased(leased)] if leased.is_held() => {
                !leased.has_room(want) && !beside(leased.claim.mode, want)
            }
            _ => false,
        };
        waits && !self.closed && !want.is_joint()
    }

    /// A task that waits without a limit joins the line and leaves its waker, if there is nothing else to decide.
    /// That does not read the clock.
    pub(in super::super) fn join(&mut self, want: Mode, waker: &mut Option<W>) -> Option<WaiterId> {
        self.may_join(want).then(|| {
            let id = self.queue.push(Patience::Forever, want);
            self.queue.park(id, waker);
            id
        })
    }

    /// The short way from an exclusive holder, or from a holder of permits, to the next waiter, if that waiter wants
    /// the mode of the holder and no other process wants the lock. `None` if the holder cannot take this way. Otherwise
    /// returns the waker that the waiter has left, if there is one.
    ///
    /// The first holder after an event reads the clock. If it may pass the lease on, later holders may as well, until the
    /// next event. A tick comes before that stops being true. If the tick is late, the lease may be over: the waiter
    /// checks it by the clock, and goes to the back of the line. The waiter takes over `lease`, the holder's reference
    /// to its lease, if there is one.
    pub(in super::super) fn pass_on(
        &mut self,
        hold: HoldId,
        lease: &mut Option<Arc<Validity>>,
        clock: impl FnOnce() -> Instant,
        manner: Manner,
    ) -> Option<Option<W>> {
        let (waiter, _) = self.queue.first()?;
        let want = self.queue.want(waiter)?;
        let express = Some((hold.seat(), manner));
        if self.express != express {
            let until = self.express_until(hold, want, clock(), manner)?;
            self.express = express;
            // The next tick comes at this instant at the latest.
            if self.next.is_none_or(|next| until < next.at) {
                self.next = Some(Deadline { at: until, flexible: false });
            }
        }
        let serial = self.holds + 1;
        let ticket = self.live_mut(hold)?.pass_on(hold, lease, serial, want)?;
        (self.holds, self.manner) = (serial, manner);
        Some(self.queue.answer(waiter, Ok(ticket)))
    }

    /// The instant until which holders may pass the lease on by the short way if no event comes. `None` if this holder
    /// may not.
    pub(super) fn express_until(
        &self,
        hold: HoldId,
        want: Mode,
        now: Instant,
        manner: Manner,
    ) -> Option<Instant> {
        let leased = self.live(hold)?;
        let fits = match want {
            Mode::Exclusive => self.only_seat().is_some() && leased.holds.is_single(),
            Mode::Permits { .. } => !leased.holds.has_forgotten(),
            _ => false,
        };
        let plain = fits && self.is_plain() && leased.change.is_none();
        leased.goes_on_until(now, manner, &self.policy).filter(|_| plain)
    }

    /// Whether the machine is open, no holder waits for an upgrade, and holds have no limit.
    pub(super) fn is_plain(&self) -> bool {
        !self.closed && self.upgrade.is_none() && self.policy.max_hold.is_none()
    }

    /// The short way for one more reader beside other readers, or for permits beside other permits, if there is nothing
    /// else to decide.
    pub(in super::super) fn share(
        &mut self,
        want: Mode,
        now: Instant,
        manner: Manner,
    ) -> Option<Ticket> {
        (self.is_plain() && self.queue.is_empty()).then_some(())?;
        let quiet = |leased: &Leased| {
            leased.is_shared_quietly(want) && leased.may_go_on(now, manner, &self.policy)
        };
        let seat = self.seats.iter().position(|seat| seat.leased().is_some_and(quiet))?;
        (self.seats.len() == 1 || self.is_tolerated(seat, want)).then_some(())?;
        (self.shared_at, self.manner) = (now, manner);
        self.ticket(seat, want, now).map(Ticket::without_waiting)
    }

    /// The short way out for a reader that leaves other holders behind, or that is the last one and leaves a lease that
    /// stays here for a while. That time counts from the moment the last reader came, so this way does not read the
    /// clock. `armed` is the instant of the next tick, which must not be after that time.
    ///
    /// It is also the short way out for permits that leave other permits behind, if the next tick looks after unused
    /// permits in any case. Returns whether the short way was taken.
    pub(in super::super) fn unshare(
        &mut self,
        hold: HoldId,
        manner: Manner,
        armed: Instant,
    ) -> bool {
        let alone = self.queue.is_empty() && self.upgrade.is_none();
        let (now, leased) = (self.shared_at, self.live(hold).filter(|_| alone));
        let Some(leased) = leased else { return false };
        let last = leased.holds.live() == 1;
        let until = last.then(|| self.lingers(leased, now, manner, armed)).flatten();
        let looks = || leased.change.is_none() && leased.weaken_at < Instant::FAR_FUTURE;
        let leaves = match leased.holds.get(hold).map(|holding| holding.mode) {
            Some(Mode::Shared) => !last || until.is_some(),
            Some(Mode::Permits { .. }) => !last && looks(),
            _ => false,
        };
        let Some(leased) = self.live_mut(hold).filter(|_| leaves) else { return false };
        leased.idle_until = until.unwrap_or(leased.idle_until);
        leased.holds.remove_plainly(hold).is_some()
    }
}
