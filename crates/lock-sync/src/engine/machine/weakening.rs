//! When a lease becomes weaker than it is.

use std::time::Duration;

use lock_core::{Demand, Grant, Instant, Mode, Ttl};

use super::facts::Change;
use super::leased::{Leased, PAUSE};
use crate::engine::tokens::Tokens;

/// A lease that is stronger than its holders need stays so for this time, unless another process wants
/// it: the next holder may need the strength.
const STRONG: Duration = Duration::from_millis(5);

impl Leased {
    /// The conversion to a weaker mode that the store may have carried out.
    pub(super) fn weakening(&self) -> Option<&Change> {
        self.change.as_ref().filter(|change| !change.strengthens())
    }

    /// How often the lease has changed when the store knows what no holder uses now: a conversion under way does
    /// not know of that.
    pub(super) fn next_conversion(&self) -> u64 {
        self.conversions + 1 + u64::from(self.change.is_some())
    }

    /// Notes that a weaker mode will do, if so.
    #[inline]
    pub(super) fn consider_weaker(&mut self, now: Instant) {
        let need = self.holds.need(self.claim.mode);
        self.weaken_at = match need {
            _ if need == self.claim.mode => Instant::FAR_FUTURE,
            _ if self.weaken_at < Instant::FAR_FUTURE => self.weaken_at,
            Mode::Permits { .. } => now + PAUSE,
            _ => now + STRONG,
        };
    }

    /// When to make the lease weaker. `hurried`: a waiter here needs what the lease does not.
    #[inline]
    pub(super) fn weaken_due(&self, hurried: bool) -> Instant {
        if self.holds.need(self.claim.mode) == self.claim.mode {
            Instant::FAR_FUTURE
        } else if hurried || self.demand == Demand::Wanted {
            Instant::from_nanos(0)
        } else {
            self.weaken_at
        }
    }

    /// The mode to convert the lease to, now that this is [due](Self::weaken_due).
    pub(super) fn weaker(&mut self, now: Instant, hurried: bool) -> Option<Mode> {
        if hurried || self.demand == Demand::Wanted {
            self.holds.forget_peak();
        }
        // Of permits as many stay as were used at once of late: they need not come and go.
        let need = self.holds.need_at_peak(self.claim.mode);
        self.holds.forget_peak();
        if need != self.claim.mode {
            return Some(need);
        }
        self.weaken_at = Instant::FAR_FUTURE;
        self.consider_weaker(now);
        None
    }

    /// Has the process give back at once what no holder uses now.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.holds.forget_peak();
        self.weaken_at = self.weaken_at.min(now);
    }

    /// The store has converted the lease.
    pub(super) fn become_mode(&mut self, mode: Mode, grant: Grant, ttl: Ttl, now: Instant) {
        self.claim.mode = mode;
        self.conversions += 1;
        self.lease.extend(grant.valid_until);
        self.answered(grant.demand, now);
        self.weaken_at = Instant::FAR_FUTURE;
        if mode == Mode::Exclusive {
            self.tokens = Tokens::new(grant.tokens);
            (self.group, self.stocked, self.barren) = (None, None, false);
        } else {
            self.renew_at = now + ttl.duration() / 3;
        }
        self.consider_weaker(now);
    }
}
