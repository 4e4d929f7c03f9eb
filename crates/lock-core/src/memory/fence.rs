//! The counter of fencing tokens of one key.

use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use crate::{FencingToken, TokenRange};

/// How far, in ticks, a reserved range may put the counter ahead of the clock: a second.
const MAX_LEAD: u64 = 4_000_000;

/// A counter with the time as its floor: the next token is `max(last + 1, now)`.
///
/// A counter that was thrown away starts above where it ended, because the time has moved on. That
/// holds only if it was not ahead of the clock, hence [`MAX_LEAD`] and [`Fence::is_at_rest`].
#[derive(Debug, Default)]
pub(super) struct Fence {
    last: u64,
}

impl Fence {
    /// Reserves `wanted` tokens, or one if that many would outrun the clock.
    pub(super) fn reserve(&mut self, wanted: NonZeroU32, now: Ticks) -> TokenRange {
        let first = now.0.max(self.last.saturating_add(1));
        let reach = first.saturating_add(u64::from(wanted.get()) - 1);
        let count = if reach > now.0 + MAX_LEAD { NonZeroU32::MIN } else { wanted };
        let range = TokenRange::new(FencingToken::new(first), count);
        self.last = range.last().get();
        range
    }

    /// Whether a new counter would go on above this one.
    pub(super) fn is_at_rest(&self, now: Ticks) -> bool {
        self.last < now.0
    }
}

/// The time as [`FencingToken::floor`] counts it, on a clock that never goes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks(u64);

impl Ticks {
    /// The wall clock is read once and then counted on, so that setting it cannot turn tokens back.
    pub(super) fn now() -> Self {
        static START: OnceLock<(Duration, Instant)> = OnceLock::new();
        let (epoch, start) = START.get_or_init(|| {
            let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            (epoch.unwrap_or_default(), Instant::now())
        });
        Self(FencingToken::floor(*epoch + start.elapsed()).get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(fence: &mut Fence, count: u32, now: u64) -> (u64, u64) {
        let range = fence.reserve(NonZeroU32::new(count).unwrap(), Ticks(now));
        (range.first().get(), range.last().get())
    }

    #[test]
    fn the_time_is_the_floor_and_ranges_do_not_touch() {
        let mut fence = Fence::default();
        assert_eq!(reserve(&mut fence, 10, 1000), (1000, 1009));
        assert_eq!(reserve(&mut fence, 1, 1000), (1010, 1010));
        assert!(!fence.is_at_rest(Ticks(1010)));
        assert!(fence.is_at_rest(Ticks(1011)));
        assert_eq!(reserve(&mut fence, 1, 5000), (5000, 5000));
    }

    #[test]
    fn a_range_that_outruns_the_clock_shrinks_to_one() {
        let mut fence = Fence::default();
        assert_eq!(reserve(&mut fence, u32::MAX, 1000), (1000, 1000));
        assert_eq!(reserve(&mut fence, 4_000_000, 1000), (1001, 4_001_000));
        assert_eq!(reserve(&mut fence, 64, 1000), (4_001_001, 4_001_001));
        // The clock catches up.
        assert_eq!(reserve(&mut fence, 64, 9_000_000), (9_000_000, 9_000_063));
    }

    #[test]
    fn the_clock_moves_forward() {
        let before = Ticks::now();
        std::thread::sleep(Duration::from_millis(1));
        assert!(Ticks::now().0 > before.0);
    }
}
