//! Whether a lease stays in this process: for the next holder, or without a holder.

use std::time::Duration;

use lock_core::{Instant, Mode, Ttl};

use super::leased::{Leased, PAUSE};
use super::{Manner, Policy};

/// A process passes a renewed lease on only while more than a twentieth of the lease is left, or more than this time if
/// that is less.
const SLICE: Duration = Duration::from_millis(100);
/// A process returns even a quiet lease after this time, because clients without a place in the store's queue may
/// want it.
const LONGEST_STAY: Duration = Duration::from_secs(1);

impl Leased {
    // ---- For the next holder ----

    /// Whether the lease stays, now that it has no holder and a waiter here wants it. That waiter may have to wait for
    /// a token.
    #[inline]
    pub(super) fn is_kept(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        if self.used == 0 {
            return self.is_usable(now);
        }
        let tokens = || {
            let awaited = self.change.is_none() && (self.renewal.sent || !self.tokens.asked);
            self.tokens.left() > 0 || awaited && self.stays(now, manner, policy)
        };
        self.may_go_on(now, manner, policy) && tokens()
    }

    /// Whether the lease may have another holder, as far as other processes are concerned.
    #[inline]
    pub(super) fn may_go_on(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        let (served, since) = self.turn.progress();
        let allowed = || manner.allows_until(served, since).is_some_and(|until| now < until);
        // A writer that waits in another process goes before readers that come later in this one.
        let reads = matches!(self.claim.mode, Mode::Shared | Mode::Upgradable);
        let held_back = reads && self.turn.is_wanted();
        !held_back
            && self.is_usable(now)
            && now < self.passes_on_until(policy)
            && (self.stays(now, manner, policy) || self.lets_readers_in(now, policy) || allowed())
    }

    /// Until when the lease may have further holders, if no event comes and no other process is known to want the lease.
    /// `None` if it may have none.
    pub(super) fn goes_on_until(
        &self,
        now: Instant,
        manner: Manner,
        policy: &Policy,
    ) -> Option<Instant> {
        let (served, since) = self.turn.progress();
        let stays = self.stays(now, manner, policy).then(|| self.granted + LONGEST_STAY);
        let longest = stays.max(manner.allows_until(served, since))?;
        let until = longest.min(self.passes_on_until(policy));
        (self.turn.is_quiet() && self.is_usable(now) && now < until).then_some(until)
    }

    /// The instant from which on the lease has no further holder.
    #[inline]
    pub(super) fn passes_on_until(&self, policy: &Policy) -> Instant {
        let ttl = policy.ttl.duration();
        // A lease that is not renewed is passed on only in its first half.
        let slice = if policy.renew { SLICE.min(ttl / 20) } else { ttl / 2 };
        self.lease.deadline() - slice
    }

    /// Whether no other process is known to want the lease, and the process has not had it for too long.
    #[inline]
    pub(super) fn stays(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        policy.renew && !manner.is_never() && self.turn.is_quiet() && !self.has_stayed(now)
    }

    /// Whether more readers may join the readers under a lease that is too strong and that the store cannot make
    /// weaker. The store would grant no other lease for these readers. This lasts for a limited time, so that other
    /// processes get their turn.
    #[inline]
    pub(super) fn lets_readers_in(&self, now: Instant, policy: &Policy) -> bool {
        !policy.converts
            && self.claim.mode.is_stronger_than(Mode::Shared)
            && self.group.is_some()
            && !self.holds.is_empty()
            && self.weaken_at < Instant::FAR_FUTURE
            && now < self.weaken_at + LONGEST_STAY
    }

    /// Whether it is time to give a chance to clients that have no place in the store's queue.
    #[inline]
    pub(super) fn has_stayed(&self, now: Instant) -> bool {
        // Readers are not in the way of other readers.
        let alone = matches!(self.claim.mode, Mode::Exclusive | Mode::Permits { .. });
        alone && self.turn.is_quiet() && now >= self.granted + LONGEST_STAY
    }

    // ---- Without a holder ----

    /// How long the lease stays when its last holder goes: as long as the holder asked for, or for a short pause if
    /// the lease was taken back before. Once the process has had the lease for too long it does not stay, so that
    /// other processes get a chance.
    pub(super) fn idles(&self, now: Instant, manner: Manner, ttl: Ttl) -> Duration {
        let may = !manner.is_never() && now < self.idles_until(ttl);
        let pause = if self.retaken && self.turn.is_quiet() { PAUSE } else { Duration::ZERO };
        if may { manner.cache().unwrap_or_default().max(pause) } else { Duration::ZERO }
    }

    /// The instant from which on the process has had the lease for too long to keep it without a holder.
    pub(super) fn idles_until(&self, ttl: Ttl) -> Instant {
        self.granted + LONGEST_STAY.max(ttl.duration() / 3)
    }
}
