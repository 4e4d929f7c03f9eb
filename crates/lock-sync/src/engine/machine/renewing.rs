//! Renewing a lease.

use std::time::Duration;

use lock_core::{Claim, Instant, Renew, Renewal};

use super::leased::{Leased, SOON, Stocking};
use super::plan::LOW_TOKENS;
use super::seat::Seat;
use super::{Machine, Op, Pass};
use crate::error::LossReason;

/// How many tokens a renewal asks for that asks for some.
const STOCK: u32 = 8192;

impl<W> Machine<W> {
    /// How long the answer to a request about a lease may take: one that stalls leaves time for others.
    pub(super) fn answer_limit(&self, leased: &Leased, now: Instant) -> Duration {
        let left = leased.lease.deadline().saturating_duration_since(now);
        (self.policy.ttl.duration() / 6).min(left / 3).max(SOON)
    }

    /// Renews the lease on this seat. If more holders are to be expected and few tokens are left, the
    /// renewal asks for some.
    pub(super) fn send_renewal(&mut self, seat: usize, pass: &mut Pass<W>) {
        let now = pass.now;
        let more = !self.queue.is_empty() || self.upgrade.is_some();
        let Some(leased) = self.seats[seat].live_mut() else { return };
        let more = more || leased.used > 1 || leased.is_idle();
        let stocks = more && leased.tokens.left() < LOW_TOKENS;
        leased.check_at = None;
        leased.inquired = true;
        leased.renewal = Some(if stocks { Stocking::Yes } else { Stocking::No });
        if stocks {
            leased.stocked = Some(leased.used);
        }
        let tokens = if stocks { STOCK } else { 0 };
        let renew = Renew::new(leased.claim.clone(), self.policy.ttl).reserving(tokens);
        if let Some(leased) = self.seats[seat].live() {
            pass.ops.push(Op::Renew(renew, self.answer_limit(leased, now)));
        }
    }

    /// The store answered to a renewal of this claim.
    pub(in super::super) fn renew_done(
        &mut self,
        claim: &Claim,
        sent: Instant,
        renewal: Renewal,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        // It may have been given up meanwhile, and may be taken back.
        let ours = self.seats.iter().position(
            |seat| matches!(seat, Seat::Leased(leased) if leased.claim.owner == claim.owner),
        );
        if let Some(seat) = ours
            && let Some(leased) = self.seats[seat].leased_mut()
        {
            let ttl = self.policy.ttl.duration();
            let loss = leased.renewed(now, claim, sent + ttl / 3, renewal, self.policy.ttl);
            if let Some(loss) = loss {
                self.lose(seat, loss, pass);
            }
        }
        self.settle(pass);
    }
}

impl Leased {
    /// Notes what a renewal came to. Returns why the lease is lost, if it is.
    fn renewed(
        &mut self,
        now: Instant,
        claim: &Claim,
        renew_at: Instant,
        renewal: Renewal,
        ttl: lock_core::Ttl,
    ) -> Option<LossReason> {
        let stocked = self.renewal.take() == Some(Stocking::Yes);
        // The store may know the lease in another mode.
        let ambiguous = self.change.is_some() || self.claim != *claim;
        match renewal {
            // Once its deadline has passed a lease is lost for good: a guard that has reported so must
            // not become valid again.
            _ if !self.lease.is_valid(now) => return Some(LossReason::Expired),
            Renewal::Lost if ambiguous => self.repeat_renewal(now + SOON.max(ttl.duration() / 30)),
            Renewal::Lost => return Some(LossReason::Revoked),
            Renewal::Renewed { valid_until, tokens, demand } => {
                self.lease.extend(valid_until);
                self.renew_at = renew_at;
                self.relaxed = true;
                self.answered(demand, now);
                if let Some(tokens) = tokens {
                    self.tokens.add(tokens);
                    self.barren = false;
                }
                self.barren |= stocked && self.tokens.left() == 0;
            }
            // The deadline stands. The process asks again while there is time.
            _ => {
                self.repeat_renewal(self.retry_at(now, ttl));
                self.barren |= stocked && self.tokens.left() == 0;
            }
        }
        None
    }

    /// A renewal that came to nothing is repeated at this instant, not earlier.
    fn repeat_renewal(&mut self, at: Instant) {
        (self.renew_at, self.relaxed) = (at, false);
    }
}
