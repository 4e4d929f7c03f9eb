//! Letting go: of a hold, of a part of one, and of the lease.

use lock_core::{Acquire, Attempt, Claim, Demand, Error, Instant, Mode, Released};

use super::facts::{Asking, Outage, Watching};
use super::leased::{Going, Leased, Memory, Release, Stage};
use super::seat::Seat;
use super::timing::{BACKOFF, pause};
use super::{Denial, Machine, Manner, Op, Part, Pass};
use crate::engine::holds::{HoldId, Holding, State};

/// What the shell sends to end a lease.
#[derive(Debug)]
pub(in super::super) struct Ending {
    pub(in super::super) claim: Claim,
    /// The request for a place in the queue behind those who wait elsewhere, if a waiter here wants one.
    pub(in super::super) next: Option<Acquire>,
    /// Its permits do not come back.
    pub(in super::super) forget: bool,
}

/// What is left to be done when a holder that waits for the store has let go.
#[derive(Debug)]
pub(in super::super) enum Rest {
    /// The hold was over before.
    Over,
    /// Other holders here go on with the lease.
    Nothing,
    /// The lease is to be released.
    Lease(Ending),
    /// Part of it is being given back.
    Part(Part),
}

impl<W> Machine<W> {
    // ---- Holds ----

    /// A holder is done. Returns `false` if the hold was over before.
    pub(in super::super) fn release(
        &mut self,
        hold: HoldId,
        manner: Manner,
        pass: &mut Pass<W>,
    ) -> bool {
        if let Some(waker) = self.pass_on(hold, pass.now, manner) {
            pass.wake(waker);
            return true;
        }
        let valid = self.let_go(hold, manner, true, pass);
        self.settle(pass);
        valid
    }

    /// A holder is done, and waits until the store knows: a lease that no waiter here wants does not stay.
    pub(in super::super) fn release_promptly(
        &mut self,
        hold: HoldId,
        manner: Manner,
        pass: &mut Pass<W>,
    ) -> Rest {
        let now = pass.now;
        let valid = self.let_go(hold, manner, false, pass);
        let part = self.give_back(now, hold);
        self.settle(pass);
        if !valid {
            return Rest::Over;
        }
        if let Some(ending) = self.begin_release_at(hold.seat()) {
            return Rest::Lease(ending);
        }
        part.map_or(Rest::Nothing, Rest::Part)
    }

    fn let_go(
        &mut self,
        hold: HoldId,
        manner: Manner,
        may_linger: bool,
        pass: &mut Pass<W>,
    ) -> bool {
        let now = pass.now;
        self.manner = manner;
        if let Some(upgrade) = self.upgrade.as_ref().filter(|upgrade| upgrade.hold == hold) {
            let id = upgrade.id;
            self.leave_upgrade(now);
            pass.discard(self.queue.remove(id).0);
        }
        let (ttl, closed) = (self.policy.ttl, self.closed || !self.policy.renew);
        let Some(leased) = self.seats.get_mut(hold.seat()).and_then(Seat::leased_mut) else {
            return false;
        };
        let Some(holding) = leased.holds.remove(hold) else { return false };
        if holding.state == State::Dead {
            leased.lease.leave(hold.serial());
        }
        if !leased.is_live() {
            return false;
        }
        // A deadline that has passed unnoticed: the holder must hear of it.
        let valid =
            holding.state == State::Live && leased.lease.is_valid(now) && now < holding.until;
        leased.retaken &= may_linger;
        if leased.holds.is_empty() && !closed {
            leased.idle_until = now + leased.idles(now, manner, ttl);
        }
        leased.consider_weaker(now);
        valid
    }

    /// Takes so many permits out of a hold into one of their own.
    pub(in super::super) fn split(&mut self, hold: HoldId, part: u32) -> Option<HoldId> {
        let leased = self.seats.get_mut(hold.seat())?.live_mut()?;
        let holding = *leased.holds.get(hold)?;
        let Mode::Permits { take, of } = holding.mode else { return None };
        let rest = take.checked_sub(part).filter(|rest| *rest > 0 && part > 0)?;
        leased.holds.change(hold, |holding| holding.mode = Mode::Permits { take: rest, of });
        self.holds += 1;
        let mode = Mode::Permits { take: part, of };
        Some(leased.holds.add(hold.seat(), self.holds, mode, holding.token, holding.until))
    }

    /// Ends a hold whose permits do not come back.
    pub(in super::super) fn forget(&mut self, hold: HoldId, manner: Manner, pass: &mut Pass<W>) {
        let now = pass.now;
        let leased = self.seats.get_mut(hold.seat()).and_then(Seat::live_mut);
        let live = |holding: &Holding| holding.state == State::Live;
        match leased.filter(|leased| leased.holds.get(hold).is_some_and(live)) {
            Some(leased) => {
                leased.holds.change(hold, |holding| holding.state = State::Forgotten);
                leased.consider_weaker(now);
                self.settle(pass);
            }
            None => drop(self.release(hold, manner, pass)),
        }
    }

    // ---- Leases ----

    pub(super) fn give_up(&mut self, seat: usize, pass: &mut Pass<W>) {
        let Some(leased) = self.seats[seat].live_mut() else { return };
        // The answer to a conversion under way says what there is to be released. Otherwise it is either.
        let known_soon = |change: &super::facts::Change| change.sent && !change.strengthens();
        if let Some(change) = leased.change.take_if(|change| !known_soon(change)) {
            pass.ops.push(Op::Forget(leased.claim.clone().in_mode(change.to)));
            leased.spent = true;
        }
        leased.stage = Stage::Going(Going::due());
    }

    /// Takes back the leases that were given up a moment ago and that a newcomer can use. `want` joins an
    /// empty line.
    pub(super) fn take_back(&mut self, want: Mode, now: Instant) {
        let (manner, policy) = (self.manner, &self.policy);
        for leased in self.seats.iter_mut().filter_map(Seat::leased_mut) {
            let back = leased.is_going_soon()
                && leased.has_room(want)
                && leased.fate(now, manner, policy) != super::staying::Fate::GiveUp;
            if back {
                leased.stage = Stage::Live;
                leased.idle_until = now;
                leased.retaken = true;
            }
        }
    }

    pub(super) fn set_release(&mut self, seat: usize, release: Release) {
        if let Some(leased) = self.seats[seat].leased_mut()
            && let Stage::Going(going) = &mut leased.stage
        {
            going.release = release;
        }
    }

    /// Forgets a release that failed and that no driver will repeat.
    pub(super) fn drop_failed_release(&mut self, seat: usize) {
        if let Some(leased) = self.seats[seat].leased()
            && let Stage::Going(going) = &leased.stage
            && matches!(going.release, Release::Failed(_))
        {
            self.seats[seat] = Seat::Free;
        }
    }

    /// Whether a release is due; if so, whether another process waits for it.
    pub(in super::super) fn due_release(&self) -> Option<Urgency> {
        let due = self.seats.iter().filter_map(Seat::leased).filter(|leased| is_due(leased));
        due.map(Urgency::of).max()
    }

    /// Takes a claim that is to be released, if there still is one.
    pub(in super::super) fn begin_release(&mut self) -> Option<Ending> {
        (0..self.seats.len()).find_map(|seat| self.begin_release_at(seat))
    }

    fn begin_release_at(&mut self, seat: usize) -> Option<Ending> {
        let next = self.request_again(seat);
        let leased = self.seats.get_mut(seat)?.leased_mut().filter(|leased| is_due(leased))?;
        // Whatever is heard of it: the store may have carried it out.
        leased.spent = true;
        let deadline = leased.lease.deadline();
        let forget = leased.holds.has_forgotten();
        if let Stage::Going(going) = &mut leased.stage {
            going.release = Release::Sent(deadline);
            going.next = next.as_ref().map(|next| {
                let mut asking = Asking::new(next.claim.clone(), Instant::FAR_FUTURE);
                asking.send(true);
                Box::new(asking)
            });
        }
        Some(Ending { claim: leased.claim.clone(), next, forget })
    }

    /// The request that may travel together with a release.
    fn request_again(&self, seat: usize) -> Option<Acquire> {
        let leased = self.seats.get(seat)?.leased().filter(|leased| is_due(leased))?;
        let want = self.queue.first_want()?;
        let alone = self.seats.iter().filter(|seat| !seat.is_free()).count() == 1;
        let fits = self.is_waited_for()
            && alone
            && leased.demand() == Demand::Wanted
            && !leased.holds.has_forgotten()
            && matches!(self.watch, Watching::On { .. });
        if !fits {
            return None;
        }
        let claim = Claim::exclusive(self.key.clone(), (self.owners)().ok()?).in_mode(want);
        Some(Acquire::new(claim, self.policy.ttl).reserving(self.reserve()).queued())
    }

    /// The store answered to the release of this claim.
    pub(in super::super) fn release_done(
        &mut self,
        claim: &Claim,
        result: Result<(Released, Option<Attempt>), Error>,
        pass: &mut Pass<W>,
    ) {
        let sent = |leased: &Leased| {
            leased.claim == *claim
                && matches!(&leased.stage, Stage::Going(going)
                    if matches!(going.release, Release::Sent(_)))
        };
        let seat = self.seats.iter().position(|seat| seat.leased().is_some_and(sent));
        if let Some(seat) = seat {
            self.released(seat, result, pass);
        }
        self.settle(pass);
    }

    fn released(
        &mut self,
        seat: usize,
        result: Result<(Released, Option<Attempt>), Error>,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        let Stage::Going(going) = &mut leased.stage else { return };
        let next = going.next.take();
        if going.granted_again && !result.as_ref().is_err_and(Error::is_retryable) {
            pass.ops.push(Op::Forget(leased.claim.clone()));
        }
        let contended = match (result, next) {
            (Ok((_, Some(attempt))), Some(next)) => {
                self.used_last = leased.used;
                self.seats[seat] = Seat::Asking(*next);
                return self.answered(seat, Ok(attempt), pass);
            }
            (Ok((Released::Freed { contended }, _)), _) => contended,
            (other, next) => {
                // An earlier try, of which nothing was heard, may have put it into the queue.
                pass.ops.extend(next.map(|next| Op::Forget(next.claim)));
                match other {
                    Ok(_) => false,
                    Err(error) => return self.release_failed(seat, error, pass),
                }
            }
        };
        self.used_last = leased.used;
        let stayed = leased.has_stayed(now);
        self.vacate(seat);
        self.be_courteous(now, contended, stayed);
    }

    /// Frees a seat whose lease is over.
    fn vacate(&mut self, seat: usize) {
        if let Seat::Leased(leased) = std::mem::replace(&mut self.seats[seat], Seat::Free) {
            self.memory = Some(Memory::of(*leased));
        }
    }

    fn release_failed(&mut self, seat: usize, error: Error, pass: &mut Pass<W>) {
        let now = pass.now;
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        let Stage::Going(going) = &mut leased.stage else { return };
        if error.is_retryable() && now < leased.lease.deadline() {
            // The lease ends by itself at its deadline; until then it is worth trying again.
            let outage = Outage::continued(going.outage.take(), now, error.clone());
            going.release = Release::Failed(now + pause(BACKOFF, outage.tries, &leased.claim));
            going.outage = Some(outage);
            return self.deny_tries(&Denial::Failed(error), pass);
        }
        if error.is_retryable() {
            // A renewal of which nothing was heard may have given the lease more time.
            pass.ops.push(Op::Forget(leased.claim.clone()));
            // The waiters have waited for the store since then.
            self.trouble = Some(Outage::continued(going.outage.take(), now, error));
        }
        self.used_last = leased.used;
        self.seats[seat] = Seat::Free;
    }

    // ---- Claims that the machine does not know ----

    /// A claim turned out to be held. Unless the machine wants it, the shell releases it.
    pub(in super::super) fn forget_unless_known(&mut self, claim: Claim, pass: &mut Pass<W>) {
        self.forget_stranger(claim, pass);
        self.settle(pass);
    }

    /// Sees to the release of a claim that the store has just granted or queued, unless the machine wants it.
    ///
    /// If a release of the claim is under way, another one follows its answer. An earlier one could overtake it:
    /// then the holder that waits for the answer would hear that it had lost the lease.
    pub(super) fn forget_stranger(&mut self, claim: Claim, pass: &mut Pass<W>) {
        let known = self.seats.iter_mut().any(|seat| match seat {
            Seat::Free => false,
            Seat::Asking(asking) => asking.claim == claim,
            Seat::Leased(leased) => leased.takes_in(&claim),
        });
        if !known {
            pass.ops.push(Op::Forget(claim));
        }
    }
}

impl Leased {
    /// Whether a grant of this claim is this lease, or leaves with it.
    fn takes_in(&mut self, claim: &Claim) -> bool {
        let converts = self.change.as_ref().is_some_and(|it| it.to == claim.mode);
        if self.claim.owner != claim.owner || !(self.claim.mode == claim.mode || converts) {
            return false;
        }
        match &mut self.stage {
            Stage::Live => true,
            Stage::Lost(_) => false,
            Stage::Going(going) => {
                going.granted_again |= matches!(going.release, Release::Sent(_));
                true
            }
        }
    }
}

/// How soon a release has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Urgency {
    /// The driver sends it.
    Soon,
    /// Another process waits for it.
    Now,
}

impl Urgency {
    fn of(leased: &Leased) -> Self {
        if leased.demand() == Demand::Wanted { Self::Now } else { Self::Soon }
    }
}

/// Whether the release of a lease can be sent.
fn is_due(leased: &Leased) -> bool {
    leased.is_going_soon() && leased.change.is_none()
}
