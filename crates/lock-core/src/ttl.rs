//! How long a lease lives.

use std::time::Duration;

use crate::{Error, ErrorKind, Instant};

/// The time after which the store takes a lease back unless it is renewed.
///
/// Whole milliseconds between [`Ttl::MIN`] and [`Ttl::MAX`]. A fraction is rounded up: a lease is
/// never shorter than it was asked to be.
///
/// See [`new`](Self::new) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(Duration);

impl Ttl {
    /// The shortest lease: nothing shorter survives a network and a scheduler.
    pub const MIN: Self = Self(Duration::from_millis(10));
    /// The usual lease time: 30 s.
    pub const DEFAULT: Self = Self(Duration::from_secs(30));
    /// The longest lease: a day. A lock held longer than that is renewed.
    pub const MAX: Self = Self(Duration::from_secs(24 * 60 * 60));

    /// A lease time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTtl`] outside [`Ttl::MIN`] and [`Ttl::MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_core::Ttl;
    ///
    /// assert_eq!(Ttl::new(Duration::from_micros(10_001))?.as_millis(), 11);
    /// assert!(Ttl::new(Duration::ZERO).is_err());
    /// assert!(Ttl::new(Duration::MAX).is_err());
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn new(duration: Duration) -> Result<Self, Error> {
        if duration < Self::MIN.0 || duration > Self::MAX.0 {
            return Err(Error::new(
                ErrorKind::InvalidTtl,
                format!("a lease of {duration:?} is out of range: 10ms to 24h"),
            ));
        }
        Ok(Self(Duration::from_millis(duration.as_nanos().div_ceil(1_000_000) as u64)))
    }

    /// The lease time as the store counts it.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// The lease time in milliseconds: at least 10, at most 86 400 000.
    pub fn as_millis(self) -> u64 {
        self.0.as_millis() as u64
    }

    /// How much earlier than the store the holder lets go: a hundredth of the lease, and 2 ms.
    ///
    /// The hundredth covers clocks whose *rates* differ by up to 1 %. The 2 ms cover the store's
    /// rounding. Both values are those of the Redlock description in the Redis documentation.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Clock, Ttl};
    ///
    /// let ttl = Ttl::DEFAULT;
    /// assert!(Ttl::MIN < ttl && ttl.drift() < ttl.duration());
    /// assert!(ttl.for_grant() < ttl && ttl.for_place() == ttl);
    /// let sent = Clock::boot().now();
    /// assert!(ttl.valid_until(sent) < sent + ttl.duration());
    /// ```
    pub fn drift(self) -> Duration {
        self.0 / 100 + Duration::from_millis(2)
    }

    /// How long a store that may have forgotten such leases has to grant nothing: the lease and the
    /// [drift](Self::drift), by the clock of any party, from a moment on at which the store knew no such lease.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_core::Ttl;
    ///
    /// assert_eq!(Ttl::DEFAULT.quarantine(), Duration::from_millis(30_302));
    /// ```
    pub fn quarantine(self) -> Duration {
        self.0 + self.drift()
    }

    /// How long a lease that the store hands to a waiter lives until the waiter renews it: this
    /// time, but no longer than a second.
    ///
    /// A waiter that dies when its turn has come holds the lock no longer than that. The next waiter hears of
    /// this time with [`Hint::Next`](crate::Hint::Next), and asks when the time is over. If that hint is lost, the
    /// next waiter asks after a third of [`for_place`](Self::for_place) at the latest.
    #[must_use]
    pub fn for_grant(self) -> Self {
        self.min(Self(Duration::from_secs(1)))
    }

    /// How long a place in the store's queue lives unless the request is repeated: this time, but no
    /// less than three seconds. A waiter repeats its request after a third of that.
    #[must_use]
    pub fn for_place(self) -> Self {
        self.max(Self(Duration::from_secs(3)))
    }

    /// The instant until which a lease is valid, if `sent` is the instant just before the request was sent.
    ///
    /// The store starts to count later than `sent`, and this instant is earlier by [`drift`](Self::drift).
    /// So the holder knows that its lease is over before the store gives the lock away.
    pub fn valid_until(self, sent: Instant) -> Instant {
        sent + (self.0 - self.drift())
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = Error;

    fn try_from(duration: Duration) -> Result<Self, Error> {
        Self::new(duration)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_holder_ends_before_the_store() {
        let sent = Instant::from_nanos(0);
        for ttl in [Ttl::MIN, Ttl(Duration::from_secs(30)), Ttl::MAX] {
            let validity = ttl.valid_until(sent).saturating_duration_since(sent);
            assert!(validity > Duration::ZERO && validity < ttl.duration());
        }
    }

    #[test]
    fn the_range_is_closed() {
        assert_eq!(Ttl::new(Ttl::MIN.duration()).unwrap(), Ttl::MIN);
        assert_eq!(Ttl::new(Ttl::MAX.duration()).unwrap(), Ttl::MAX);
        for bad in [Duration::ZERO, Duration::from_micros(900), Duration::MAX] {
            assert_eq!(Ttl::new(bad).unwrap_err().kind(), ErrorKind::InvalidTtl);
        }
    }

    proptest! {
        #[test]
        fn a_lease_is_rounded_up_or_refused(
            duration in prop_oneof![
                any::<Duration>(),
                (0..100_000_000u64).prop_map(Duration::from_nanos),
                (0..90_000_000_000u64).prop_map(Duration::from_micros),
            ],
            sent: u64,
        ) {
            let is_lease = duration >= Ttl::MIN.duration() && duration <= Ttl::MAX.duration();
            let ttl = match Ttl::new(duration) {
                Ok(ttl) => ttl,
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::InvalidTtl);
                    prop_assert!(!is_lease);
                    return Ok(());
                }
            };
            prop_assert!(is_lease);
            let longer = ttl.duration() - duration;
            prop_assert!(longer < Duration::from_millis(1));
            prop_assert_eq!(Duration::from_millis(ttl.as_millis()), ttl.duration());
            prop_assert!(ttl.drift() < ttl.duration());
            prop_assert!(ttl.for_grant() <= ttl && ttl <= ttl.for_place() && ttl.for_place() <= Ttl::MAX);
            let sent = Instant::from_nanos(sent);
            let until = ttl.valid_until(sent);
            prop_assert!(sent <= until && until <= sent + ttl.duration());
        }
    }
}
