//! Whether a lease stays here: for the next holder of this process, or for none.

use std::time::Duration;

use lock_core::{Demand, Instant, Mode, Ttl};

use super::leased::{Leased, PAUSE, Stocking};
use super::{Manner, Policy};
use crate::handoff::Handoff;

/// A process passes a lease on only if a twentieth of its time is left, or this.
const SLICE: Duration = Duration::from_millis(100);
/// A process returns a quiet lease after this time at the latest: clients that do not stand in the queue
/// may want it.
const LONGEST_STAY: Duration = Duration::from_secs(1);

/// What may become of a lease without a holder, for the sake of the next waiter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    HandOver,
    /// It may stay, but the next holder needs a token first.
    AwaitTokens,
    GiveUp,
}

impl Leased {
    // ---- For the next holder ----

    /// What may become of the lease now that it has no holder and a waiter here wants it.
    #[inline]
    pub(super) fn fate(&self, now: Instant, manner: Manner, policy: &Policy) -> Fate {
        let valid = !self.spent && self.lease.is_valid(now);
        if valid && self.used == 0 {
            return Fate::HandOver;
        }
        if !self.may_go_on(now, manner, policy) {
            return Fate::GiveUp;
        }
        match self.tokens.left() {
            0 if self.awaits_tokens() && self.stays(now, manner, policy) => Fate::AwaitTokens,
            0 => Fate::GiveUp,
            _ => Fate::HandOver,
        }
    }

    /// Whether the process may ask for tokens: once after each use.
    #[inline]
    pub(super) fn may_stock(&self) -> bool {
        !self.barren && self.stocked != Some(self.used)
    }

    /// Whether a renewal brings tokens, or can.
    fn awaits_tokens(&self) -> bool {
        let comes = self.renewal == Some(Stocking::Yes);
        self.change.is_none() && (comes || self.may_stock())
    }

    /// Whether the lease may have another holder, as far as processes are concerned that wait elsewhere.
    #[inline]
    pub(super) fn may_go_on(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        let (since, served) = self.turn;
        let ttl = policy.ttl.duration();
        // A process does not pass a lease on that it does not renew and that is used up.
        let slice = if policy.renew { SLICE.min(ttl / 20) } else { ttl / 2 };
        // A writer that waits holds back readers that come later, wherever they come.
        let reads = matches!(self.claim.mode, Mode::Shared | Mode::Upgradable);
        let held_back = reads && self.demand == Demand::Wanted;
        !(self.spent || held_back)
            && self.lease.is_valid(now)
            && now + slice < self.lease.deadline()
            && (self.stays(now, manner, policy)
                || self.lets_readers_in(now, policy)
                || manner.handoff.allows(served, now.saturating_duration_since(since)))
    }

    /// Whether no other process is known to want the lease, and it has not been here for too long.
    #[inline]
    fn stays(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        policy.renew
            && manner.handoff != Handoff::Never
            && self.demand == Demand::Quiet
            && !self.has_stayed(now)
    }

    /// Whether more readers may join the holders of a lease that is stronger than they need, because the store
    /// cannot make it weaker. The store would not grant these readers a lease of their own. It is for a while only,
    /// so that other processes have their turn.
    #[inline]
    fn lets_readers_in(&self, now: Instant, policy: &Policy) -> bool {
        !policy.converts
            && self.claim.mode.is_stronger_than(Mode::Shared)
            && self.group.is_some()
            && !self.holds.is_empty()
            && self.weaken_at < Instant::FAR_FUTURE
            && now < self.weaken_at + LONGEST_STAY
    }

    /// Whether the writer has become a reader just now, and the readers in line enter with it: no request can let them
    /// in before the lease ends.
    pub(super) fn opens(&self, now: Instant, policy: &Policy) -> bool {
        self.weaken_at == now && self.lets_readers_in(now, policy)
    }

    /// Whether it is time to let in clients that do not stand in the queue, should there be any.
    #[inline]
    pub(super) fn has_stayed(&self, now: Instant) -> bool {
        // Readers are not in the way of other readers.
        let alone = matches!(self.claim.mode, Mode::Exclusive | Mode::Permits { .. });
        alone && self.demand == Demand::Quiet && now >= self.granted + LONGEST_STAY
    }

    // ---- For none ----

    /// Whether an idle lease may stay at all: only if clients that want it can make themselves heard.
    pub(super) fn may_idle(&self, now: Instant) -> bool {
        !self.spent
            && self.change.is_none()
            && self.lease.is_valid(now)
            && self.demand != Demand::Wanted
    }

    /// How long the lease stays when its last holder goes: as long as the holder asked for, and for a
    /// moment if the last moment was too short. Others get a chance once it has been here for too long.
    pub(super) fn idles(&self, now: Instant, manner: Manner, ttl: Ttl) -> Duration {
        let counts_as_long = LONGEST_STAY.max(ttl.duration() / 3);
        let may = manner.handoff != Handoff::Never && now < self.granted + counts_as_long;
        let pause =
            if self.retaken && self.demand == Demand::Quiet { PAUSE } else { Duration::ZERO };
        if may { manner.cache.unwrap_or_default().max(pause) } else { Duration::ZERO }
    }
}
