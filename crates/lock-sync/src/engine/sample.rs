//! Of which acquisitions of a lock observers hear.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::Instant;
use lock_core::observer::AcquisitionId;

/// How the sample of acquisitions is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// All acquisitions; of a lock that is acquired very often, one in [`SPARSE`].
    ByPace,
    /// One in this many acquisitions, on average.
    OneIn(u32),
}

/// The size of the sample of a lock that is acquired very often.
const SPARSE: u32 = 256;
/// The sample becomes sparse when so many acquisitions in a row take less than [`QUICK`] each, on average. A crowd that
/// comes at once is smaller.
const RUN: u32 = 1_000;
/// The events of one acquisition cost a noticeable part of this time.
const QUICK: Duration = Duration::from_micros(10);
/// A sparse sample becomes whole again when no acquisition of the sample has begun for this time. In this time,
/// [`SPARSE`] acquisitions of 20 µs each begin.
const LULL: Duration = Duration::from_micros(20 * SPARSE as u64);

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
    /// When the latest one began.
    latest: AtomicU64,
    /// When the present run began, and its length.
    since: AtomicU64,
    length: AtomicU32,
}

impl Sample {
    pub(super) fn new(sampling: Sampling) -> Self {
        let (one_in, pace) = match sampling {
            Sampling::ByPace => (1, Some(Box::default())),
            Sampling::OneIn(one_in) => (one_in.max(1), None),
        };
        Self { size: AtomicU64::new(Size::one_in(one_in).packed()), pace }
    }

    /// How many acquisitions this one stands for. `None` if it is not in the sample.
    #[inline]
    pub(super) fn draw(&self, id: AcquisitionId) -> Option<u32> {
        let size = Size::unpacked(self.size.load(Ordering::Relaxed));
        (scattered(id.get()) <= size.highest).then_some(size.one_in)
    }

    /// An acquisition in the sample begins, and stands for this many.
    #[inline]
    pub(super) fn note(&self, stands_for: u32, now: Instant) {
        let Some(pace) = &self.pace else { return };
        if stands_for > 1 {
            self.note_missed(now);
        } else if pace.ends_quick_run(now) {
            self.resize(SPARSE);
        }
        pace.latest.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// An acquisition, which may be outside the sample, was under way at this instant.
    #[inline]
    pub(super) fn note_missed(&self, now: Instant) {
        let Some(pace) = &self.pace else { return };
        let since = now.as_nanos().saturating_sub(pace.latest.load(Ordering::Relaxed));
        if since > LULL.as_nanos() as u64 && self.is_sparse() {
            pace.length.store(0, Ordering::Relaxed);
            self.resize(1);
        }
    }

    /// Whether some acquisitions are outside the sample.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        Size::unpacked(self.size.load(Ordering::Relaxed)).one_in > 1
    }

    fn resize(&self, one_in: u32) {
        self.size.store(Size::one_in(one_in).packed(), Ordering::Relaxed);
    }
}

impl Pace {
    /// Notes one more acquisition of the run. Returns whether it is the last one of a quick run.
    fn ends_quick_run(&self, now: Instant) -> bool {
        let before = self.length.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.since.store(now.as_nanos(), Ordering::Relaxed);
        }
        if before + 1 < RUN {
            return false;
        }
        self.length.store(0, Ordering::Relaxed);
        let since = Instant::from_nanos(self.since.load(Ordering::Relaxed));
        let took = now.saturating_duration_since(since);
        // A run has one gap less than acquisitions. The clock of a test may stand still, and then it tells nothing.
        !took.is_zero() && took < (RUN - 1) * QUICK
    }
}

/// A number without any order, for each name. This is the finalizer of SplitMix64.
#[inline]
fn scattered(name: u64) -> u32 {
    let mut z = name;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    /// A lock that is acquired, and the time.
    struct Scene(Sample, Instant);

    impl Scene {
        fn new(sampling: Sampling) -> Self {
            Self(Sample::new(sampling), Instant::from_nanos(1 << 40))
        }

        /// Acquires the lock this often, at this pace. Returns how many acquisitions were in the sample, and how many
        /// they stand for.
        fn acquire(&mut self, count: u32, pace: Duration) -> (u32, u32) {
            let Self(sample, now) = self;
            let mut drawn = (0, 0);
            for _ in 0..count {
                *now = *now + pace;
                match sample.draw(AcquisitionId::draw()) {
                    Some(stands_for) => {
                        sample.note(stands_for, *now);
                        drawn = (drawn.0 + 1, drawn.1 + stands_for);
                    }
                    None => sample.note_missed(*now),
                }
            }
            drawn
        }
    }

    #[test]
    fn the_sample_is_whole_unless_a_lock_is_acquired_very_often() {
        let mut scene = Scene::new(Sampling::ByPace);
        assert_eq!(scene.acquire(10_000, QUICK), (10_000, 10_000));
        let (drawn, stands_for) = scene.acquire(1_000_000, MICRO);
        assert!((4_400..5_500).contains(&drawn), "{drawn}");
        assert!((940_000..1_060_000).contains(&stands_for), "{stands_for}");
    }

    #[test]
    fn the_first_quick_run_is_noticed() {
        let mut scene = Scene::new(Sampling::ByPace);
        assert_eq!(scene.acquire(RUN, MICRO), (RUN, RUN));
        assert!(scene.0.is_sparse());
    }

    #[test]
    fn one_acquisition_at_most_is_missed_after_a_burst() {
        for pause in [LULL * 2, Duration::from_secs(60)] {
            let mut scene = Scene::new(Sampling::ByPace);
            scene.acquire(10 * RUN, MICRO);
            assert!(scene.0.is_sparse());
            let (drawn, _) = scene.acquire(20, pause);
            assert!(drawn >= 19, "{drawn}");
        }
    }

    #[test]
    fn a_crowd_that_comes_at_once_is_in_the_sample() {
        let mut scene = Scene::new(Sampling::ByPace);
        for _ in 0..20 {
            assert_eq!(scene.acquire(1, RUN * QUICK), (1, 1));
            assert_eq!(scene.acquire(RUN / 2, Duration::from_nanos(1)), (RUN / 2, RUN / 2));
        }
    }

    #[test]
    fn a_clock_that_stands_still_makes_no_acquisition_quick() {
        let mut scene = Scene::new(Sampling::ByPace);
        assert_eq!(scene.acquire(10 * RUN, Duration::ZERO), (10 * RUN, 10 * RUN));
    }

    #[test]
    fn a_fixed_sample_does_not_depend_on_the_pace() {
        for (one_in, all) in [(0, 20_000), (1, 20_000), (8, 2_500)] {
            for pace in [MICRO, Duration::from_secs(1)] {
                let mut scene = Scene::new(Sampling::OneIn(one_in));
                let (drawn, stands_for) = scene.acquire(20_000, pace);
                assert!(drawn.abs_diff(all) <= all / 8, "{drawn}");
                assert_eq!(stands_for, drawn * one_in.max(1));
            }
        }
    }
}
