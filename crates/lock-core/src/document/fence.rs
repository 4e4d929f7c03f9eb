//! The counter of fencing tokens of one key.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::{FencingToken, TokenRange};

/// How far, in ticks, a reserved range may put the counter ahead of the clock: a second.
const MAX_LEAD: u64 = 4_000_000;

/// How far, in ticks, a quorum may put the counter ahead of the clock: an hour.
const MAX_FLOOR_LEAD: u64 = 4_000_000 * 60 * 60;

/// A counter with the time as its floor: the next token is `max(last + 1, now)`.
///
/// If the store drops a counter, the next counter starts above the last token, because the time has
/// moved on. That holds only if the dropped counter was not ahead of the clock, hence [`MAX_LEAD`] and
/// [`Fence::is_at_rest`].
///
/// A quorum numbers its tokens by the clocks of its clients, which may be behind. So a counter that replaces
/// a dropped counter begins where the dropped one ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fence {
    last: u64,
}

impl Fence {
    /// A counter whose last token is `last`.
    pub(crate) fn at(last: u64) -> Self {
        Self { last }
    }

    pub(crate) fn last(self) -> u64 {
        self.last
    }

    /// A counter whose next token is above all tokens of both counters.
    pub(crate) fn raised_above(self, other: Self) -> Self {
        Self { last: self.last.max(other.last) }
    }

    /// Reserves `wanted` tokens, or one token if `wanted` tokens would run too far ahead of the
    /// clock.
    pub(crate) fn reserve(&mut self, wanted: NonZeroU32, now: Ticks) -> TokenRange {
        let first = now.0.max(self.last.saturating_add(1));
        let reach = first.saturating_add(u64::from(wanted.get()) - 1);
        let count = if reach > now.0 + MAX_LEAD { NonZeroU32::MIN } else { wanted };
        let range = TokenRange::new(FencingToken::new(first), count);
        self.last = range.last().get();
        range
    }

    /// Reserves up to `wanted` tokens, the last of which is `floor`. If `floor` was given out before, reserves
    /// only the next token.
    pub(crate) fn reserve_up_to(
        &mut self,
        floor: FencingToken,
        wanted: NonZeroU32,
        now: Ticks,
    ) -> TokenRange {
        let floor = floor.get().min(now.0.saturating_add(MAX_FLOOR_LEAD));
        let next = self.last.saturating_add(1);
        let last = floor.max(next);
        // `last` is above `next` by less than `wanted`, so the conversion cannot fail.
        let first = next.max(last.saturating_sub(u64::from(wanted.get()) - 1));
        let more = u32::try_from(last - first).unwrap_or(0);
        self.last = last;
        TokenRange::new(FencingToken::new(first), NonZeroU32::MIN.saturating_add(more))
    }

    /// Raises the counter to a token that a quorum has given out. Returns whether no higher token was given out.
    pub(crate) fn confirm(&mut self, token: FencingToken) -> bool {
        let is_latest = self.last <= token.get();
        self.last = self.last.max(token.get());
        is_latest
    }

    /// Whether the first token of a new counter would be above all tokens of this counter.
    pub(crate) fn is_at_rest(&self, now: Ticks) -> bool {
        self.last < now.0
    }

    /// Resets the counter, unless the store's own tokens could then repeat.
    pub(crate) fn forget(&mut self, now: Ticks) {
        if self.is_at_rest(now) {
            *self = Self::default();
        }
    }
}

/// The time as [`FencingToken::floor`] counts it, on a clock that never goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks(u64);

impl Ticks {
    /// The latest time that the wall clock has shown to this process, so that no change of the wall clock turns tokens
    /// back. A monotonic clock would not count the time that the machine sleeps.
    pub(crate) fn now() -> Self {
        static LATEST: AtomicU64 = AtomicU64::new(0);
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let shown = FencingToken::floor(epoch.unwrap_or_default()).get();
        Self(LATEST.fetch_max(shown, Ordering::Relaxed).max(shown))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    fn vote(fence: &mut Fence, floor: u64, count: u32, now: u64) -> (u64, u64) {
        let (floor, count) = (FencingToken::new(floor), NonZeroU32::new(count).unwrap());
        let range = fence.reserve_up_to(floor, count, Ticks(now));
        (range.first().get(), range.last().get())
    }

    #[test]
    fn a_quorum_says_where_a_range_ends() {
        let mut fence = Fence::default();
        assert_eq!(vote(&mut fence, 1000, 1, 0), (1000, 1000));
        assert_eq!(vote(&mut fence, 1100, 10, 0), (1091, 1100));
        // There are fewer than `wanted` tokens between the last one and the floor.
        assert_eq!(vote(&mut fence, 1104, 10, 0), (1101, 1104));
        assert_eq!(vote(&mut fence, 1104, 10, 0), (1105, 1105));
        assert_eq!(vote(&mut fence, 0, u32::MAX, 0), (1106, 1106));
        assert_eq!(vote(&mut fence, u64::MAX, 2, 0), (MAX_FLOOR_LEAD - 1, MAX_FLOOR_LEAD));
        assert_eq!(vote(&mut fence, u64::MAX, 2, 1), (MAX_FLOOR_LEAD + 1, MAX_FLOOR_LEAD + 1));
    }

    #[test]
    fn only_what_is_not_behind_is_confirmed() {
        let mut fence = Fence::default();
        let mut confirm = |token| fence.confirm(FencingToken::new(token));
        assert_eq!([7, 7, 9, 8].map(&mut confirm), [true, true, true, false]);
        assert_eq!(vote(&mut fence, 9, 1, 0), (10, 10));
    }

    #[test]
    fn what_is_forgotten_is_given_out_again_but_not_what_was_thrown_away() {
        let mut fence = Fence::default();
        vote(&mut fence, 1, 1, 1000);
        let mut next = Fence::default().raised_above(fence);
        assert_eq!(vote(&mut next, 1, 1, 1000), (2, 2));
        fence.forget(Ticks(1000));
        assert_eq!(vote(&mut fence, 1, 1, 1000), (1, 1));
        // A counter ahead of the clock is not forgotten.
        vote(&mut fence, 2000, 1, 1000);
        fence.forget(Ticks(1000));
        assert_eq!(reserve(&mut fence, 1, 1000), (2001, 2001));
    }

    /// An operation on a counter, with floors and tokens near the counter and far from it.
    #[derive(Clone, Debug)]
    enum Step {
        Reserve { wanted: NonZeroU32 },
        ReserveUpTo { floor: u64, wanted: NonZeroU32 },
        Confirm { token: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let number = || prop_oneof![NOW - 100..NOW + 100, Just(0), 0..=u64::MAX];
        let wanted = || prop_oneof![1..200u32, 1..=u32::MAX].prop_filter_map("0", NonZeroU32::new);
        prop_oneof![
            wanted().prop_map(|wanted| Step::Reserve { wanted }),
            (number(), wanted()).prop_map(|(floor, wanted)| Step::ReserveUpTo { floor, wanted }),
            // A quorum confirms only tokens that a node gave out, and none of these is far ahead.
            (0..NOW + MAX_FLOOR_LEAD).prop_map(|token| Step::Confirm { token }),
        ]
    }

    const NOW: u64 = 1 << 50;

    proptest! {
        #[test]
        fn no_token_is_given_out_twice(steps in prop::collection::vec(step(), 1..60)) {
            let (mut fence, mut highest) = (Fence::default(), 0);
            for (tick, step) in (NOW..).zip(steps) {
                let now = Ticks(tick);
                let (range, wanted) = match step {
                    Step::Reserve { wanted } => (fence.reserve(wanted, now), wanted),
                    Step::ReserveUpTo { floor, wanted } => {
                        let range = fence.reserve_up_to(FencingToken::new(floor), wanted, now);
                        let bounded = floor.min(tick + MAX_FLOOR_LEAD);
                        prop_assert_eq!(range.last().get(), bounded.max(highest + 1));
                        (range, wanted)
                    }
                    Step::Confirm { token } => {
                        let is_confirmed = fence.confirm(FencingToken::new(token));
                        prop_assert_eq!(is_confirmed, token >= highest);
                        highest = highest.max(token);
                        continue;
                    }
                };
                prop_assert!(range.first().get() > highest && range.count() <= wanted);
                highest = range.last().get();
            }
        }

        /// The steady state: the nodes agree on the last token. That is so even if earlier ballots asked the
        /// nodes for different numbers of tokens, and the nodes gave out different tokens.
        #[test]
        fn nodes_that_are_behind_the_floor_agree(
            behind in prop::collection::vec(0..1000u64, 2..7),
            wanted in 1..2000u32,
        ) {
            let ranges = behind.iter().map(|behind| {
                let mut fence = Fence::default();
                fence.confirm(FencingToken::new(NOW - 1 - behind));
                vote(&mut fence, NOW, wanted, NOW)
            });
            for (range, behind) in ranges.zip(&behind) {
                let count = u64::from(wanted).min(behind + 1);
                prop_assert_eq!(range, (NOW - count + 1, NOW));
            }
        }
    }

    #[test]
    fn the_clock_moves_forward() {
        let before = Ticks::now();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(Ticks::now().0 > before.0);
    }
}
