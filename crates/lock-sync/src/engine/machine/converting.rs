//! From a mode to a weaker one: what a downgrade is, and giving back some of the permits.

use lock_core::{Acquire, Attempt, Claim, Error, ErrorKind, Instant, Mode, OwnerToken};

use super::held::{Held, counts};
use super::holds::HoldId;
use super::{Denial, Effects, Machine, Op, Phase, Stage};
use crate::error::LossReason;

/// A part of a lease of permits that is given back.
#[derive(Debug)]
pub(in super::super) struct Part {
    seat: usize,
    owner: OwnerToken,
    /// It is back when the lease was made smaller so often.
    after: u64,
}

impl<W> Machine<W> {
    /// A holder goes on in a weaker mode. Nobody gets in between: the lease is made weaker afterwards.
    pub(in super::super) fn downgrade(
        &mut self,
        now: Instant,
        hold: HoldId,
        to: Mode,
        effects: &mut Effects<W>,
    ) {
        match self.seats.get_mut(hold.seat()) {
            Some(Phase::Held(held)) => {
                held.downgrade(hold, to, now);
                self.hand_over(hold.seat(), now, effects);
                self.weaken(hold.seat(), now, effects);
            }
            // Its guard only reads from now on.
            Some(Phase::Lost { holds, .. }) => {
                holds.change(hold, |holding| holding.mode = to);
                self.next_attempt(now, effects);
            }
            _ => {}
        }
    }

    /// Whether it is unknown for the moment as what the store has the lease of this hold.
    pub(in super::super) fn is_converting(&self, hold: HoldId) -> bool {
        matches!(self.seats.get(hold.seat()), Some(Phase::Held(held))
            if (held.converting.is_some() || held.leaving.is_some())
                && held.holds.get(hold).is_some())
    }

    /// A hold on a part of a lease of permits is over: gives that part back at once, unless somebody here
    /// has it by now.
    pub(in super::super) fn give_back(
        &mut self,
        now: Instant,
        hold: HoldId,
        effects: &mut Effects<W>,
    ) -> Option<Part> {
        let seat = hold.seat();
        let Some(Phase::Held(held)) = self.seats.get_mut(seat) else { return None };
        if !held.has_idle_permits() {
            return None;
        }
        // What is on its way does not know of it yet.
        let after = held.conversions + 1 + u64::from(held.converting.is_some());
        let part = Part { seat, owner: held.claim.owner, after };
        held.hurry(now);
        self.weaken(seat, now, effects);
        Some(part)
    }

    /// Whether this part of a lease is back, or somebody here has it; `None` while that is to come. What was
    /// not back when the lease ended comes back with its end.
    pub(in super::super) fn is_back(&self, part: &Part) -> Option<bool> {
        match self.seats.get(part.seat) {
            Some(Phase::Held(held)) if held.claim.owner == part.owner => {
                let over = held.conversions >= part.after || !held.has_idle_permits();
                over.then_some(true)
            }
            Some(Phase::Kept { held, .. } | Phase::Releasing { held, .. }) => {
                Some(held.claim.owner == part.owner)
            }
            _ => Some(false),
        }
    }

    /// Converts a lease that is stronger than those who hold it need, if it is time.
    pub(super) fn weaken(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let ttl = self.policy.ttl;
        let patience = match &self.seats[seat] {
            Phase::Held(held) => self.patience_with(held, now),
            _ => return,
        };
        if !matches!(&self.seats[seat], Phase::Held(held) if self.may_weaken(seat, held)) {
            return;
        }
        let Phase::Held(held) = &mut self.seats[seat] else { return };
        if let Some(to) = held.weaker(now) {
            held.converting = Some(to);
            held.renewing = true;
            held.check_at = None;
            let request = Acquire::new(held.claim.clone().in_mode(to), ttl);
            effects.ops.push(Op::Convert(request.converting(held.claim.mode), patience));
        }
    }

    /// Whether the lease may be converted now. One that is about to be exclusive need not be made weaker.
    pub(super) fn may_weaken(&self, seat: usize, held: &Held) -> bool {
        let settled = held.leaving.is_none() && !held.renewing;
        // What was begun has to be known first, whatever is to follow.
        let useful = held.converting.is_some() || !self.needs_strength(seat);
        settled && useful && !held.spent
    }

    /// The store answered to the conversion to this claim.
    pub(in super::super) fn convert_done(
        &mut self,
        now: Instant,
        claim: &Claim,
        result: Result<Attempt, Error>,
        effects: &mut Effects<W>,
    ) {
        let ours = |phase: &Phase| {
            matches!(phase, Phase::Held(held) | Phase::Releasing { held, .. }
                if held.claim.owner == claim.owner && held.converting == Some(claim.mode))
        };
        let Some(seat) = self.seats.iter().position(ours) else {
            // Given up meanwhile.
            if matches!(result, Ok(Attempt::Granted(_))) {
                self.forget_unless_known(claim.clone(), effects);
            }
            return;
        };
        let ttl = self.policy.ttl.duration();
        let (Phase::Held(held) | Phase::Releasing { held, .. }) = &mut self.seats[seat] else {
            return;
        };
        held.renewing = false;
        let (mut loss, mut unknown) = (None, None);
        match result {
            Ok(Attempt::Granted(grant)) => {
                held.claim = claim.clone();
                held.converting = None;
                held.conversions += 1;
                if held.lease.is_valid(now) {
                    held.lease.extend(grant.valid_until);
                    held.renew_at = now + ttl / 3;
                    held.answered(grant.demand, now);
                } else {
                    loss = Some(LossReason::Expired);
                }
                held.weaken_at = Instant::FAR_FUTURE;
                held.consider_weaker(now);
            }
            Err(error) if error.kind() == ErrorKind::NotHeld => {
                held.converting = None;
                loss = Some(LossReason::Revoked);
            }
            // It may have been done or not. Either is asked for again, and nothing else before.
            result => {
                held.renew_at = held.retry_at(now, ttl);
                let undecided =
                    || Error::new(ErrorKind::NotReady, "the lease could not be converted");
                unknown = Some(result.err().unwrap_or_else(undecided));
            }
        }
        if let Some(error) = unknown {
            // Who did not come to wait asks for what is being given back: it does not wait for the store.
            if counts(claim.mode) {
                self.deny_tries(claim.mode, &Denial::Failed(error.clone()), effects);
            }
            self.deny_trying(seat, now, error, effects);
        }
        match (&mut self.seats[seat], loss) {
            (Phase::Held(_), Some(loss)) => self.lose(seat, now, loss, effects),
            (Phase::Held(_), None) => self.after_answer(seat, now, effects),
            (Phase::Releasing { held, stage, .. }, _) => {
                held.spent = true;
                if let Some(other) = held.converting.take() {
                    // Whichever it is.
                    effects.ops.push(Op::Forget(held.claim.clone().in_mode(other)));
                }
                *stage = Stage::Queued;
                effects.ops.push(Op::Release { urgent: false });
            }
            _ => {}
        }
    }
}
