//! Letting go of a hold, of a part of a hold, and of a lease.

use lock_core::{Acquire, AcquireOutcome, Claim, Error, Instant, Mode, Released};

use super::facts::{Asking, Watching};
use super::leased::{Going, Leased, Stage};
use super::seat::Seat;
use super::{AcquireAnswer, Denial, Machine, Manner, Op, ReleaseAnswer, Return};
use crate::engine::holdings::{HoldId, Holding, State};

/// The request that ends a lease.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(in super::super) claim: Claim,
    /// The mode that the lease may have instead, because a conversion to it had no answer.
    pub(in super::super) other: Option<Mode>,
    /// The request for a place in the store's queue behind other processes, if a waiter here wants one.
    pub(in super::super) next: Option<Box<Acquire>>,
    /// Whether the permits of the lease are forgotten: they do not come back.
    pub(in super::super) forget: bool,
    /// Whether other processes wait for the lease.
    pub(in super::super) wanted: bool,
}

/// What a holder that waits for the store still has to do after it has let go.
#[derive(Debug)]
pub(in super::super) enum Rest {
    /// The hold was over before.
    Over,
    /// Nothing: the lease stays here, for other holders or for a waiter.
    Nothing,
    /// Release the lease.
    Lease(Ending),
    /// Wait until a part of the lease is back.
    Part(Return),
}

impl<W> Machine<W> {
    // ---- Holds ----

    /// A holder lets go. Returns `false` if the hold was over before.
    pub(in super::super) fn release(&mut self, hold: HoldId, manner: Manner) -> bool {
        let (now, ttl) = (self.pass.now, self.policy.ttl);
        self.manner = manner;
        let removed = self.remove(hold).filter(|(_, leased)| leased.is_live());
        let Some((holding, leased)) = removed else { return false };
        if leased.holds.is_empty() {
            leased.idle_until = now + leased.idles(now, manner, ttl);
        }
        // The machine may not have noticed yet that a deadline has passed. The holder must hear of that.
        holding.is_live() && leased.lease.is_valid(now) && now < holding.until
    }

    /// Removes a hold from its lease.
    pub(super) fn remove(&mut self, hold: HoldId) -> Option<(Holding, &mut Leased)> {
        let leased = self.seats.get_mut(hold.seat())?.leased_mut()?;
        let holding = leased.holds.remove(hold)?;
        if holding.state == State::Dead && leased.holds.get(hold).is_none() {
            leased.lease.leave(hold.serial());
        }
        Some((holding, leased))
    }

    /// A holder lets go and waits until the store knows. So a lease that no waiter here wants does not stay for a
    /// pause.
    pub(in super::super) fn release_promptly(&mut self, hold: HoldId, manner: Manner) -> Rest {
        if let Some(leased) = self.live_mut(hold).filter(|it| it.holds.get(hold).is_some()) {
            leased.retaken = false;
        }
        let valid = self.release(hold, manner);
        let part = self.give_back(hold);
        self.settle();
        if !valid {
            return Rest::Over;
        }
        if let Some(ending) = self.begin_release_at(hold.seat()) {
            return Rest::Lease(ending);
        }
        part.map_or(Rest::Nothing, Rest::Part)
    }

    /// Moves this many permits of a hold into a new hold. `None` if the hold is not live, or would keep no permit.
    pub(in super::super) fn split(&mut self, hold: HoldId, part: u32) -> Option<HoldId> {
        let leased = self.seats.get_mut(hold.seat())?.live_mut()?;
        let holding = *leased.holds.get(hold).filter(|holding| holding.is_live())?;
        let Mode::Permits { take, of } = holding.mode else { return None };
        let rest = take.checked_sub(part).filter(|rest| *rest > 0 && part > 0)?;
        leased.holds.change(hold, |holding| holding.mode = Mode::Permits { take: rest, of });
        self.holds += 1;
        let mode = Mode::Permits { take: part, of };
        Some(leased.holds.add(hold.seat(), self.holds, mode, holding.token, holding.until))
    }

    /// Ends a hold whose permits do not come back.
    pub(in super::super) fn forget(&mut self, hold: HoldId, manner: Manner) {
        match self.held_mut(hold) {
            Some(leased) => leased.holds.change(hold, |holding| holding.state = State::Forgotten),
            None => drop(self.release(hold, manner)),
        }
    }

    // ---- Leases ----

    pub(super) fn give_up(&mut self, seat: usize) {
        let now = self.pass.now;
        if let Some(leased) = self.seats[seat].live_mut() {
            leased.stage = Stage::Going(Going::new(now));
        }
    }

    /// Takes back the leases whose release has not been sent, if a new waiter can use them. `want` joins an empty line.
    pub(super) fn take_back(&mut self, want: Mode) {
        let (manner, policy) = (self.manner, &self.policy);
        for leased in self.seats.iter_mut().filter_map(Seat::leased_mut) {
            // A lease whose release was sent is spent, so it is not kept.
            let back = matches!(leased.stage, Stage::Going(_))
                && leased.has_room(want)
                && leased.is_kept(self.pass.now, manner, policy);
            if back {
                leased.stage = Stage::Live;
                leased.idle_until = self.pass.now;
                leased.retaken = true;
            }
        }
    }

    /// Whether a release is due, and if so, whether another process waits for a lease that is to be released.
    pub(in super::super) fn due_release(&self) -> Option<bool> {
        let now = self.pass.now;
        let due = self.leases().filter(|leased| leased.is_due(now));
        due.map(|leased| leased.turn.is_wanted()).max()
    }

    /// Takes one of the releases that are due, if there is one.
    pub(in super::super) fn begin_release(&mut self) -> Option<Ending> {
        (0..self.seats.len()).find_map(|seat| self.begin_release_at(seat))
    }

    fn begin_release_at(&mut self, seat: usize) -> Option<Ending> {
        let now = self.pass.now;
        self.seats.get(seat)?.leased().filter(|leased| leased.is_due(now))?;
        let next = self.request_again(seat);
        let leased = self.seats[seat].leased_mut()?;
        // Whatever the answer will be, the store may have carried out the release.
        leased.spent = true;
        let (claim, forget) = (leased.claim.clone(), leased.holds.has_forgotten());
        let other = leased.other_mode();
        let (wanted, over) = (leased.turn.is_wanted(), now + leased.ttl.duration());
        let going = self.seats[seat].going_mut()?;
        going.release.send();
        // The task that sent the release may never poll it again. By then, the lease is over.
        going.release.by(over, false);
        going.next = next.as_ref().map(|next| {
            let mut asking = Asking::new(next.claim.clone(), Instant::FAR_FUTURE);
            asking.send(true);
            Box::new(asking)
        });
        let next = next.map(Box::new);
        Some(Ending { claim, other, next, forget, wanted })
    }

    /// The request for the next lease, if it can travel together with the release of this lease.
    pub(super) fn request_again(&self, seat: usize) -> Option<Acquire> {
        let leased = self.seats[seat].leased()?;
        let want = self.queue.first_want()?;
        let fits = self.is_waited_for()
            && self.only_seat().is_some()
            && leased.turn.is_wanted()
            && leased.change.is_none()
            && !leased.holds.has_forgotten()
            && self.watch == Watching::On;
        let claim = if fits { self.draw(want).ok()? } else { return None };
        Some(self.request(claim, true))
    }

    /// The store has answered the release of this claim, and `next`, which asked for a place in the same step.
    pub(in super::super) fn release_done(
        &mut self,
        claim: &Claim,
        next: Option<&Claim>,
        result: &ReleaseAnswer,
    ) {
        if let Some(seat) = self.seat_of(claim.owner) {
            self.released(seat, result);
        }
        // If the answer is late, the machine has dropped the next claim.
        if let (Some(next), Ok((_, Some(attempt)))) = (next, result) {
            self.attempt_done(next, &Ok(attempt.clone()));
        }
    }

    /// Whether the only claim of this process goes back, and no waiter needs to know when.
    pub(in super::super) fn parts_alone(&self) -> bool {
        self.seats.len() == 1 && self.queue.is_empty()
    }

    /// The store has the lease back that [parts alone](Self::parts_alone). The next event settles the machine.
    pub(in super::super) fn came_back(&mut self) {
        self.released(0, &Ok((Released::Freed { told: 0 }, None)));
    }

    pub(super) fn released(&mut self, seat: usize, result: &ReleaseAnswer) {
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        let Stage::Going(going) = &mut leased.stage else { return };
        if !going.release.sent {
            return;
        }
        self.used_last = leased.used;
        let next = going.next.take();
        if going.granted_again && !result.as_ref().is_err_and(Error::is_retryable) {
            self.pass.ops.push(leased.withdraw());
        }
        let contended = match (result, next) {
            (Ok((_, Some(_))), Some(next)) => return self.seats[seat] = Seat::Asking(*next),
            (Ok((Released::Freed { told }, _)), _) => *told > 0,
            (other, next) => {
                // An earlier release without an answer may have put the next claim into the queue.
                self.pass.ops.extend(next.map(|next| Op::Withdraw(next.claim, None)));
                match other {
                    Ok(_) => false,
                    Err(error) => return self.release_failed(seat, error),
                }
            }
        };
        let stayed = leased.has_stayed(self.pass.now);
        self.spare = std::mem::take(&mut leased.holds).emptied();
        self.seats[seat] = Seat::Free;
        self.be_courteous(contended, stayed);
    }

    fn release_failed(&mut self, seat: usize, error: &Error) {
        let now = self.pass.now;
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        let Stage::Going(going) = &mut leased.stage else { return };
        going.release.fail(now, error, &leased.claim, &mut self.errors);
        if error.is_retryable() && now < leased.lease.deadline() {
            // The lease ends by itself at its deadline. Until then the release is worth repeating.
            let denial = Denial::Failed(error.clone());
            if self.tries_to_upgrade() {
                self.deny_upgrade(denial.clone());
            }
            return self.deny_tries(&denial);
        }
        if error.is_retryable() {
            // The outage counts for the waiters as well.
            self.trouble = going.release.outage.take();
            // A renewal without an answer may have moved the deadline in the store.
            self.pass.ops.push(leased.withdraw());
        }
        self.seats[seat] = Seat::Free;
    }

    // ---- Claims that the machine does not know ----

    /// An answer about a claim. If the machine has dropped the claim, its grant or its place goes back.
    ///
    /// If a release of the claim is under way and not overdue, the second release waits for its answer. Otherwise the
    /// second could overtake the first, and the holder that waits for the first would hear that it had lost the lease.
    pub(in super::super) fn refuse(&mut self, claim: &Claim, answer: &AcquireAnswer) {
        if !matches!(answer, Ok(AcquireOutcome::Granted(_) | AcquireOutcome::Queued { .. })) {
            return;
        }
        let known = self.seat_of(claim.owner).is_some_and(|seat| match &mut self.seats[seat] {
            Seat::Free => false,
            Seat::Asking(_) => true,
            Seat::Leased(leased) => leased.takes_in(claim.mode),
        });
        if !known {
            self.pass.ops.push(Op::Withdraw(claim.clone(), None));
        }
    }
}

impl Leased {
    /// Releases the claim, whatever the answer, and also if a conversion without an answer was carried out.
    pub(super) fn withdraw(&self) -> Op {
        Op::Withdraw(self.claim.clone(), self.other_mode())
    }

    /// The mode that the lease may have instead.
    fn other_mode(&self) -> Option<Mode> {
        self.change.as_ref().map(|change| change.to)
    }

    /// Whether the release of the lease can be sent. The answer to a request for a weaker mode tells which mode to
    /// release.
    fn is_due(&self, now: Instant) -> bool {
        let going = matches!(&self.stage, Stage::Going(going) if going.release.is_due(now));
        going && !self.is_weakening()
    }

    /// Whether a grant of this claim in this mode is this lease, or is released with it.
    fn takes_in(&mut self, mode: Mode) -> bool {
        if self.claim.mode != mode && self.change.as_ref().is_none_or(|it| it.to != mode) {
            return false;
        }
        match &mut self.stage {
            Stage::Live => true,
            Stage::Lost(_) => false,
            Stage::Going(going) => {
                going.granted_again |= going.release.sent;
                true
            }
        }
    }
}
