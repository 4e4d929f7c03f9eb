//! Conversions: a lease takes another mode, and no other process gets in between.
//!
//! A holder may need less than its lease is; then the lease becomes weaker. An upgradable hold may want to be
//! exclusive: that is a waiter at the head of the line, which every other waiter waits for.

use std::num::NonZeroU32;

use lock_core::{Attempt, Claim, Convert, Error, ErrorKind, Instant, Mode, OwnerToken};

use super::facts::{Change, Outage, Upgrade};
use super::leased::Stage;
use super::seat::Seat;
use super::timing::{BACKOFF, pause};
use super::{Denial, Machine, Op, Pass};
use crate::engine::holds::{HoldId, State};
use crate::engine::queue::{Patience, WaiterId};
use crate::error::{LeaseLost, LossReason};

/// A part of a lease of permits that is given back.
#[derive(Debug)]
pub(in super::super) struct Part {
    seat: usize,
    owner: OwnerToken,
    /// It is back when the lease has changed so often.
    after: u64,
}

impl<W> Machine<W> {
    // ---- What holders want ----

    /// A holder goes on in a weaker mode. The lease becomes weaker afterwards.
    pub(in super::super) fn downgrade(&mut self, hold: HoldId, to: Mode, pass: &mut Pass<W>) {
        let now = pass.now;
        if let Some(leased) = self.seats.get_mut(hold.seat()).and_then(Seat::leased_mut) {
            match leased.stage {
                Stage::Live => leased.downgrade(hold, to, now),
                // Its guard only reads from now on.
                _ => leased.holds.change(hold, |holding| holding.mode = to),
            }
        }
        self.settle(pass);
    }

    /// A holder wants to hold alone. It waits at the head of the line.
    ///
    /// # Errors
    ///
    /// Why that cannot be.
    pub(in super::super) fn begin_upgrade(
        &mut self,
        hold: HoldId,
        patience: Patience,
        pass: &mut Pass<W>,
    ) -> Result<WaiterId, Denial> {
        if self.closed {
            return Err(Denial::Closed);
        }
        let expired = Denial::Lost(LeaseLost::new(LossReason::Expired));
        let leased = self.seats.get(hold.seat()).and_then(Seat::leased).ok_or(expired.clone())?;
        match (&leased.stage, leased.holds.get(hold)) {
            (Stage::Lost(loss), _) => return Err(Denial::Lost(*loss)),
            (Stage::Live, Some(holding)) if holding.state == State::Live => {}
            _ => return Err(expired),
        }
        let id = self.queue.push_aside(patience);
        self.upgrade = Some(Upgrade { id, hold, stocked: false });
        self.settle(pass);
        Ok(id)
    }

    /// Whether the mode that the store has for this hold's lease is unknown.
    pub(in super::super) fn is_converting(&self, hold: HoldId) -> bool {
        let leased = self.seats.get(hold.seat()).and_then(Seat::live);
        leased.is_some_and(|leased| leased.change.is_some() && leased.holds.get(hold).is_some())
    }

    /// A hold on a part of a lease of permits is over: gives that part back at once, unless another holder
    /// here has it by now.
    pub(super) fn give_back(&mut self, now: Instant, hold: HoldId) -> Option<Part> {
        let seat = hold.seat();
        let leased = self.seats.get_mut(seat)?.live_mut().filter(|leased| leased.is_held())?;
        if !leased.has_idle_permits() {
            return None;
        }
        let after = leased.next_conversion();
        leased.hurry(now);
        Some(Part { seat, owner: leased.claim.owner, after })
    }

    /// Whether this part of a lease is back, or a holder here has it; `None` while that is to come. A part
    /// that is not back when the lease ends comes back with its end.
    pub(in super::super) fn is_back(&self, part: &Part) -> Option<bool> {
        let leased = self.seats.get(part.seat).and_then(Seat::leased);
        match leased.filter(|leased| leased.claim.owner == part.owner) {
            Some(leased) if leased.is_held() => {
                let over = leased.conversions >= part.after || !leased.has_idle_permits();
                over.then_some(true)
            }
            Some(leased) => Some(!matches!(leased.stage, Stage::Lost(_))),
            None => Some(false),
        }
    }

    // ---- The upgrade ----

    pub(super) fn grant_upgrade(&mut self, seat: usize, pass: &mut Pass<W>) {
        let Some(upgrade) = self.upgrade.take() else { return };
        let ticket = self.seats[seat].live_mut().and_then(|leased| leased.strengthen(upgrade.hold));
        match ticket {
            Some(ticket) => pass.wake(self.queue.settle(upgrade.id, Ok(ticket))),
            None => self.upgrade = Some(upgrade),
        }
    }

    /// The upgrade will not be.
    pub(super) fn deny_upgrade(&mut self, denial: Denial, pass: &mut Pass<W>) {
        if let Some(upgrade) = &self.upgrade {
            let id = upgrade.id;
            self.deny(id, denial, pass);
        }
    }

    /// No caller waits for the upgrade any more.
    ///
    /// The store may have a place for it, or may have granted it. The process asks for it once more, without
    /// a place: then it is granted or gone. It does not release the claim, which a holder may rely on.
    pub(super) fn leave_upgrade(&mut self, now: Instant) {
        let Some(upgrade) = self.upgrade.take() else { return };
        if let Some(leased) = self.seats[upgrade.hold.seat()].live_mut()
            && let Some(change) = leased.change.as_mut().filter(|change| change.strengthens())
        {
            change.at = now;
        }
    }

    /// Whether the upgrade that is wanted is of a hold on this seat.
    #[inline]
    pub(super) fn upgrades(&self, seat: usize) -> bool {
        self.upgrade.as_ref().is_some_and(|upgrade| upgrade.hold.seat() == seat)
    }

    // ---- Asking the store ----

    pub(super) fn begin_to_weaken(&mut self, seat: usize, hurried: bool, now: Instant) {
        if let Some(leased) = self.seats[seat].live_mut()
            && let Some(to) = leased.weaker(now, hurried)
        {
            leased.change = Some(Change::new(to, now));
        }
    }

    pub(super) fn send_conversion(&mut self, seat: usize, pass: &mut Pass<W>) {
        let now = pass.now;
        let (ttl, upgrades) = (self.policy.ttl, self.upgrades(seat));
        let waits = upgrades && !self.tries_to_upgrade();
        let Some(leased) = self.seats[seat].live_mut() else { return };
        let Some(change) = &mut leased.change else { return };
        (change.sent, change.again) = (true, false);
        let stronger = change.strengthens();
        let mut request = Convert::new(leased.claim.clone(), change.to, ttl);
        if stronger && upgrades {
            request = request.reserving(NonZeroU32::MIN.saturating_add(8));
        }
        if stronger && waits {
            request = request.queued();
        }
        if !stronger {
            leased.check_at = None;
        }
        let Some(leased) = self.seats[seat].live() else { return };
        let limit = if stronger { ttl.duration() } else { self.answer_limit(leased, now) };
        pass.ops.push(Op::Convert(request, limit));
    }

    /// The store answered to the conversion to this claim.
    pub(in super::super) fn convert_done(
        &mut self,
        claim: &Claim,
        result: Result<Attempt, Error>,
        pass: &mut Pass<W>,
    ) {
        let ours = |seat: &Seat| {
            seat.leased().is_some_and(|leased| {
                leased.claim.owner == claim.owner
                    && leased.change.as_ref().is_some_and(|it| it.sent && it.to == claim.mode)
            })
        };
        match self.seats.iter().position(ours) {
            Some(seat) => self.converted(seat, result, pass),
            None if matches!(result, Ok(Attempt::Granted(_) | Attempt::Queued { .. })) => {
                // It was given up meanwhile.
                self.forget_stranger(claim.clone(), pass);
            }
            None => {}
        }
        self.settle(pass);
    }

    fn converted(&mut self, seat: usize, result: Result<Attempt, Error>, pass: &mut Pass<W>) {
        let now = pass.now;
        let ttl = self.policy.ttl;
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        let Some(mut change) = leased.change.take() else { return };
        change.sent = false;
        match result {
            Ok(Attempt::Granted(grant)) if leased.lease.is_valid(now) => {
                leased.become_mode(change.to, grant, ttl, now);
            }
            Ok(Attempt::Granted(_)) => {
                leased.claim.mode = change.to;
                self.lose(seat, LossReason::Expired, pass);
            }
            Err(error) if error.kind() == ErrorKind::NotHeld => {
                self.lose(seat, LossReason::Revoked, pass);
            }
            other if change.strengthens() => self.not_stronger(seat, change, other, pass),
            other => self.not_weaker(seat, change, other, pass),
        }
        self.end_conversion_of_release(seat, pass);
    }

    /// A conversion to a weaker mode has no answer. It may be done or not: the process asks again.
    fn not_weaker(
        &mut self,
        seat: usize,
        mut change: Change,
        result: Result<Attempt, Error>,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        let undecided = || Error::new(ErrorKind::NotReady, "the lease could not be converted");
        let error = result.err().unwrap_or_else(undecided);
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        change.at = leased.retry_at(now, self.policy.ttl);
        let mode = change.to;
        leased.change = Some(change);
        // A caller that does not wait for others does not wait for the store either.
        if mode.counts() {
            self.deny_tries(&Denial::Failed(error.clone()), pass);
        }
        self.deny_trying_upgrade(seat, error, pass);
    }

    /// The store has not made a lease exclusive.
    fn not_stronger(
        &mut self,
        seat: usize,
        mut change: Change,
        result: Result<Attempt, Error>,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        let wanted = self.upgrades(seat);
        let tries = self.tries_to_upgrade();
        let Some(claim) = self.seats[seat].leased().map(|leased| leased.claim.clone()) else {
            return;
        };
        match result {
            Ok(Attempt::Busy { .. }) if tries || !wanted => {
                self.deny_upgrade(Denial::WouldBlock, pass);
                return;
            }
            Ok(refusal @ (Attempt::Busy { .. } | Attempt::Queued { .. })) => {
                change.outage = None;
                // One that is not wanted leaves the queue; a hint makes the refusal old.
                let now_or_never = !wanted || change.again;
                let pause = self.pause_after(&claim, &refusal);
                change.at = if now_or_never { now } else { now + pause };
            }
            Ok(_) => {
                let error = Error::new(ErrorKind::Protocol, "an outcome this version cannot read");
                self.deny_upgrade(Denial::Failed(error), pass);
                // Not at once: the answer may be the same.
                let leased = self.seats[seat].leased();
                change.at = leased.map_or(now, |leased| leased.retry_at(now, self.policy.ttl));
            }
            Err(error) => return self.conversion_failed(seat, change, error, pass),
        }
        if let Some(leased) = self.seats[seat].leased_mut() {
            leased.change = Some(change);
        }
    }

    fn conversion_failed(
        &mut self,
        seat: usize,
        mut change: Change,
        error: Error,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        let wanted = self.upgrades(seat);
        let tries = self.tries_to_upgrade();
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        if wanted && !error.is_retryable() {
            // The store has not carried it out.
            return self.deny_upgrade(Denial::Failed(error), pass);
        }
        let outage = Outage::continued(change.outage.take(), now, error.clone());
        change.at = match wanted {
            true => now + pause(BACKOFF, outage.tries, &leased.claim),
            false => leased.retry_at(now, self.policy.ttl),
        };
        change.outage = Some(outage);
        leased.change = Some(change);
        if tries {
            self.deny_trying_upgrade(seat, error, pass);
        }
    }

    /// The store does not answer about a lease on which an upgrade waits. A caller that only tries does not
    /// wait for the store.
    fn deny_trying_upgrade(&mut self, seat: usize, error: Error, pass: &mut Pass<W>) {
        if self.upgrades(seat) && self.tries_to_upgrade() {
            self.deny_upgrade(Denial::Failed(error), pass);
        }
    }

    /// A lease that was given up while its conversion was under way can be released now, in either mode.
    fn end_conversion_of_release(&mut self, seat: usize, pass: &mut Pass<W>) {
        if let Some(leased) = self.seats[seat].leased_mut()
            && matches!(leased.stage, Stage::Going(_))
        {
            leased.spent = true;
            if let Some(change) = leased.change.take() {
                pass.ops.push(Op::Forget(leased.claim.clone().in_mode(change.to)));
            }
        }
    }

    /// A hint: the store may have granted the upgrade, or have room for it.
    pub(super) fn hint_at_change(&mut self, seat: usize, now: Instant) {
        let wanted = self.upgrades(seat);
        if let Some(leased) = self.seats[seat].live_mut()
            && let Some(change) = leased.change.as_mut().filter(|change| change.strengthens())
            && wanted
        {
            change.again |= change.sent;
            change.at = now;
        }
    }
}
