//! What is to happen to the lease after a hold.

use std::num::NonZeroU64;
use std::time::Duration;

use lock_core::Instant;

use crate::handoff::Handoff;

/// What is to happen to the lease after a hold. Each guard carries a manner, so a manner is small: its times are in
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    /// The greatest number of hand-offs while other processes wait.
    handoffs: u32,
    /// The longest time for hand-offs while other processes wait.
    time: u64,
    /// Whether each holder gets a grant of its own.
    never: bool,
    /// Whether grants are to bring the value beside the lock.
    value: bool,
    /// How long the process keeps the lease when none of its waiters wants it. In nanoseconds, plus 1: so that zero
    /// differs from `None`.
    cache: Option<NonZeroU64>,
}

impl Manner {
    /// A manner that keeps no lease without a holder, and whose grants bring no value.
    pub(crate) const fn new(handoff: Handoff) -> Self {
        let (handoffs, time) = match handoff {
            Handoff::Budget { handoffs, time } => (handoffs, nanos(time)),
            Handoff::Never | Handoff::Fair => (0, 0),
        };
        let never = matches!(handoff, Handoff::Never);
        Self { handoffs, time, never, value: false, cache: None }
    }

    #[must_use]
    pub(crate) fn with_handoff(self, handoff: Handoff) -> Self {
        Self { value: self.value, cache: self.cache, ..Self::new(handoff) }
    }

    /// The process keeps the lease for this time when none of its waiters wants it.
    #[must_use]
    pub(crate) fn with_cache(self, idle: Option<Duration>) -> Self {
        let cache = idle.map(|idle| NonZeroU64::MIN.saturating_add(nanos(idle)));
        Self { cache, ..self }
    }

    /// Grants are to bring the value beside the lock.
    #[must_use]
    pub(crate) fn with_value(self) -> Self {
        Self { value: true, ..self }
    }

    /// Until when a lease that other processes may want goes to another holder of this process, after `served` holders
    /// since this instant. `None` if it goes to no further holder.
    #[inline]
    pub(super) fn allows_until(&self, served: u32, since: Instant) -> Option<Instant> {
        (served <= self.handoffs).then(|| since + Duration::from_nanos(self.time))
    }

    /// Whether each holder gets a grant of its own.
    pub(super) fn is_never(&self) -> bool {
        self.never
    }

    /// The greatest number of hand-offs while other processes wait.
    #[cfg(test)]
    pub(super) fn handoffs(&self) -> u32 {
        self.handoffs
    }

    /// How long the process keeps the lease when none of its waiters wants it.
    pub(super) fn cache(&self) -> Option<Duration> {
        self.cache.map(|cache| Duration::from_nanos(cache.get() - 1))
    }

    pub(super) fn wants_value(&self) -> bool {
        self.value
    }
}

/// A longer time than 584 years counts as 584 years.
const fn nanos(time: Duration) -> u64 {
    let nanos = time.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_two_limits() {
        let (handoffs, time, since) = (2, Duration::from_millis(5), Instant::from_nanos(7));
        let budget = Manner::new(Handoff::Budget { handoffs, time });
        assert_eq!(budget.allows_until(2, since), Some(since + time));
        assert_eq!(budget.allows_until(3, since), None);
        for other in [Handoff::Never, Handoff::Fair].map(Manner::new) {
            assert!(other.allows_until(0, since).is_none_or(|until| until <= since));
        }
        let endless = Manner::new(Handoff::Budget { handoffs, time: Duration::MAX });
        assert_eq!(endless.allows_until(0, since), Some(Instant::FAR_FUTURE));
    }

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let cache = Some(Duration::from_secs(3));
        let manner = Manner::new(Handoff::Fair).with_cache(cache).with_value();
        assert_eq!(manner.cache(), cache);
        let never = manner.with_handoff(Handoff::Never);
        assert!(never.is_never() && never.wants_value() && !manner.is_never());
        assert_eq!(never.cache(), cache);
        for cache in [None, Some(Duration::ZERO)] {
            assert_eq!(manner.with_cache(cache).cache(), cache, "a time of zero is not `None`");
        }
    }

    #[test]
    fn a_guard_carries_little() {
        assert!(size_of::<Manner>() <= 24);
    }
}
