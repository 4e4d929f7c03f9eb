//! The one pass that follows every event.
//!
//! An event records facts. [`Machine::settle`] then lets the first waiters enter the leases that are here,
//! takes every step that the [plan](super::plan) of a seat finds due, and asks for what the first waiter
//! needs, until nothing changes any more.

use lock_core::{Acquire, Claim, Error, ErrorKind, Instant, Mode};

use super::facts::{Asking, Change};
use super::leased::{Going, Leased, Release, Stage};
use super::seat::Seat;
use super::staying::Fate;
use super::step::{Plan, Step};
use super::{Denial, Machine, Pass, Ticket};
use crate::engine::queue::{Patience, WaiterId};

/// More rounds than any event needs. A test that reaches it has found an endless loop.
const MOST_ROUNDS: u32 = 10_000;

impl<W> Machine<W> {
    /// Brings everything in line with the facts.
    pub(super) fn settle(&mut self, pass: &mut Pass<W>) {
        let mut rounds = 0;
        let mut plan = loop {
            self.serve(pass);
            let (plan, stepped) = self.take_steps(pass);
            if !(stepped | self.ask(pass) | self.send_tries_home(pass)) {
                break plan;
            }
            rounds += 1;
            debug_assert!(rounds < MOST_ROUNDS, "the machine does not come to rest");
        };
        while let [_, .., Seat::Free] = &self.seats[..] {
            self.seats.pop();
        }
        self.settle_watch(pass);
        plan.wake(self.queue.first_limit().unwrap_or(Instant::FAR_FUTURE));
        plan.wake(self.watch_due());
        self.next = plan.deadline();
    }

    /// Takes the steps that are due. Returns the plan of all seats as they were then, and whether a step was due.
    fn take_steps(&mut self, pass: &mut Pass<W>) -> (Plan, bool) {
        let mut plan = self.blank_plan(pass.now);
        let mut stepped = false;
        for seat in 0..self.seats.len() {
            self.plan(seat, &mut plan);
            while let Some(step) = plan.step.take() {
                self.take_step(seat, step, pass);
                stepped = true;
                self.plan(seat, &mut plan);
            }
        }
        (plan, stepped)
    }

    fn take_step(&mut self, seat: usize, step: Step, pass: &mut Pass<W>) {
        let now = pass.now;
        match step {
            Step::Ask { insists } => self.send_attempt(seat, insists, pass),
            Step::Drop => self.drop_claim(seat, now),
            Step::Lose(reason) => self.lose(seat, reason, pass),
            Step::EndHold => self.end_overdue_hold(seat, pass),
            Step::GiveUp => self.give_up(seat, pass),
            Step::Weaken { hurried } => self.begin_to_weaken(seat, hurried, now),
            Step::Strengthen => {
                if let Some(leased) = self.seats[seat].leased_mut() {
                    leased.change = Some(Change::new(Mode::Exclusive, now));
                }
            }
            Step::Convert => self.send_conversion(seat, pass),
            Step::GrantUpgrade => self.grant_upgrade(seat, pass),
            Step::RefuseUpgrade => self.deny_upgrade(Denial::WouldBlock, pass),
            Step::Renew => self.send_renewal(seat, pass),
            Step::Stock => {
                if let Some(upgrade) = &mut self.upgrade {
                    upgrade.stocked = true;
                }
                self.send_renewal(seat, pass);
            }
            Step::ReleaseAgain => self.set_release(seat, Release::Due),
            Step::LookAfterRelease => self.set_release(seat, Release::Sent(Instant::FAR_FUTURE)),
            Step::Clear => self.seats[seat] = Seat::Free,
        }
    }

    // ---- Waiters ----

    /// Sends home the waiters whose limit has been reached.
    pub(super) fn expire_waiters(&mut self, pass: &mut Pass<W>) {
        let now = pass.now;
        while let Some(id) = self.queue.overdue(now) {
            let upgrade = self.upgrade.as_ref().filter(|upgrade| upgrade.id == id);
            let denial = Denial::Timeout(match upgrade {
                Some(upgrade) => self.outage_of_change(upgrade.hold.seat()),
                None => self.outage(),
            });
            self.deny(id, denial, pass);
        }
    }

    /// Why the store has not granted what the line waits for, if that is the store's failure.
    fn outage(&self) -> Option<Error> {
        self.seats.iter().find_map(|seat| match seat {
            Seat::Free => None,
            Seat::Asking(asking) => {
                let unanswered =
                    || Error::new(ErrorKind::Timeout, "the backend has not answered yet");
                let fresh = asking.sent.as_ref().is_some_and(|sent| sent.fresh);
                let known = asking.outage.as_ref().map(|outage| outage.error.clone());
                known.or_else(|| fresh.then(unanswered))
            }
            Seat::Leased(leased) => match &leased.stage {
                Stage::Going(going) => going.outage.as_ref().map(|outage| outage.error.clone()),
                Stage::Live | Stage::Lost(_) => None,
            },
        })
    }

    fn outage_of_change(&self, seat: usize) -> Option<Error> {
        let change = self.seats[seat].leased()?.change.as_ref()?;
        change.outage.as_ref().map(|outage| outage.error.clone())
    }

    /// Sends home the first waiter if it does not wait and only another holder can help it.
    fn send_tries_home(&mut self, pass: &mut Pass<W>) -> bool {
        let mut sent = false;
        while let Some((id, Patience::Try)) = self.queue.first()
            && !self.is_in_motion()
        {
            pass.wake(self.queue.settle(id, Err(Denial::WouldBlock)));
            sent = true;
        }
        sent
    }

    /// Gives a waiter its denial. If it wanted an upgrade, its hold stays as it is.
    pub(super) fn deny(&mut self, id: WaiterId, denial: Denial, pass: &mut Pass<W>) {
        let now = pass.now;
        if self.upgrade.as_ref().is_some_and(|upgrade| upgrade.id == id) {
            self.leave_upgrade(now);
        }
        pass.wake(self.queue.settle(id, Err(denial)));
    }

    // ---- Serving ----

    /// Lets the first waiters enter the leases that are here, as far as there is room.
    fn serve(&mut self, pass: &mut Pass<W>) {
        let mut again = true;
        while again && !self.queue.is_empty() {
            again = false;
            for seat in 0..self.seats.len() {
                again |= self.serve_seat(seat, pass);
            }
            // A single seat has served all that it can.
            again &= self.seats.len() > 1;
        }
    }

    fn serve_seat(&mut self, seat: usize, pass: &mut Pass<W>) -> bool {
        let now = pass.now;
        let mut served = false;
        // Every waiter that was in line when the lease was granted may enter with it.
        let fresh = self.seats[seat].live().is_some_and(|leased| leased.used == 0);
        while let Some((id, want)) = self.next_for(seat, now, fresh) {
            let Some(ticket) = self.ticket(seat, now, want) else { break };
            pass.wake(self.queue.settle(id, Ok(ticket)));
            served = true;
            if want == Mode::Exclusive {
                break;
            }
        }
        let more = !self.queue.is_empty();
        if let Some(leased) = self.seats[seat].live_mut().filter(|_| served) {
            leased.crowded |= more || leased.holds.live() > 1;
        }
        served
    }

    /// The next waiter to enter the lease on this seat, if there is room.
    fn next_for(&self, seat: usize, now: Instant, fresh: bool) -> Option<(WaiterId, Mode)> {
        let leased = self.seats[seat].live()?;
        let (id, _) = self.queue.first()?;
        let want = self.queue.want(id)?;
        let enters = !self.upgrades(seat)
            && leased.has_room(want)
            && self.is_tolerated(seat, want)
            && self.admits(leased, now, fresh);
        enters.then_some((id, want))
    }

    /// Whether the lease may have one more holder, as far as other processes and the time are concerned.
    fn admits(&self, leased: &Leased, now: Instant, fresh: bool) -> bool {
        if fresh || leased.claim.mode.is_joint() {
            // Joint holds are one owner's.
            !leased.spent && leased.lease.is_valid(now)
        } else if leased.holds.is_empty() {
            leased.fate(now, self.manner, &self.policy) == Fate::HandOver
        } else {
            (leased.demand() != lock_core::Demand::Wanted || leased.opens(now, &self.policy))
                && leased.may_go_on(now, self.manner, &self.policy)
        }
    }

    /// Gives the lease on this seat to one more holder.
    fn ticket(&mut self, seat: usize, now: Instant, want: Mode) -> Option<Ticket> {
        let limit = self.policy.max_hold;
        let until = limit.map_or(Instant::FAR_FUTURE, |max_hold| now + max_hold);
        let leased = self.seats[seat].live_mut()?;
        let ticket = leased.ticket((seat, self.holds + 1), want, until, now)?;
        self.holds += 1;
        Some(ticket)
    }

    // ---- Asking ----

    /// Claims a lease for the first waiter, if a lease is what it needs.
    fn ask(&mut self, pass: &mut Pass<W>) -> bool {
        let now = pass.now;
        let Some(want) = self.queue.first_want() else {
            (self.courtesy, self.trouble) = (None, None);
            return false;
        };
        if !self.may_ask(want) {
            return false;
        }
        let owner = match (self.owners)() {
            Ok(owner) => owner,
            Err(error) => {
                self.deny_all(&Denial::Failed(error), pass);
                return true;
            }
        };
        let claim = |mode| Claim::exclusive(self.key.clone(), owner).in_mode(mode);
        let yields = self.courtesy.filter(|_| self.is_waited_for());
        let mut asking = match yields {
            Some((hinted, most)) => Asking::yielding(claim(want), hinted, most),
            None => Asking::new(claim(self.in_one_go(want)), now),
        };
        (asking.outage, self.courtesy) = (self.trouble.take(), None);
        let seat = self.free_seat();
        self.seats[seat] = Seat::Asking(asking);
        if yields.is_none() {
            self.send_attempt(seat, false, pass);
        }
        true
    }

    fn free_seat(&mut self) -> usize {
        let free = self.seats.iter().position(Seat::is_free);
        free.unwrap_or_else(|| {
            self.seats.push(Seat::Free);
            self.seats.len() - 1
        })
    }

    fn send_attempt(&mut self, seat: usize, insists: bool, pass: &mut Pass<W>) {
        let now = pass.now;
        let (waits, first) = (self.is_waited_for(), self.queue.first_want());
        let Seat::Asking(asking) = &self.seats[seat] else { return };
        let mode = asking.claim.mode;
        // A claim to more than the first waiter needs takes no place; nor does one that no other process
        // can be in the way of, unless it has waited for long.
        let queued = waits && first == Some(mode) && (insists || !self.has_all(mode, now));
        let request = Acquire::new(asking.claim.clone(), self.policy.ttl).reserving(self.reserve());
        if let Seat::Asking(asking) = &mut self.seats[seat] {
            asking.send(queued);
        }
        pass.attempt(if queued { request.queued() } else { request });
    }

    /// Lets go of a claim that no waiter here needs. If the store may have granted it or given it a
    /// place, the store must hear of that.
    fn drop_claim(&mut self, seat: usize, now: Instant) {
        let Seat::Asking(asking) = std::mem::replace(&mut self.seats[seat], Seat::Free) else {
            return;
        };
        if asking.outage.is_some() || asking.placed {
            let end = now + self.policy.ttl.duration();
            let mut leased = Leased::unseen(self.clock, asking.claim, end, now);
            leased.stage = Stage::Going(Going::due());
            self.seats[seat] = Seat::Leased(leased);
        }
    }

    // ---- Holds that last for too long ----

    fn end_overdue_hold(&mut self, seat: usize, pass: &mut Pass<W>) {
        let now = pass.now;
        let Some(leased) = self.seats[seat].live_mut() else { return };
        if let Some(hold) = leased.holds.overdue(seat, now) {
            self.lose_hold(hold, pass);
        }
    }
}
