//! Renewing a lease.

use std::time::Duration;

use lock_core::{Claim, Instant, Renew, Renewal, Ttl};

use super::leased::{Leased, SOON};
use super::{Fact, Machine, Op};
use crate::engine::holdings::{HoldId, Holding};
use crate::engine::tokens::LOW_TOKENS;
use crate::error::LossReason;

/// How many tokens a renewal asks for, if it asks for tokens.
const STOCK: u32 = 8192;

/// A renewal is late if it leaves later than planned by more than the length of the lease divided by this number.
const LATE: u32 = 6;

impl<W> Machine<W> {
    /// Renews the lease on this seat. If more holders are likely and few tokens are left, the renewal asks for tokens.
    pub(super) fn send_renewal(&mut self, seat: usize) {
        let waits = !self.queue.is_empty() || self.upgrade.is_some();
        let Some(leased) = self.seats[seat].live_mut() else { return };
        let more = waits || leased.used > 1 || leased.is_idle() || leased.tokens.wanted;
        let stocks = more && leased.tokens.left() < LOW_TOKENS;
        let late = self.pass.now.saturating_duration_since(leased.renewal.at);
        if late > leased.ttl.duration() / LATE {
            let left = leased.lease.deadline().saturating_duration_since(self.pass.now);
            self.pass.facts.push(Fact::Late { late, left });
        }
        leased.renewal.send();
        leased.turn.inquire();
        leased.tokens.asked |= stocks;
        let tokens = if stocks { STOCK } else { 0 };
        let renew = Renew::new(leased.claim.clone(), leased.ttl).reserving(tokens);
        let limit = leased.answer_limit(self.pass.now);
        self.pass.ops.push(Op::Renew(renew, limit));
    }

    /// A holder wants its lease to live for this long from now on. Returns until when, unless the hold is over.
    pub(in super::super) fn extend(&mut self, hold: HoldId, ttl: Ttl) -> Option<Instant> {
        let now = self.pass.now;
        let (until, leased) = (ttl.valid_until(now), self.held_mut(hold)?);
        if leased.lease.deadline() < until {
            leased.ttl = leased.ttl.max(ttl);
            leased.wanted_until = leased.wanted_until.max(until);
            leased.renewal.by(now, false);
        }
        Some(until)
    }

    /// Whether the lease of this hold lasts until this instant, or the hold is over.
    pub(in super::super) fn lasts(&self, hold: HoldId, until: Instant) -> bool {
        let held = |leased: &&Leased| leased.holds.get(hold).is_some_and(Holding::is_live);
        self.live(hold).filter(held).is_none_or(|leased| leased.lease.deadline() >= until)
    }

    /// The store has answered a renewal of this claim.
    pub(in super::super) fn renew_done(&mut self, claim: &Claim, sent: Instant, renewal: &Renewal) {
        let now = self.pass.now;
        // The process may have given the lease up meanwhile, and may still take it back.
        let Some(seat) = self.seat_of(claim.owner) else { return };
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        let ttl = leased.ttl.duration();
        leased.renewal.sent = false;
        leased.trip = now.saturating_duration_since(sent);
        // The store may know the lease in another mode, or a commit may have ended it.
        let ambiguous = leased.change.is_some()
            || leased.claim != *claim
            || leased.writing.as_ref().is_some_and(|write| write.ends);
        match renewal {
            // A guard that has reported the loss must not become valid again.
            _ if !leased.lease.is_valid(now) => self.lose(seat, LossReason::Expired),
            Renewal::Lost if ambiguous => leased.renewal.by(now + SOON.max(ttl / 30), false),
            Renewal::Lost => self.lose(seat, LossReason::Revoked),
            Renewal::Renewed { valid_until, tokens, contention } => {
                leased.lease.extend(*valid_until, now);
                leased.renewal.by(sent + ttl / 3, true);
                leased.turn.answer(*contention, now);
                tokens.iter().for_each(|tokens| leased.tokens.add(*tokens));
                leased.tokens.wanted &= !leased.tokens.asked && leased.tokens.left() == 0;
            }
            // The outcome is unknown: the deadline stays, and the process asks again while there is time.
            _ => leased.renewal.by(leased.retry_at(now), false),
        }
    }
}

impl Leased {
    /// How long the answer to a request about a lease may take: a sixth of the lease, or twice as long as the latest
    /// renewal took. A third of the rest of the lease is left for another request.
    pub(super) fn answer_limit(&self, now: Instant) -> Duration {
        let left = self.lease.deadline().saturating_duration_since(now);
        (self.ttl.duration() / 6).max(2 * self.trip).min(left / 3 * 2).max(SOON)
    }
}
