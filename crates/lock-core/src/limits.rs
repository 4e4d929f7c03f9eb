//! What a store cannot do sooner, for a shorter time, or in finer steps.

use std::time::Duration;

use crate::Ttl;

/// The limits of a store: its shortest lease, the steps of its lease times, and how late it may be.
///
/// The store rounds a lease time that it cannot count up, and never refuses it. The deadline of the holder follows from
/// the requested time, so the holder does not notice. Other claims notice: after a holder has died, the store frees the
/// key later.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::{Limits, Ttl};
///
/// // A store that counts whole seconds, and no fewer than two.
/// let limits = Limits::default()
///     .with_min_ttl(Ttl::new(Duration::from_secs(2))?)
///     .with_step(Duration::from_secs(1))
///     .with_claim(Ttl::new(Duration::from_secs(3))?)
///     .with_lag(Duration::from_secs(1));
/// let lease = |ms| Ttl::new(Duration::from_millis(ms)).map(|ttl| limits.lease(ttl).as_millis());
/// assert_eq!((lease(10)?, lease(2_000)?, lease(2_001)?), (2_000, 2_000, 3_000));
/// assert_eq!(limits.grant(Ttl::DEFAULT).as_millis(), 3_000);
///
/// // Most stores count milliseconds.
/// assert_eq!(Limits::default().lease(Ttl::MIN), Ttl::MIN);
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The shortest lease that the store counts: [`Ttl::MIN`] by default.
    pub min_ttl: Ttl,
    /// The store counts leases in whole steps of this length: a millisecond by default.
    pub step: Duration,
    /// The longest time for which a handed-over lease lives before the waiter claims it: a second by default.
    /// See [`Ttl::for_grant`].
    pub claim: Ttl,
    /// By how much the store may be late to end a lease or a place, or to notice that a client has gone: 20 ms by
    /// default.
    pub lag: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_ttl: Ttl::MIN,
            step: Duration::from_millis(1),
            claim: Ttl::DEFAULT.for_grant(),
            lag: Duration::from_millis(20),
        }
    }
}

impl Limits {
    /// These limits, with this shortest lease.
    #[must_use]
    pub fn with_min_ttl(self, min_ttl: Ttl) -> Self {
        Self { min_ttl, ..self }
    }

    /// These limits, with this step.
    #[must_use]
    pub fn with_step(self, step: Duration) -> Self {
        Self { step, ..self }
    }

    /// These limits, with this time to claim a grant.
    #[must_use]
    pub fn with_claim(self, claim: Ttl) -> Self {
        Self { claim, ..self }
    }

    /// These limits, with this lag.
    #[must_use]
    pub fn with_lag(self, lag: Duration) -> Self {
        Self { lag, ..self }
    }

    /// The lease that the store counts for a request of `ttl`: no shorter than `ttl`, in whole
    /// steps.
    ///
    /// The result is at most [`Ttl::MAX`].
    #[must_use]
    pub fn lease(&self, ttl: Ttl) -> Ttl {
        let wanted = ttl.max(self.min_ttl).duration().as_nanos();
        let step = self.step.as_nanos().max(1);
        let nanos = wanted.div_ceil(step).saturating_mul(step);
        u64::try_from(nanos)
            .ok()
            .and_then(|it| Ttl::new(Duration::from_nanos(it)).ok())
            .unwrap_or(Ttl::MAX)
    }

    /// The longest time for which a lease of `ttl` lives that the store hands to a waiter and the waiter does not
    /// claim.
    #[must_use]
    pub fn grant(&self, ttl: Ttl) -> Ttl {
        self.lease(ttl.min(self.claim))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_defaults_are_those_of_a_ttl() {
        for ttl in [Ttl::MIN, Ttl::DEFAULT, Ttl::MAX] {
            assert_eq!(Limits::default().lease(ttl), ttl);
            assert_eq!(Limits::default().grant(ttl), ttl.for_grant());
        }
    }

    proptest! {
        #[test]
        fn a_lease_is_rounded_up_to_the_next_step(
            asked in 10..86_400_000u64,
            least in 10..10_000u64,
            step in 0..100_000u64,
        ) {
            let ms = |it| Ttl::new(Duration::from_millis(it)).unwrap();
            let step = Duration::from_millis(step);
            let limits = Limits::default().with_min_ttl(ms(least)).with_step(step);
            let lease = limits.lease(ms(asked));
            prop_assert!(lease >= ms(asked).max(limits.min_ttl).min(Ttl::MAX));
            if lease < Ttl::MAX {
                prop_assert!(lease.duration() - ms(asked.max(least)).duration() < step.max(Duration::from_millis(1)));
                prop_assert!(step.is_zero() || lease.duration().as_millis() % step.as_millis() == 0);
            }
        }
    }
}
