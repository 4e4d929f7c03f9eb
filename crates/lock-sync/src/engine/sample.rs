//! Of which acquisitions of a lock observers hear.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::Instant;
use lock_core::observer::AcquisitionId;

/// How the sample of acquisitions is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// All acquisitions; of a lock that is acquired very often, one in [`SPARSE`].
    WhileQuick,
    /// One in this many acquisitions, on average.
    OneIn(u32),
}

/// The size of the sample of a lock that is acquired very often.
const SPARSE: u32 = 64;
/// A lock is acquired very often if the time between acquisitions is shorter. The events of one acquisition then cost a
/// noticeable part of that time.
const QUICK: Duration = Duration::from_micros(10);
/// So many acquisitions in a row have to be quick. Fewer could be an accident.
const STREAK: u32 = 128;

/// The sample of one lock. Several threads draw from it at once: they may disagree for a moment on how many
/// acquisitions an event stands for, but each event says so for itself.
pub(super) struct Sample {
    /// A [`Size`]. Every acquisition reads it.
    size: AtomicU64,
    /// `None` if the size of the sample is fixed. In a box, because the acquisitions in the sample write it, and the
    /// processors would take the cache line of the size from one another.
    pace: Option<Box<Pace>>,
}

/// The size of a sample.
#[derive(Clone, Copy)]
struct Size {
    /// The sample is one in this many acquisitions.
    one_in: u32,
    /// The sample has the acquisitions whose scattered names are not above this.
    highest: u32,
}

impl Size {
    const fn one_in(one_in: u32) -> Self {
        Self { one_in, highest: u32::MAX / one_in }
    }

    const fn packed(self) -> u64 {
        (self.one_in as u64) << 32 | self.highest as u64
    }

    const fn unpacked(packed: u64) -> Self {
        Self { one_in: (packed >> 32) as u32, highest: packed as u32 }
    }
}

/// How quickly the acquisitions in the sample follow one another.
#[derive(Default)]
struct Pace {
    latest: AtomicU64,
    streak: AtomicU32,
}

impl Sample {
    pub(super) fn new(sampling: Sampling) -> Self {
        let (one_in, pace) = match sampling {
            Sampling::WhileQuick => (1, Some(Box::default())),
            Sampling::OneIn(one_in) => (one_in.max(1), None),
        };
        Self { size: AtomicU64::new(Size::one_in(one_in).packed()), pace }
    }

    /// How many acquisitions this one stands for. `None` if it is not in the sample. Any regularity in the order of
    /// acquisitions makes no difference.
    #[inline]
    pub(super) fn draw(&self, id: AcquisitionId) -> Option<u32> {
        let size = Size::unpacked(self.size.load(Ordering::Relaxed));
        // The golden ratio scatters numbers that follow one another.
        let scattered = (id.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        (scattered <= size.highest).then_some(size.one_in)
    }

    /// An acquisition in the sample begins, and stands for this many.
    #[inline]
    pub(super) fn begins(&self, stands_for: u32, now: Instant) {
        let Some(pace) = &self.pace else { return };
        let latest = Instant::from_nanos(pace.latest.swap(now.as_nanos(), Ordering::Relaxed));
        let gap = now.saturating_duration_since(latest);
        // The clock of a test may stand still, and then it tells nothing.
        if gap.is_zero() {
            return;
        }
        if stands_for > 1 {
            // The size changes at one pace in one direction, and at half that pace in the other.
            if gap > 2 * QUICK * stands_for {
                pace.streak.store(0, Ordering::Relaxed);
                self.size.store(Size::one_in(1).packed(), Ordering::Relaxed);
            }
        } else if gap >= QUICK {
            pace.streak.store(0, Ordering::Relaxed);
        } else if pace.streak.fetch_add(1, Ordering::Relaxed) >= STREAK {
            self.size.store(Size::one_in(SPARSE).packed(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANO: Duration = Duration::from_nanos(1);

    /// Acquires a lock this often, at this pace. Returns how many acquisitions were in the sample, and how many they
    /// stand for.
    fn acquire(sample: &Sample, now: &mut Instant, count: u32, pace: Duration) -> (u32, u32) {
        let mut drawn = (0, 0);
        for _ in 0..count {
            *now = *now + pace;
            if let Some(stands_for) = sample.draw(AcquisitionId::draw()) {
                sample.begins(stands_for, *now);
                drawn = (drawn.0 + 1, drawn.1 + stands_for);
            }
        }
        drawn
    }

    #[test]
    fn the_sample_is_whole_until_a_lock_is_acquired_very_often() {
        let (sample, mut now) = (Sample::new(Sampling::WhileQuick), Instant::from_nanos(1 << 40));
        assert_eq!(acquire(&sample, &mut now, 10_000, QUICK), (10_000, 10_000));
        let (drawn, stands_for) = acquire(&sample, &mut now, 1_000_000, QUICK / 10);
        assert!((15_000..17_000).contains(&drawn), "{drawn}");
        assert!((960_000..1_040_000).contains(&stands_for), "{stands_for}");
        // The next acquisition in the sample shows that the time is over.
        let (drawn, stands_for) = acquire(&sample, &mut now, 10_000, QUICK * 3);
        assert!(drawn > 9_500 && stands_for > 9_500, "{drawn}, {stands_for}");
    }

    #[test]
    fn quick_acquisitions_with_pauses_between_them_are_all_in_the_sample() {
        let (sample, mut now) = (Sample::new(Sampling::WhileQuick), Instant::from_nanos(1 << 40));
        for _ in 0..100 {
            now = now + QUICK;
            assert_eq!(acquire(&sample, &mut now, STREAK, NANO), (STREAK, STREAK));
        }
    }

    #[test]
    fn a_clock_that_stands_still_makes_no_acquisition_quick() {
        let (sample, mut now) = (Sample::new(Sampling::WhileQuick), Instant::from_nanos(1 << 40));
        assert_eq!(acquire(&sample, &mut now, 1_000, Duration::ZERO), (1_000, 1_000));
    }

    #[test]
    fn a_fixed_sample_does_not_depend_on_the_pace() {
        for (one_in, all) in [(0, 10_000), (1, 10_000), (8, 1_250)] {
            let (sample, mut now) = (Sample::new(Sampling::OneIn(one_in)), Instant::from_nanos(1));
            let (drawn, stands_for) = acquire(&sample, &mut now, 10_000, NANO);
            assert!(drawn.abs_diff(all) <= all / 20, "{drawn}");
            assert_eq!(stands_for, drawn * one_in.max(1));
        }
    }
}
