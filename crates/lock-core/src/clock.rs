//! The clock that dates leases.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// The clock that dates the leases of one backend.
///
/// Leases are dated on a monotonic clock that, on Linux and macOS, goes on counting while the machine is
/// suspended (`CLOCK_BOOTTIME` on Linux), because the store's clock goes on too. On `std::time::Instant` a
/// laptop that slept for an hour would still believe in a lease of thirty seconds. No wall clock
/// of the client ever decides who owns a lock.
///
/// Two [`Instant`]s are comparable only if they come from one kind of clock. So a
/// [`Backend`](crate::Backend) names its clock, and the holders of its leases read that clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Clock(Source);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Boot,
    #[cfg(feature = "memory")]
    Tokio,
}

impl Clock {
    /// The system's monotonic clock, suspend included. Every store outside the process needs this clock.
    pub const fn boot() -> Self {
        Self(Source::Boot)
    }

    /// The clock of `tokio::time`, which a test may pause and advance.
    ///
    /// Only a store in this process may use this clock, because the clock stops while the machine is suspended.
    #[cfg(feature = "memory")]
    #[cfg_attr(docsrs, doc(cfg(feature = "memory")))]
    pub const fn tokio() -> Self {
        Self(Source::Tokio)
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        match self.0 {
            Source::Boot => Instant(boot_nanos()),
            #[cfg(feature = "memory")]
            Source::Tokio => Instant(tokio_nanos()),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Boot => "Clock::boot",
            #[cfg(feature = "memory")]
            Source::Tokio => "Clock::tokio",
        })
    }
}

#[cfg(unix)]
fn boot_nanos() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    // Apple's CLOCK_MONOTONIC counts suspend. On Linux only CLOCK_BOOTTIME does. Elsewhere the monotonic
    // clock is the best choice.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const ID: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const ID: ClockId = ClockId::Monotonic;

    let now = clock_gettime(ID);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

#[cfg(not(unix))]
fn boot_nanos() -> u64 {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    nanos(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
}

#[cfg(feature = "memory")]
fn tokio_nanos() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;

    // tokio's instants have no epoch of their own, so the first reading in the process becomes it.
    // A runtime that was paused before that reading is earlier than the epoch: hence the offset.
    const OFFSET: u64 = 1 << 62;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    let now = tokio::time::Instant::now().into_std();
    match now.checked_duration_since(origin) {
        Some(after) => OFFSET.saturating_add(nanos(after)),
        None => OFFSET.saturating_sub(nanos(origin.duration_since(now))),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A point in time on a [`Clock`].
///
/// Eight bytes, so that it fits an atomic. Arithmetic saturates at both ends.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::{Clock, Ttl};
///
/// let sent = Clock::boot().now();
/// // A lease is dated from before the request was sent, and ends a little earlier here than in the store.
/// let end = Ttl::DEFAULT.valid_until(sent);
/// assert!(end > sent && end < sent + Ttl::DEFAULT.duration());
/// assert_eq!(sent.saturating_duration_since(end), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant that never comes.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The time from `earlier` to `self`; zero if `earlier` is not earlier.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds since the origin of the clock, for keeping an instant in an atomic.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Clock, Instant};
    ///
    /// let now = Clock::boot().now();
    /// assert_eq!(Instant::from_nanos(now.as_nanos()), now);
    /// assert!(now < Instant::FAR_FUTURE);
    /// ```
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant whose [`as_nanos`](Self::as_nanos) is `nanos`.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_moves_forward() {
        let clock = Clock::boot();
        let before = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now().saturating_duration_since(before) >= Duration::from_millis(2));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::FAR_FUTURE + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant(5) - Duration::MAX, Instant(0));
        assert_eq!(Instant(5).saturating_duration_since(Instant(9)), Duration::ZERO);
    }

    #[cfg(feature = "memory")]
    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = Clock::tokio();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(clock.now().saturating_duration_since(before), Duration::from_secs(60));
    }
}
