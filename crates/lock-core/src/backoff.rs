//! Pauses between tries.

use std::time::Duration;

/// Pauses that double from one failure to the next, up to a longest pause.
///
/// A `Backoff` only calculates. It does not wait, and it reads no clock.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lock_core::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(50));
/// let pauses = [backoff.fail(), backoff.fail(), backoff.fail()];
/// assert_eq!(pauses.map(|pause| pause.as_millis()), [20, 40, 50]);
/// backoff.reset();
/// assert_eq!(backoff.fail().as_millis(), 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff without failures: the pause after the first failure, and the longest pause.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// This backoff after the given number of failures in a row.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_core::Backoff;
    ///
    /// const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    /// assert_eq!(PAUSES.after(3).pause().as_millis(), 160);
    /// ```
    #[must_use]
    pub const fn after(self, failures: u32) -> Self {
        Self { failures, ..self }
    }

    /// Counts a failure, and returns the pause that follows it.
    #[must_use = "the pause is what a failure costs"]
    pub fn fail(&mut self) -> Duration {
        let pause = self.pause();
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Counts a failure, and returns a pause between half and all of the pause of [`fail`](Self::fail).
    /// Clients with different fractions, from 0 to 1, do not come back together.
    #[must_use = "the pause is what a failure costs"]
    pub fn fail_scattered(&mut self, fraction: f64) -> Duration {
        let longest = self.fail();
        longest / 2 + longest.mul_f64(fraction.clamp(0.0, 1.0) / 2.0)
    }

    /// Counts a failure, and returns a random pause between half and all of the pause of [`fail`](Self::fail). So
    /// clients that failed together do not come back together.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_core::Backoff;
    ///
    /// let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    /// let pause = backoff.fail_scattered_at_random();
    /// assert!((10..=20).contains(&pause.as_millis()));
    /// assert_eq!(backoff.failures(), 1);
    /// ```
    #[must_use = "the pause is what a failure costs"]
    pub fn fail_scattered_at_random(&mut self) -> Duration {
        self.fail_scattered(fraction())
    }

    /// The pause that follows the next failure.
    pub fn pause(&self) -> Duration {
        self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest)
    }

    /// The number of failures in a row.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_core::Backoff;
    ///
    /// let backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1)).after(3);
    /// assert_eq!(backoff.failures(), 3);
    /// ```
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Forgets the failures, after a try that succeeded.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A random time between half of this time and one and a half times this time. So clients that began together do not go
/// on together.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let hour = Duration::from_secs(60 * 60);
/// assert!((hour / 2..hour * 3 / 2).contains(&lock_core::scattered(hour)));
/// ```
pub fn scattered(time: Duration) -> Duration {
    (time / 2).saturating_add(time.mul_f64(fraction()))
}

/// A random number, at least 0 and below 1.
fn fraction() -> f64 {
    // Without random bytes the clients meet, which costs a moment.
    f64::from(getrandom::u32().unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let pauses: Vec<_> = (0..100).map(|_| backoff.fail().as_millis()).collect();
        assert_eq!(pauses[..7], [20, 40, 80, 160, 320, 640, 1000]);
        assert!(pauses[7..].iter().all(|pause| *pause == 1000));
        assert_eq!(backoff.failures(), 100);
        backoff.reset();
        assert_eq!((backoff.failures(), backoff.pause()), (0, FIRST));
    }

    #[test]
    fn the_longest_pause_may_be_shorter_than_the_first_and_no_sum_overflows() {
        assert_eq!(Backoff::new(LONGEST, FIRST).fail(), FIRST);
        let mut backoff =
            Backoff { failures: u32::MAX, ..Backoff::new(Duration::MAX, Duration::MAX) };
        assert_eq!(backoff.fail(), Duration::MAX);
        assert_eq!(backoff.failures(), u32::MAX);
    }

    #[test]
    fn scattered_times_differ_and_none_is_too_long() {
        let times: Vec<_> = (0..100).map(|_| scattered(LONGEST)).collect();
        assert!(times.iter().all(|it| (LONGEST / 2..=LONGEST * 3 / 2).contains(it)), "{times:?}");
        assert!(times.iter().any(|it| *it != times[0]), "{times:?}");
        assert!(scattered(Duration::MAX) >= Duration::MAX / 2);
    }

    #[test]
    fn scattered_pauses_are_in_the_upper_half() {
        for (fraction, millis) in [(-1.0, 10), (0.0, 10), (0.5, 15), (1.0, 20), (7.0, 20)] {
            let pause = Backoff::new(FIRST, LONGEST).fail_scattered(fraction);
            assert_eq!(pause, Duration::from_millis(millis), "{fraction}");
        }
    }

    #[test]
    fn random_pauses_differ_and_grow_with_the_failures() {
        let pauses = |failures| -> Vec<Duration> {
            let backoff = || Backoff::new(FIRST, LONGEST).after(failures);
            (0..100).map(|_| backoff().fail_scattered_at_random()).collect()
        };
        for (failures, bound) in [(0, FIRST), (2, FIRST * 4), (20, LONGEST)] {
            let pauses = pauses(failures);
            assert!(pauses.iter().all(|it| (bound / 2..=bound).contains(it)), "{pauses:?}");
            assert!(pauses.iter().any(|it| *it != pauses[0]), "{pauses:?}");
        }
        let mut longest = Backoff::new(Duration::MAX, Duration::MAX);
        assert!(longest.fail_scattered_at_random() >= Duration::MAX / 2);
        assert_eq!(longest.failures(), 1);
    }
}
