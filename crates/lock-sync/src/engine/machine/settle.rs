//! Settling, which follows every event.
//!
//! An event records facts. Then [`Machine::settle`] lets the first waiters enter the live leases, takes every step
//! that the [plan](super::plan) of a seat finds due, and asks for a lease if the first waiter needs one. It repeats
//! this until nothing changes.

use std::sync::Arc;

use lock_core::observer::Entered;
use lock_core::{Error, ErrorKind, FencingToken, Grant, Instant, Mode, TokenRange, Ttl};

use super::facts::Asking;
use super::leased::{Going, Leased, Stage};
use super::plan::{Plan, Step};
use super::seat::Seat;
use super::{Denial, Machine, Ticket};
use crate::engine::holdings::Holdings;
use crate::engine::queue::Patience;
use crate::engine::timing::renewal_window;

/// More rounds than any event needs. A test that reaches this number has found an endless loop.
const MOST_ROUNDS: u32 = 10_000;

fn silence() -> Error {
    Error::new(ErrorKind::Timeout, "the backend has not answered yet")
}

impl<W> Machine<W> {
    /// Serves the line and takes steps until no step is due.
    pub(in super::super) fn settle(&mut self) {
        let mut rounds = 0;
        let mut plan = loop {
            let mut served = false;
            for seat in 0..self.seats.len() {
                served |= self.serve_seat(seat);
            }
            // One look is enough for a single seat.
            let again = served && self.seats.len() > 1;
            let (plan, stepped) = self.take_steps();
            if !(again || stepped || self.deny() || self.ask() || self.send_tries_home()) {
                break plan;
            }
            rounds += 1;
            debug_assert!(rounds < MOST_ROUNDS, "the machine does not come to rest");
        };
        while let [_, .., Seat::Free] = &self.seats[..] {
            self.seats.pop();
        }
        self.settle_watch(&mut plan);
        plan.wake(self.queue.first_limit().unwrap_or(Instant::FAR_FUTURE));
        self.next = plan.deadline();
    }

    /// Takes the steps that are due. Returns the plan of all seats after these steps, and whether a step was due.
    fn take_steps(&mut self) -> (Plan, bool) {
        let mut plan = Plan::new(self.pass.now, renewal_window(self.policy.ttl));
        let mut stepped = false;
        for seat in 0..self.seats.len() {
            loop {
                if let Some(leased) = self.seats[seat].live_mut() {
                    leased.consider_weaker(plan.now);
                }
                self.plan(seat, &mut plan);
                let Some(step) = plan.step.take() else { break };
                self.take_step(seat, step);
                stepped = true;
            }
        }
        (plan, stepped)
    }

    fn take_step(&mut self, seat: usize, step: Step) {
        match step {
            Step::Ask { insists } => self.send_attempt(seat, insists),
            Step::Drop => self.drop_claim(seat),
            Step::Lose(reason) => self.lose(seat, reason),
            Step::EndHold => self.end_overdue_hold(seat),
            Step::GiveUp => self.give_up(seat),
            Step::Convert(mode) => self.send_conversion(seat, mode),
            Step::GrantUpgrade => self.grant_upgrade(seat),
            Step::Renew => self.send_renewal(seat),
            Step::Despair => self.despair(seat),
            Step::FailRelease => self.released(seat, &Err(silence())),
        }
    }

    // ---- Waiters ----

    /// Time has passed: denies the waiters whose limit has been reached.
    pub(in super::super) fn tick(&mut self) {
        while let Some(id) = self.queue.overdue(self.pass.now) {
            let denial = Denial::Timeout(self.outage());
            self.leave_upgrade(|upgrade| upgrade.id == id);
            self.pass.wake(self.queue.answer(id, Err(denial)));
        }
    }

    /// Denies the upgrade and the waiters that can never be served.
    fn deny(&mut self) -> bool {
        let upgrade = self.upgrade.and_then(|upgrade| self.refuses_upgrade(upgrade.hold));
        let line = self.queue.first_want().and_then(|want| self.refuses(want));
        let denied = upgrade.is_some() || line.is_some();
        upgrade.into_iter().for_each(|denial| self.deny_upgrade(denial));
        line.iter().for_each(|denial| self.deny_all(denial));
        denied
    }

    /// The patience of the waiters with a store that does not answer is over.
    fn despair(&mut self, seat: usize) {
        let outage = match &mut self.seats[seat] {
            Seat::Asking(asking) => asking.request.outage.as_mut(),
            leased => leased.going_mut().and_then(|going| going.release.outage.as_mut()),
        };
        if let Some(outage) = outage {
            outage.told = true;
            let denial = Denial::Failed(Error::clone(&outage.error));
            self.deny_all(&denial);
        }
    }

    /// The error of the store for which the line waits, if there is one.
    fn outage(&self) -> Option<Error> {
        self.seats.iter().find_map(|seat| match (seat.outage(), seat) {
            (Some(outage), _) => Some(Error::clone(&outage.error)),
            (_, Seat::Asking(it)) if it.request.sent && !it.refused => Some(silence()),
            _ => None,
        })
    }

    /// Denies the upgrade and the first waiters that only try, if only another holder can help them.
    fn send_tries_home(&mut self) -> bool {
        let blocked = self.tries_to_upgrade()
            && self.upgrade.is_some_and(|upgrade| !self.may_be_exclusive(upgrade.hold.seat()));
        if blocked {
            self.deny_upgrade(Denial::WouldBlock);
        }
        let hopeless =
            matches!(self.queue.first(), Some((_, Patience::Try))) && !self.is_in_motion();
        if hopeless {
            self.deny_tries(&Denial::WouldBlock);
        }
        blocked || hopeless
    }

    // ---- Serving ----

    /// Lets the first waiters enter the lease on this seat, as far as there is room.
    fn serve_seat(&mut self, seat: usize) -> bool {
        let mut served = false;
        // A lease that had no holder yet admits every waiter for which it has room.
        let fresh = self.seats[seat].live().is_some_and(|leased| leased.used == 0);
        while let Some((id, _)) = self.queue.first()
            && let Some(want) = self.queue.want(id)
            && self.admits(seat, want, fresh)
            && let Some(ticket) = self.ticket(seat, want, self.pass.now)
        {
            self.pass.wake(self.queue.answer(id, Ok(ticket)));
            served = true;
        }
        served
    }

    /// Whether one more holder in this mode may enter the lease on this seat. `fresh`: it had no holder before this
    /// event.
    pub(super) fn admits(&self, seat: usize, want: Mode, fresh: bool) -> bool {
        let (now, Some(leased)) = (self.pass.now, self.seats[seat].live()) else { return false };
        if self.upgrade.is_some() || !leased.has_room(want) || !self.is_tolerated(seat, want) {
            return false;
        }
        if fresh || leased.claim.mode.is_joint() {
            // All joint holds belong to one owner.
            leased.is_usable(now)
        } else if leased.holds.is_empty() {
            leased.is_kept(now, self.manner, &self.policy)
        } else {
            // If the writer has become a reader in this very pass, the readers in line may enter, because no request can
            // let them in before the lease ends.
            let opens = || leased.weaken_at == now && leased.lets_readers_in(now, &self.policy);
            (!leased.turn.is_wanted() || opens())
                && leased.may_go_on(now, self.manner, &self.policy)
        }
    }

    /// Gives the lease on this seat to one more holder. `None` if no token is left.
    ///
    /// Holders that share the lease have one token in common, until a holder that does not share enters.
    pub(super) fn ticket(&mut self, seat: usize, want: Mode, since: Instant) -> Option<Ticket> {
        let hold_until = self.policy.max_hold.map_or(Instant::FAR_FUTURE, |it| since + it);
        let leased = self.seats[seat].live_mut()?;
        let shares = matches!(want, Mode::Shared | Mode::Upgradable | Mode::Joint { .. });
        let token = match leased.group {
            Some(token) if shares => token,
            _ => leased.tokens.take()?,
        };
        leased.group = shares.then_some(token);
        let entered = match (leased.used, leased.is_pushed) {
            (0, true) => Entered::Granted,
            (0, false) => Entered::Free,
            _ if leased.holds.live() > 0 => Entered::Joined,
            _ => Entered::HandOff,
        };
        leased.serve();
        self.holds += 1;
        let hold = leased.holds.add(seat, self.holds, want, token, hold_until);
        let lease = Arc::clone(&leased.lease);
        Some(Ticket { hold, lease, token, since, hold_until, entered })
    }

    // ---- Asking ----

    /// Begins to claim a lease for the first waiter, if it needs one.
    fn ask(&mut self) -> bool {
        if self.queue.is_empty() {
            (self.courtesy, self.trouble) = (None, None);
        }
        let Some(mode) = self.wanted_lease() else { return false };
        let yields = self.courtesy.filter(|_| self.is_waited_for());
        let claim = match self.draw(mode) {
            Ok(claim) => claim,
            Err(error) => {
                self.deny_all(&Denial::Failed(error));
                return true;
            }
        };
        let mut asking = match yields {
            Some((hinted, most)) => Asking::yielding(claim, hinted, most),
            None => Asking::new(claim, self.pass.now),
        };
        (asking.request.outage, self.courtesy) = (self.trouble.take(), None);
        let seat = self.seats.iter().position(Seat::is_free).unwrap_or(self.seats.len());
        if seat == self.seats.len() {
            self.seats.push(Seat::Free);
        }
        self.seats[seat] = Seat::Asking(asking);
        if yields.is_none() {
            self.send_attempt(seat, false);
        }
        true
    }

    fn send_attempt(&mut self, seat: usize, insists: bool) {
        let (waits, first) = (self.is_waited_for(), self.queue.first_want());
        let Seat::Asking(asking) = &self.seats[seat] else { return };
        let mode = asking.claim.mode;
        // A claim to more than the first waiter needs takes no place. If no other process can be in the way of the claim,
        // the claim takes a place only if it insists.
        let queued = waits && first == Some(mode) && (insists || !self.has_all(mode));
        let request = self.request(asking.claim.clone(), queued);
        if let Seat::Asking(asking) = &mut self.seats[seat] {
            asking.send(queued);
        }
        self.pass.attempt(request);
    }

    /// Frees the seat of a claim that no waiter here needs, or of a lost lease. If the store may have granted such a
    /// claim or given it a place, the claim is released.
    fn drop_claim(&mut self, seat: usize) {
        let Seat::Asking(asking) = std::mem::replace(&mut self.seats[seat], Seat::Free) else {
            return;
        };
        if asking.request.outage.is_some() || asking.placed {
            let (now, none) = (self.pass.now, TokenRange::single(FencingToken::new(0)));
            let grant = Grant::new(none, now + self.policy.ttl.duration());
            let lease = self.next_lease(grant.valid_until);
            let mut unseen =
                Leased::new(Holdings::default(), lease, asking.claim, grant, Ttl::MAX, now);
            (unseen.spent, unseen.stage) = (true, Stage::Going(Going::new(now)));
            self.seats[seat] = Seat::Leased(unseen);
        }
    }
}
