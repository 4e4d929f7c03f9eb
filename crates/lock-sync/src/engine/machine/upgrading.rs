//! From an upgradable hold to an exclusive one.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{Acquire, Attempt, Claim, Error, ErrorKind, Instant, Mode};

use super::held::Leaving;
use super::holds::{HoldId, State};
use super::timing::{backoff, jitter};
use super::{Denial, Effects, Machine, Op, Outage, Outcome, Phase, Ticket};
use crate::engine::queue::Patience;
use crate::error::{LeaseLost, LossReason};

/// An upgrade that is wanted. There is at most one: two upgradable holds exclude each other.
#[derive(Debug)]
pub(super) struct Upgrade<W> {
    hold: HoldId,
    patience: Patience,
    /// What the lease is to become.
    claim: Claim,
    stage: Asking,
    tokens: Tokens,
    waker: Option<W>,
}

#[derive(Debug)]
enum Asking {
    /// The store need not be asked, or not yet.
    Not,
    /// A request is under way.
    Sent { again: bool },
    /// Refused: the claim may have a place at the head of the store's queue.
    Refused { until: Instant, outage: Option<Outage> },
}

/// What was done to have a token, if the lease is exclusive already and has none left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tokens {
    Unasked,
    /// A renewal was to bring some.
    Asked,
    /// It brought none, as where a clock has to catch up first. A grant always comes with one: the lease is to be
    /// weaker for a moment, and upgraded by the store.
    Regranted,
}

impl<W> Upgrade<W> {
    pub(super) fn hold(&self) -> HoldId {
        self.hold
    }
}

impl<W> Machine<W> {
    /// Whether the hold that is about to be exclusive is on this seat: nobody joins it there.
    pub(super) fn is_upgrading(&self, seat: usize) -> bool {
        self.upgrade.as_ref().is_some_and(|upgrade| upgrade.hold.seat() == seat)
    }

    /// Whether the hold that is about to be exclusive is on this seat, and the lease stays exclusive for it.
    pub(super) fn needs_strength(&self, seat: usize) -> bool {
        let regrants = |upgrade: &Upgrade<W>| upgrade.tokens == Tokens::Regranted;
        self.is_upgrading(seat) && !self.upgrade.as_ref().is_some_and(regrants)
    }

    /// The store does not answer about a lease before whose answer no upgrade can be asked for. Whoever tries does
    /// not wait for it.
    pub(super) fn deny_trying(
        &mut self,
        seat: usize,
        now: Instant,
        error: Error,
        effects: &mut Effects<W>,
    ) {
        let tries =
            |upgrade: &Upgrade<W>| upgrade.hold.seat() == seat && upgrade.patience == Patience::Try;
        if self.upgrade.as_ref().is_some_and(tries) {
            self.deny_upgrade(now, Denial::Failed(error), effects);
        }
    }

    /// Whether the store may have made the lease on this seat exclusive, without its being known here.
    pub(super) fn may_be_upgraded(&self, seat: usize) -> bool {
        let asked = self.upgrade.as_ref().is_some_and(|upgrade| {
            upgrade.hold.seat() == seat && !matches!(upgrade.stage, Asking::Not)
        });
        asked || matches!(&self.seats[seat], Phase::Held(held) if held.leaving.is_some())
    }

    /// Whether this claim is what the upgrade asks for.
    pub(super) fn upgrade_asks_for(&self, claim: &Claim) -> bool {
        self.upgrade.as_ref().is_some_and(|upgrade| upgrade.claim == *claim)
    }

    /// A holder wants to hold alone. Its outcome is fetched with [`poll_upgrade`](Self::poll_upgrade).
    ///
    /// # Errors
    ///
    /// Why that cannot be.
    pub(in super::super) fn begin_upgrade(
        &mut self,
        now: Instant,
        hold: HoldId,
        patience: Patience,
        effects: &mut Effects<W>,
    ) -> Result<(), Denial> {
        if self.closed {
            return Err(Denial::Closed);
        }
        let claim = match self.seats.get(hold.seat()) {
            Some(Phase::Held(held))
                if held.holds.get(hold).is_some_and(|holding| holding.state == State::Live) =>
            {
                held.claim.clone().in_mode(Mode::Exclusive)
            }
            Some(Phase::Lost { loss, .. }) => return Err(Denial::Lost(*loss)),
            _ => return Err(Denial::Lost(LeaseLost::new(LossReason::Expired))),
        };
        let (stage, tokens) = (Asking::Not, Tokens::Unasked);
        self.upgrade = Some(Upgrade { hold, patience, claim, stage, tokens, waker: None });
        self.advance_upgrade(now, effects);
        Ok(())
    }

    /// What became of the upgrade of this hold; `None` leaves its waker.
    pub(in super::super) fn poll_upgrade(
        &mut self,
        hold: HoldId,
        waker: impl FnOnce() -> W,
    ) -> Option<Outcome> {
        if let Some(nth) = self.upgraded.iter().position(|(done, _)| *done == hold) {
            return Some(self.upgraded.swap_remove(nth).1);
        }
        let upgrade = self.upgrade.as_mut().filter(|upgrade| upgrade.hold == hold)?;
        upgrade.waker = Some(waker());
        None
    }

    /// Nobody waits for the upgrade of this hold any more, which stays as it is.
    pub(in super::super) fn abandon_upgrade(
        &mut self,
        now: Instant,
        hold: HoldId,
        effects: &mut Effects<W>,
    ) {
        self.upgraded.retain(|(done, _)| *done != hold);
        if self.upgrade.as_ref().is_some_and(|upgrade| upgrade.hold == hold) {
            self.leave_line(now, effects);
            self.upgrade = None;
            self.weaken(hold.seat(), now, effects);
            self.line_changed(now, effects);
        }
    }

    /// The upgrade will not be.
    pub(super) fn deny_upgrade(&mut self, now: Instant, denial: Denial, effects: &mut Effects<W>) {
        if let Some(seat) = self.upgrade.as_ref().map(|upgrade| upgrade.hold.seat()) {
            self.leave_line(now, effects);
            self.settle_upgrade(Err(denial), effects);
            self.weaken(seat, now, effects);
            self.line_changed(now, effects);
        }
    }

    /// The upgrade will not be, because the lease on this seat is lost. Returns whether the store may know
    /// of it.
    pub(super) fn lose_upgrade(
        &mut self,
        seat: usize,
        loss: LeaseLost,
        effects: &mut Effects<W>,
    ) -> bool {
        let asked = self.may_be_upgraded(seat);
        if self.is_upgrading(seat) {
            self.settle_upgrade(Err(Denial::Lost(loss)), effects);
        }
        asked
    }

    fn settle_upgrade(&mut self, outcome: Outcome, effects: &mut Effects<W>) {
        if let Some(upgrade) = self.upgrade.take() {
            self.upgraded.push((upgrade.hold, outcome));
            effects.wake(upgrade.waker);
        }
    }

    /// Gives up a place at the head of the store's queue, if there may be one.
    ///
    /// Not by releasing the claim: it may have been granted, and would then go from under a holder who
    /// relies on it.
    fn leave_line(&mut self, now: Instant, effects: &mut Effects<W>) {
        let Some(upgrade) = &mut self.upgrade else { return };
        let seat = upgrade.hold.seat();
        let leaving = match std::mem::replace(&mut upgrade.stage, Asking::Not) {
            Asking::Not => return,
            Asking::Sent { .. } => Leaving::Sent,
            Asking::Refused { .. } => Leaving::Due(now),
        };
        if let Some(Phase::Held(held)) = self.seats.get_mut(seat) {
            held.leaving = Some(leaving);
            self.tick_leaving(seat, now, effects);
        }
    }

    /// Asks once more for an upgrade that was given up, if it is time.
    pub(super) fn tick_leaving(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let Some(Phase::Held(held)) = self.seats.get_mut(seat) else { return };
        if matches!(held.leaving, Some(Leaving::Due(at)) if now >= at) {
            held.leaving = Some(Leaving::Sent);
            let claim = held.claim.clone().in_mode(Mode::Exclusive);
            let request = Acquire::new(claim, self.policy.ttl).converting(held.claim.mode);
            effects.ops.push(Op::Attempt(request));
        }
    }

    /// The store answered about an upgrade that was given up. Returns the answer if it was not.
    fn left_line(
        &mut self,
        now: Instant,
        asked: &Claim,
        result: Result<Attempt, Error>,
        effects: &mut Effects<W>,
    ) -> Option<Result<Attempt, Error>> {
        let ours = |phase: &Phase| {
            matches!(phase, Phase::Held(held)
                if held.claim.owner == asked.owner && held.leaving == Some(Leaving::Sent))
        };
        let Some(seat) = self.seats.iter().position(ours) else { return Some(result) };
        let ttl = self.policy.ttl.duration();
        let Phase::Held(held) = &mut self.seats[seat] else { return Some(result) };
        held.leaving = None;
        match result {
            Ok(Attempt::Granted(grant)) => {
                held.become_exclusive(asked.clone(), grant.tokens);
                held.lease.extend(grant.valid_until);
                held.answered(grant.demand, now);
                held.weaken_at = now;
            }
            Ok(Attempt::Queued { .. }) => held.leaving = Some(Leaving::Due(now)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotHeld => {
                self.lose(seat, now, LossReason::Revoked, effects);
                return None;
            }
            Err(error) => {
                held.leaving = Some(Leaving::Due(held.retry_at(now, ttl)));
                self.deny_trying(seat, now, error, effects);
            }
        }
        self.tick_leaving(seat, now, effects);
        self.after_answer(seat, now, effects);
        None
    }

    /// Takes the next step towards an upgrade that is wanted: asks the store, or finds it done.
    pub(super) fn advance_upgrade(&mut self, now: Instant, effects: &mut Effects<W>) {
        let Some(upgrade) = &self.upgrade else { return };
        if !matches!(upgrade.stage, Asking::Not) {
            return;
        }
        let (hold, patience) = (upgrade.hold, upgrade.patience);
        let Some(Phase::Held(held)) = self.seats.get_mut(hold.seat()) else { return };
        let settled = held.converting.is_none() && held.leaving.is_none();
        let (claimed, busy) = (held.claim.mode == Mode::Exclusive, held.renewing);
        let alone = held.holds.live() == 1 && !held.holds.has_dead();
        let alone = alone && self.is_tolerated(hold.seat(), Mode::Exclusive);
        if !alone && patience == Patience::Try {
            // Whoever tries does not make those wait who read here.
            return self.deny_upgrade(now, Denial::WouldBlock, effects);
        }
        if !settled && patience == Patience::Try {
            self.hurry_news(hold.seat(), now, effects);
        }
        if !settled || claimed && !alone {
            return;
        }
        if !claimed {
            if !busy {
                self.ask_to_upgrade(effects);
            }
            return;
        }
        let Some(Phase::Held(held)) = self.seats.get_mut(hold.seat()) else { return };
        match held.next_token() {
            Some(token) => {
                let mut until = Instant::FAR_FUTURE;
                held.holds.change(hold, |holding| {
                    holding.mode = Mode::Exclusive;
                    holding.token = token;
                    until = holding.until;
                });
                held.weaken_at = Instant::FAR_FUTURE;
                let lease = std::sync::Arc::clone(&held.lease);
                self.settle_upgrade(Ok(Ticket { hold, lease, token, hold_until: until }), effects);
            }
            None if busy => {}
            None => self.fetch_token(hold.seat(), now, effects),
        }
    }

    /// Has the store asked now what the lease on this seat has become, if that is to be asked again later.
    fn hurry_news(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let Some(Phase::Held(held)) = self.seats.get_mut(seat) else { return };
        if let Some(Leaving::Due(at)) = &mut held.leaving {
            *at = now;
            self.tick_leaving(seat, now, effects);
        } else if held.converting.is_some() && !held.renewing {
            held.renew_at = now;
            self.weaken(seat, now, effects);
        }
    }

    fn fetch_token(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let Some(upgrade) = &mut self.upgrade else { return };
        if upgrade.tokens == Tokens::Unasked && self.policy.renew {
            upgrade.tokens = Tokens::Asked;
            self.renew_for_tokens(seat, now, effects);
        } else {
            upgrade.tokens = Tokens::Regranted;
            if let Some(Phase::Held(held)) = self.seats.get_mut(seat) {
                held.weaken_at = now;
            }
            self.weaken(seat, now, effects);
        }
    }

    fn renew_for_tokens(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let mut phase = std::mem::replace(&mut self.seats[seat], Phase::Idle);
        if let Phase::Held(held) = &mut phase {
            self.renew(now, held, true, effects);
        }
        self.seats[seat] = phase;
    }

    /// Asks the store to convert the lease.
    fn ask_to_upgrade(&mut self, effects: &mut Effects<W>) {
        let Some(upgrade) = &mut self.upgrade else { return };
        let Some(Phase::Held(held)) = self.seats.get_mut(upgrade.hold.seat()) else { return };
        let request = Acquire::new(upgrade.claim.clone(), self.policy.ttl)
            .reserving(NonZeroU32::MIN.saturating_add(8))
            .converting(held.claim.mode);
        upgrade.stage = Asking::Sent { again: false };
        let queued = upgrade.patience != Patience::Try;
        effects.ops.push(Op::Attempt(if queued { request.queued() } else { request }));
    }

    /// The store answered to the request for this claim, if that is the upgrade's.
    pub(super) fn upgrade_answered(
        &mut self,
        now: Instant,
        asked: &Claim,
        result: Result<Attempt, Error>,
        effects: &mut Effects<W>,
    ) {
        let Some(result) = self.left_line(now, asked, result, effects) else { return };
        let sent = self.upgrade.as_mut().filter(|upgrade| upgrade.claim == *asked);
        let Some((upgrade, again)) = sent.and_then(|upgrade| match upgrade.stage {
            Asking::Sent { again } => Some((upgrade, again)),
            _ => None,
        }) else {
            if matches!(result, Ok(Attempt::Granted(_) | Attempt::Queued { .. })) {
                // Nobody wants it any more.
                self.forget_unless_known(asked.clone(), effects);
            }
            return;
        };
        let (hold, tries) = (upgrade.hold, upgrade.patience == Patience::Try);
        match result {
            Ok(Attempt::Granted(grant)) => {
                upgrade.stage = Asking::Not;
                upgrade.tokens = Tokens::Unasked;
                if let Some(Phase::Held(held)) = self.seats.get_mut(hold.seat()) {
                    held.become_exclusive(asked.clone(), grant.tokens);
                    held.lease.extend(grant.valid_until);
                    held.answered(grant.demand, now);
                    held.consider_weaker(now);
                }
                self.advance_upgrade(now, effects);
            }
            Ok(Attempt::Busy { .. }) if tries => {
                upgrade.stage = Asking::Not;
                self.deny_upgrade(now, Denial::WouldBlock, effects);
            }
            Ok(refusal) => self.upgrade_refused(now, asked, refusal, again, effects),
            Err(error) => self.upgrade_failed(now, asked, error, effects),
        }
    }

    /// The store has refused the upgrade that is wanted.
    fn upgrade_refused(
        &mut self,
        now: Instant,
        asked: &Claim,
        refusal: Attempt,
        again: bool,
        effects: &mut Effects<W>,
    ) {
        let ttl = self.policy.ttl.duration();
        let after = |retry_after: Option<Duration>| retry_after.unwrap_or(ttl) + jitter(asked);
        let pause = match refusal {
            Attempt::Busy { retry_after } => self.pause_outside(asked, after(retry_after)),
            Attempt::Queued { retry_after } => after(retry_after),
            _ => {
                let error = Error::new(ErrorKind::Protocol, "an outcome this version cannot read");
                return self.deny_upgrade(now, Denial::Failed(error), effects);
            }
        };
        if let Some(upgrade) = &mut self.upgrade {
            upgrade.stage = Asking::Refused { until: now + pause, outage: None };
        }
        self.watch_again(now, effects);
        if again {
            self.ask_upgrade_again(effects);
        }
    }

    /// The request for the upgrade that is wanted has failed.
    fn upgrade_failed(
        &mut self,
        now: Instant,
        asked: &Claim,
        error: Error,
        effects: &mut Effects<W>,
    ) {
        let Some(upgrade) = &mut self.upgrade else { return };
        let (hold, tries) = (upgrade.hold, upgrade.patience == Patience::Try);
        if error.is_retryable() && !tries {
            let outage = Outage::continued(None, now, error);
            let until = now + backoff(outage.tries, asked);
            upgrade.stage = Asking::Refused { until, outage: Some(outage) };
            return;
        }
        // After an error that time cures, it is not known what became of the request.
        upgrade.stage = match error.is_retryable() {
            true => Asking::Refused { until: now, outage: None },
            false => Asking::Not,
        };
        let denial = if error.kind() == ErrorKind::NotHeld {
            // The next renewal finds that out, and says so to the holder.
            self.renew_seat(hold.seat(), now, effects);
            Denial::Lost(LeaseLost::new(LossReason::Revoked))
        } else {
            Denial::Failed(error)
        };
        self.deny_upgrade(now, denial, effects);
    }

    /// The store may have granted the upgrade, or have room for it: asks again.
    pub(super) fn ask_upgrade_again(&mut self, effects: &mut Effects<W>) {
        match self.upgrade.as_mut().map(|upgrade| &mut upgrade.stage) {
            Some(Asking::Sent { again }) => *again = true,
            Some(Asking::Refused { .. }) => self.ask_to_upgrade(effects),
            _ => {}
        }
    }

    /// When the upgrade has something to do, if nothing else happens.
    pub(super) fn upgrade_deadline(&self) -> Instant {
        let Some(upgrade) = self.upgrade.as_ref() else {
            return Instant::FAR_FUTURE;
        };
        let again = match upgrade.stage {
            Asking::Refused { until, .. } => until,
            _ => Instant::FAR_FUTURE,
        };
        match upgrade.patience {
            Patience::Until(limit) => again.min(limit),
            _ => again,
        }
    }

    /// Time has passed.
    pub(super) fn tick_upgrade(&mut self, now: Instant, effects: &mut Effects<W>) {
        let Some(upgrade) = self.upgrade.as_ref() else {
            return;
        };
        let error = match &upgrade.stage {
            Asking::Refused { outage, .. } => outage.as_ref().map(|outage| outage.error.clone()),
            _ => None,
        };
        match (upgrade.patience, &upgrade.stage) {
            (Patience::Until(limit), _) if now >= limit => {
                self.deny_upgrade(now, Denial::Timeout(error), effects);
            }
            (_, Asking::Refused { until, .. }) if now >= *until => self.ask_to_upgrade(effects),
            _ => {}
        }
    }
}
