//! Renewing a lease.

use std::time::Duration;

use lock_core::{Claim, Demand, Instant, Renew, Renewal};

use super::held::Held;
use super::watching::Watching;
use super::{Effects, Machine, Op, Phase};
use crate::error::LossReason;

/// How long to wait at least before a renewal that failed is tried again.
pub(super) const SOON: Duration = Duration::from_millis(1);
/// When a lease that stays here has fewer tokens than this, it gets more.
pub(super) const LOW_TOKENS: u32 = 1024;
/// How many it asks for then.
const STOCK: u32 = 8192;

impl<W> Machine<W> {
    /// Renews, unless that is under way. If more holders are to be expected and few tokens are left,
    /// it asks for some.
    pub(super) fn renew(
        &self,
        now: Instant,
        held: &mut Held,
        more: bool,
        effects: &mut Effects<W>,
    ) {
        // Until it is known what the lease has become, the store may not know it as it was.
        if !self.policy.renew
            || held.converting.is_some()
            || std::mem::replace(&mut held.renewing, true)
        {
            return;
        }
        held.check_at = None;
        held.next_line = self.queue.arrivals();
        held.stocking = more && held.tokens_left() < LOW_TOKENS;
        let tokens = if held.stocking { STOCK } else { 0 };
        let renew = Renew::new(held.claim.clone(), self.policy.ttl).reserving(tokens);
        effects.ops.push(Op::Renew(renew, self.patience_with(held, now)));
    }

    /// How long the answer to a request about a lease may take: one that stalls leaves time for others.
    pub(super) fn patience_with(&self, held: &Held, now: Instant) -> Duration {
        let left = held.lease.deadline().saturating_duration_since(now);
        (self.policy.ttl.duration() / 6).min(left / 3).max(SOON)
    }

    /// Renews what is on this seat.
    pub(super) fn renew_seat(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let mut phase = std::mem::replace(&mut self.seats[seat], Phase::Idle);
        if let Phase::Held(held) | Phase::Kept { held, .. } = &mut phase {
            let shared = !self.queue.is_empty() || held.used > 1;
            self.renew(now, held, shared, effects);
        }
        self.seats[seat] = phase;
    }

    /// The store answered to a renewal of this claim.
    pub(in super::super) fn renew_done(
        &mut self,
        now: Instant,
        claim: &Claim,
        sent: Instant,
        renewal: Renewal,
        effects: &mut Effects<W>,
    ) {
        let ttl = self.policy.ttl.duration();
        // Given up meanwhile, but somebody may take it back.
        let ours = |phase: &Phase| {
            matches!(phase, Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. }
                if held.claim.owner == claim.owner)
        };
        let Some(seat) = self.seats.iter().position(ours) else { return };
        let changing = self.may_be_upgraded(seat);
        // Those that are here already came before others were granted permits.
        let late = match &self.seats[seat] {
            Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } => {
                !self.has_order(held, now)
            }
            _ => false,
        };
        let (Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. }) =
            &mut self.seats[seat]
        else {
            return;
        };
        held.renewing = false;
        let stocked = std::mem::take(&mut held.stocking);
        let mut answered = true;
        let loss = match renewal {
            // Once its deadline has passed a lease is lost for good: a guard that has reported so must
            // not become valid again.
            _ if !held.lease.is_valid(now) => Some(LossReason::Expired),
            // It may have become another.
            Renewal::Lost if changing || held.claim != *claim => {
                answered = false;
                held.renew_at = now + SOON.max(ttl / 30);
                None
            }
            Renewal::Lost => Some(LossReason::Revoked),
            Renewal::Renewed { valid_until, tokens, demand } => {
                held.lease.extend(valid_until);
                held.renew_at = sent + ttl / 3;
                held.relaxed = true;
                held.answered(demand, now);
                match tokens {
                    Some(tokens) if late => held.restock(tokens),
                    Some(tokens) => held.refill(tokens),
                    None => held.barren |= stocked && (late || held.tokens_left() == 0),
                }
                None
            }
            // The deadline stands. Ask again while there is time.
            _ => {
                held.renew_at = held.retry_at(now, ttl);
                held.barren |= stocked && (late || held.tokens_left() == 0);
                answered = false;
                None
            }
        };
        match (loss, &mut self.seats[seat]) {
            (Some(loss), Phase::Held(_)) => self.lose(seat, now, loss, effects),
            (Some(loss), Phase::Kept { .. }) => self.drop_kept(seat, now, loss, effects),
            (Some(_), Phase::Releasing { held, .. }) => held.spent = true,
            (None, Phase::Kept { .. }) => self.review_kept(seat, now, answered, stocked, effects),
            (None, Phase::Held(_)) => self.after_answer(seat, now, effects),
            _ => {}
        }
    }

    /// The store has said how it stands with a lease that is held.
    pub(super) fn after_answer(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        if !self.retire(seat, effects) {
            self.weaken(seat, now, effects);
            self.advance_upgrade(now, effects);
        }
        if !self.queue.is_empty() {
            self.serve_here(now, effects);
            self.next_attempt(now, effects);
        }
    }

    /// News about a lease that nobody here holds.
    ///
    /// `answered`: the store has said something. `stocked`: it was asked for tokens.
    pub(super) fn review_kept(
        &mut self,
        seat: usize,
        now: Instant,
        answered: bool,
        stocked: bool,
        effects: &mut Effects<W>,
    ) {
        let (held, manner, until) = match std::mem::replace(&mut self.seats[seat], Phase::Idle) {
            Phase::Kept { held, manner, until } => (held, manner, until),
            other => {
                self.seats[seat] = other;
                return;
            }
        };
        let waited_for = !self.queue.is_empty();
        // A lease kept for somebody who waits here and still has no token is of no use.
        let useless = waited_for && stocked && held.tokens_left() == 0;
        let quiet = held.demand() == Demand::Quiet
            || held.demand() == Demand::Unknown && (!answered || held.check_at.is_some());
        let learning =
            held.demand() == Demand::Unknown && matches!(self.watch, Watching::Starting { .. });
        if useless || !waited_for && (now >= until || !(quiet || learning)) {
            self.give_up(seat, held, effects);
        } else if waited_for && !held.renewing {
            self.pass_on(seat, now, held, manner, effects);
        } else {
            self.seats[seat] = Phase::Kept { held, manner, until };
        }
    }
}
