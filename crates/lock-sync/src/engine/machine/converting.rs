//! Conversions: a lease takes another mode, and no other process gets the key in between.
//!
//! A lease that is stronger than its holders need becomes weaker. An upgradable hold may become exclusive: its
//! upgrade is a waiter beside the line, and all waiters in the line wait until the upgrade is over.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lock_core::AcquireOutcome::{Busy, Queued};
use lock_core::observer::Entered;
use lock_core::{AcquireOutcome, Claim, Convert, Error, ErrorKind, Grant, Instant, Mode};

use super::facts::{Change, Upgrade};
use super::leased::{Leased, PAUSE, Stage};
use super::seat::Seat;
use super::{AcquireAnswer, Denial, Machine, Op, Ticket};
use crate::engine::holdings::{HoldId, Holding};
use crate::engine::queue::{Patience, WaiterId};
use crate::engine::tokens::Tokens;
use crate::error::{LeaseLost, LossReason};

/// An exclusive lease whose holders read stays exclusive for this time, because the next holder may write. An
/// upgradable lease whose holders only share it stays upgradable for this time, unless another process wants the lease.
const STRONG: Duration = Duration::from_millis(5);

impl<W> Machine<W> {
    // ---- Calls of holders ----

    /// A holder goes on in a weaker mode. The lease becomes weaker later.
    pub(in super::super) fn downgrade(&mut self, hold: HoldId, to: Mode) {
        if let Some(leased) = self.seats.get_mut(hold.seat()).and_then(Seat::leased_mut)
            && let Some(holding) = leased.holds.get(hold).copied()
            && holding.mode.is_stronger_than(to)
        {
            leased.holds.change(hold, |holding| holding.mode = to);
            leased.group = Some(holding.token);
            leased.weaken_at = self.pass.now;
        }
    }

    /// A holder wants to be exclusive. It waits beside the line, before the first waiter in it.
    ///
    /// # Errors
    ///
    /// The reason if there can be no upgrade.
    pub(in super::super) fn begin_upgrade(
        &mut self,
        hold: HoldId,
        patience: Patience,
    ) -> Result<WaiterId, Denial> {
        if let Some(denial) = self.refuses_upgrade(hold) {
            return Err(denial);
        }
        let id = self.queue.push_aside(patience);
        self.upgrade = Some(Upgrade { id, hold });
        // The answer to a request for an earlier upgrade says nothing about this one.
        self.hint_at_change();
        Ok(id)
    }

    /// The reason why this hold can never become exclusive, if there is one.
    pub(super) fn refuses_upgrade(&self, hold: HoldId) -> Option<Denial> {
        let lost = |reason| Some(Denial::Lost(LeaseLost::new(reason)));
        let leased = self.seats.get(hold.seat()).and_then(Seat::leased);
        match leased.map(|leased| (&leased.stage, leased.holds.get(hold))) {
            _ if self.closed => Some(Denial::Closed),
            Some((Stage::Lost(loss), _)) => Some(Denial::Lost(*loss)),
            Some((Stage::Live, Some(holding))) if holding.is_live() => None,
            Some((Stage::Live, Some(_))) => lost(LossReason::HeldTooLong),
            _ => lost(LossReason::Expired),
        }
    }

    /// Whether the lease of this hold is about to become weaker in the store.
    pub(in super::super) fn is_weakening(&self, hold: HoldId) -> bool {
        self.live(hold).is_some_and(|it| it.holds.get(hold).is_some() && it.is_weakening())
    }

    // ---- The upgrade ----

    /// Makes the hold exclusive, with a token of its own.
    pub(super) fn grant_upgrade(&mut self, seat: usize) {
        if let Some(Upgrade { id, hold }) = self.upgrade
            && let Some(leased) = self.seats[seat].live_mut()
            && let Some(hold_until) = leased.holds.get(hold).map(|holding| holding.until)
            && let Some(token) = leased.tokens.take()
        {
            let exclusive = |it: &mut Holding| (it.mode, it.token) = (Mode::Exclusive, token);
            leased.holds.change(hold, exclusive);
            (leased.group, leased.weaken_at) = (None, Instant::FAR_FUTURE);
            let (lease, since) = (Arc::clone(&leased.lease), self.pass.now);
            let entered = Entered::Upgraded;
            let ticket = Ticket { hold, lease, token, since, hold_until, entered };
            self.pass.wake(self.queue.answer(id, Ok(ticket)));
            self.upgrade = None;
        }
    }

    /// Denies the upgrade. Its hold stays as it is.
    pub(super) fn deny_upgrade(&mut self, denial: Denial) {
        if let Some(upgrade) = self.leave_upgrade(|_| true) {
            self.pass.wake(self.queue.answer(upgrade.id, Err(denial)));
        }
    }

    /// No caller waits any more for the upgrade, if it is this one.
    ///
    /// The store may have queued or granted the upgrade. The process asks for it once more, without a place: the
    /// answer either grants the upgrade or removes it from the queue. The process does not release the claim, because
    /// a holder may rely on it.
    pub(super) fn leave_upgrade(&mut self, this: impl Fn(&Upgrade) -> bool) -> Option<Upgrade> {
        self.upgrade.as_ref().filter(|upgrade| this(upgrade))?;
        self.hint_at_change();
        self.upgrade.take()
    }

    /// Whether a hold on this seat waits for an upgrade.
    #[inline]
    pub(super) fn upgrades(&self, seat: usize) -> bool {
        self.upgrade.as_ref().is_some_and(|upgrade| upgrade.hold.seat() == seat)
    }

    // ---- Asking the store ----

    /// Asks the store to convert the lease on this seat to this mode.
    pub(super) fn send_conversion(&mut self, seat: usize, to: Mode) {
        let waits = self.upgrades(seat) && !self.tries_to_upgrade();
        let Some(leased) = self.seats[seat].live_mut() else { return };
        let mut limit = leased.answer_limit(self.pass.now);
        let change = leased.change.get_or_insert_with(|| Change::new(to));
        change.request.send();
        let mut request = Convert::new(leased.claim.clone(), to, leased.ttl);
        if change.strengthens() {
            limit = leased.ttl.duration();
            request = request.reserving(NonZeroU32::MIN.saturating_add(8));
            request.request.queue = waits;
        } else {
            leased.renewal.at = Instant::FAR_FUTURE;
        }
        self.pass.ops.push(Op::Convert(request, limit));
    }

    /// The store has answered the conversion to this claim.
    pub(in super::super) fn convert_done(&mut self, claim: &Claim, result: &AcquireAnswer) {
        let now = self.pass.now;
        let sent = |change: &mut Change| change.request.sent && change.to == claim.mode;
        let known = self.seat_of(claim.owner).and_then(|seat| {
            let leased = self.seats[seat].leased_mut()?;
            Some((seat, leased.change.take_if(sent)?))
        });
        let Some((seat, mut change)) = known else { return self.refuse(claim, result) };
        change.request.sent = false;
        match (result, self.seats[seat].leased_mut()) {
            (Ok(AcquireOutcome::Granted(grant)), Some(leased)) => {
                leased.become_mode(change.to, grant, now);
            }
            (Err(error), _) if error.kind() == ErrorKind::NotHeld => {
                self.lose(seat, LossReason::Revoked);
            }
            (other, _) => self.not_converted(seat, change, other),
        }
    }

    /// The store has not converted the lease, or may have. The process asks again, unless the upgrade is over.
    fn not_converted(&mut self, seat: usize, mut change: Change, answer: &AcquireAnswer) {
        let now = self.pass.now;
        let wanted = self.upgrades(seat) && change.strengthens();
        // A refusal ends a try, unless the request was for an earlier upgrade.
        let asks_again = wanted && (!self.tries_to_upgrade() || change.request.at <= now);
        let Some(claim) = self.seats[seat].claim().cloned() else { return };
        match answer {
            Ok(Busy { .. }) if change.strengthens() && !asks_again => {
                return self.deny_upgrade(Denial::WouldBlock);
            }
            Ok(refusal @ (Busy { .. } | Queued { .. })) if change.strengthens() => {
                change.request.outage = None;
                change.placed = matches!(refusal, Queued { .. });
                let pause = self.pause_after(&claim, refusal);
                // An upgrade that is no longer wanted must leave the queue at once.
                change.request.by(if wanted { now + pause } else { now }, false);
            }
            other => {
                let undecided = Error::new(ErrorKind::NotReady, "the lease was not converted");
                let error = other.as_ref().err().unwrap_or(&undecided);
                if self.conversion_failed(seat, &mut change, error) {
                    return;
                }
            }
        }
        if let Some(leased) = self.seats[seat].leased_mut() {
            leased.change = Some(change);
        }
    }

    /// The request has failed. Returns whether the conversion is over.
    fn conversion_failed(&mut self, seat: usize, change: &mut Change, error: &Error) -> bool {
        let (now, refused) = (self.pass.now, !error.is_retryable());
        let wanted = self.upgrades(seat) && change.strengthens();
        let Some(leased) = self.seats[seat].leased_mut() else { return true };
        let since = change.request.fail(now, error, &leased.claim, &mut self.errors);
        if refused || !wanted {
            change.request.at = leased.retry_at(now);
        }
        if !refused {
            change.placed = change.strengthens();
        }
        // A store that does not make the lease weaker may still renew it.
        if !change.strengthens() {
            leased.renewal.by(now, false);
        }
        let lasting = refused || now >= since + self.policy.patience();
        let limited = self.policy.outage_limit.is_some();
        self.deny_after_conversion(
            seat,
            change.to,
            &Denial::Failed(error.clone()),
            |it| match it {
                Patience::Try => true,
                Patience::Until(_) => refused || lasting && limited,
                Patience::Forever => lasting,
            },
        );
        // A refused upgrade is over, unless an earlier request had no answer, or has a place.
        refused && wanted && !change.placed
    }

    /// The lease on this seat was not converted to this mode. Denies the upgrade, or the waiters for permits that may
    /// wait for this conversion, if their patience is over.
    fn deny_after_conversion(
        &mut self,
        seat: usize,
        to: Mode,
        denial: &Denial,
        is_over: impl Fn(Patience) -> bool,
    ) {
        if !self.seats[seat].leased().is_some_and(Leased::is_live) {
            return;
        }
        // A waiter for which the process asks with another claim does not wait for this conversion.
        let asks = self.is_asking();
        if to.counts() {
            let tries = |patience| patience == Patience::Try;
            self.deny_where(denial, |it, _| is_over(it) && (tries(it) || !asks));
        }
        let upgrade = self.upgrade.filter(|upgrade| upgrade.hold.seat() == seat);
        if upgrade.and_then(|upgrade| self.queue.patience(upgrade.id)).is_some_and(is_over) {
            self.deny_upgrade(denial.clone());
        }
    }

    /// A hint says that the store may have granted the upgrade, or may now grant it.
    pub(super) fn hint_at_change(&mut self) {
        if let Some(upgrade) = self.upgrade {
            self.hint_at_change_on(upgrade.hold.seat());
        }
    }

    /// As [`hint_at_change`](Self::hint_at_change), also if no holder waits for the upgrade any more.
    pub(super) fn hint_at_change_on(&mut self, seat: usize) {
        let now = self.pass.now;
        let change = self.seats.get_mut(seat).and_then(|seat| seat.live_mut()?.change.as_mut());
        if let Some(change) = change.filter(|change| change.strengthens()) {
            change.request.at = now;
        }
    }
}

impl Leased {
    /// The conversion to a weaker mode that the store may have carried out.
    pub(super) fn weakening(&self) -> Option<&Change> {
        self.change.as_ref().filter(|change| !change.strengthens())
    }

    /// Whether a request to make the lease weaker is under way.
    pub(super) fn is_weakening(&self) -> bool {
        self.weakening().is_some_and(|change| change.request.sent)
    }

    /// The number of conversions after which the store has back what no holder uses now. A conversion that has begun
    /// may have been sent before the latest holder let go, so one more follows it.
    pub(super) fn next_conversion(&self) -> u64 {
        self.conversions + 1 + u64::from(self.change.is_some())
    }

    /// Considers when to make the lease weaker, if a weaker mode is enough for its holders.
    #[inline]
    pub(super) fn consider_weaker(&mut self, now: Instant) {
        let mode = self.claim.mode;
        if self.holds.need(mode) == mode {
            self.weaken_at = Instant::FAR_FUTURE;
            return;
        }
        // As many permits stay as were lately used at once, so that they need not go back and come again.
        let used_lately = self.weaken_at <= now && self.holds.need_at_peak(mode) == mode;
        if used_lately {
            self.holds.reset_peak();
        }
        if used_lately || self.weaken_at == Instant::FAR_FUTURE {
            self.weaken_at = now + if mode.counts() { PAUSE } else { STRONG };
        }
    }

    /// Makes the process give back at once what no holder uses now.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.holds.reset_peak();
        self.weaken_at = self.weaken_at.min(now);
    }

    /// The store has converted the lease. If the lease is over, the plan loses it in its new mode.
    fn become_mode(&mut self, mode: Mode, grant: &Grant, now: Instant) {
        self.claim.mode = mode;
        self.conversions += 1;
        self.lease.extend(grant.valid_until, now);
        self.turn.answer(grant.contention, now);
        self.weaken_at = Instant::FAR_FUTURE;
        self.holds.reset_peak();
        if mode == Mode::Exclusive {
            self.tokens = Tokens::new(grant.tokens);
            self.group = None;
        } else {
            self.renewal.by(now + self.ttl.duration() / 3, true);
        }
    }
}
