//! The clock of a server, as this machine sees it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// How far the clock of a server is ahead of the wall clock of this machine.
///
/// The true difference lies between `micros - uncertainty_micros` and `micros + uncertainty_micros`, if neither
/// clock was set during the request.
///
/// The [example](Look#examples) of a look shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClockOffset {
    /// The difference in microseconds, negative if the server is behind.
    pub micros: i64,
    /// Half of the round trip of the request, in microseconds.
    pub uncertainty_micros: u64,
}

impl ClockOffset {
    /// An offset that is known up to this uncertainty, both in microseconds.
    pub fn new(micros: i64, uncertainty_micros: u64) -> Self {
        Self { micros, uncertainty_micros }
    }

    /// Whether the clocks certainly differ by more than so many microseconds.
    pub fn exceeds(self, micros: u64) -> bool {
        self.micros.unsigned_abs() > micros.saturating_add(self.uncertainty_micros)
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |micros: u64| micros as f64 / 1_000.0;
        let side = if self.micros < 0 { "behind" } else { "ahead" };
        let (difference, half) =
            (millis(self.micros.unsigned_abs()), millis(self.uncertainty_micros));
        write!(f, "{difference:.2} ms {side} (± {half:.2} ms)")
    }
}

/// One look at the clock of a server. All times are in microseconds.
///
/// # Examples
///
/// ```
/// use lock_core::check::{ClockOffset, Look};
///
/// let look = Look { wall: 1_000_000, took: 400, told: 1_090_200 };
/// let offset = look.offset();
/// assert_eq!(offset.to_string(), "90.00 ms ahead (± 0.20 ms)");
/// assert_eq!(offset, ClockOffset::new(90_000, 201));
/// assert!(!offset.exceeds(1_000_000));
/// assert!(Look::wall() > look.wall);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "three readings, and there are no more")]
pub struct Look {
    /// The wall clock of this machine before the request, since 1970.
    pub wall: i64,
    /// How long the answer took.
    pub took: i64,
    /// What the server told, since 1970.
    pub told: i64,
}

impl Look {
    /// The wall clock of this machine, since 1970.
    pub fn wall() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    /// How far the clock of the server is ahead.
    pub fn offset(&self) -> ClockOffset {
        let half = self.took.max(0) / 2;
        let ahead = self.told.saturating_sub(self.wall).saturating_sub(half);
        ClockOffset::new(ahead, half.unsigned_abs() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_shown_with_its_uncertainty() {
        assert_eq!(ClockOffset::new(-1_500, 240).to_string(), "1.50 ms behind (± 0.24 ms)");
        assert_eq!(ClockOffset::new(90_000, 1_000).to_string(), "90.00 ms ahead (± 1.00 ms)");
    }

    #[test]
    fn an_offset_exceeds_what_it_exceeds_with_certainty() {
        assert!(ClockOffset::new(-1_500, 240).exceeds(1_000));
        assert!(!ClockOffset::new(1_500, 500).exceeds(1_000));
        assert!(!ClockOffset::new(i64::MIN, u64::MAX).exceeds(1));
    }
}
