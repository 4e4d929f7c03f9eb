//! One lock, as successive looks saw it.

use std::time::{Duration, Instant};

use lock_core::{FencingToken, Inspection};

/// Tokens that advance as fast as this do not count holders: the store forgot the counter, and went on from its clock
/// in microseconds.
const OF_A_CLOCK: f64 = 900_000.0;

/// One lock, and what changed between two looks at it.
#[derive(Debug)]
pub(super) struct Row {
    /// The holders and the waiters at the last look.
    pub(super) seen: Inspection,
    /// The time of the last look.
    pub(super) at: Instant,
    /// The walk through the store in which the lock was last seen.
    pub(super) round: u64,
    /// The time since which each look has found waiters.
    pub(super) waited_since: Option<Instant>,
    /// How often a look found other holders than the look before.
    pub(super) turns: u64,
    /// How many leases ended without a release.
    pub(super) losses: u64,
    /// By how much the fencing tokens advance in a second, smoothed.
    pub(super) tokens_per_second: f64,
    /// The longest rest of each lease at any look. It is about the ttl of the lease.
    most_left: Vec<(FencingToken, Duration)>,
}

/// The share of one look in the sums over all locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) turns: u64,
    pub(super) losses: u64,
}

impl Row {
    /// The first look at a lock.
    pub(super) fn new(seen: Inspection, at: Instant, round: u64) -> Self {
        let most_left = lefts(&seen).collect();
        let waited_since = (seen.waiting > 0).then_some(at);
        let (turns, losses, tokens_per_second) = (0, 0, 0.0);
        Self { seen, at, round, waited_since, turns, losses, tokens_per_second, most_left }
    }

    /// One more look.
    pub(super) fn look(&mut self, seen: Inspection, at: Instant, round: u64) -> Change {
        let gap = at.saturating_duration_since(self.at).as_secs_f64();
        let change = Change { turns: self.turns_until(&seen), losses: self.ran_out(&seen, at) };
        if gap > 0.0 {
            let rate = advance(&self.seen, &seen) as f64 / gap;
            let rate = if rate < OF_A_CLOCK { rate } else { change.turns as f64 / gap };
            self.tokens_per_second = (self.tokens_per_second + rate) / 2.0;
        }
        self.waited_since = match self.waited_since {
            _ if seen.waiting == 0 => None,
            since => since.or(Some(at)),
        };
        let known = std::mem::take(&mut self.most_left);
        let most = |(token, left): (FencingToken, Duration)| {
            let before = known.iter().find(|(it, _)| *it == token).map(|(_, left)| *left);
            (token, before.map_or(left, |before| before.max(left)))
        };
        self.most_left = lefts(&seen).map(most).collect();
        self.turns += change.turns;
        self.losses += change.losses;
        (self.seen, self.at, self.round) = (seen, at, round);
        change
    }

    /// Whether a renewal is late. It is due when a third of the lease is over. It is late when half of the lease is
    /// over.
    pub(super) fn is_overdue(&self) -> bool {
        lefts(&self.seen).any(|(token, left)| self.is_late(token, left))
    }

    /// How long the lock has had waiters without a break, as far as the looks saw.
    pub(super) fn waited(&self, now: Instant) -> Option<Duration> {
        self.waited_since.map(|since| now.saturating_duration_since(since))
    }

    /// The shortest rest of a lease at this time.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.at);
        let lefts = self.seen.holders.iter().filter_map(|holder| holder.remaining);
        lefts.min().map(|left| left.saturating_sub(since))
    }

    fn is_late(&self, token: FencingToken, left: Duration) -> bool {
        let most = self.most_left.iter().find(|(it, _)| *it == token);
        most.is_some_and(|(_, most)| left < *most / 2)
    }

    /// How many of the leases of the last look ended without a release. A lease that is gone counts as released,
    /// unless its renewal was late and its time is over.
    fn ran_out(&self, seen: &Inspection, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.at);
        let gone = lefts(&self.seen).filter(|(token, _)| !has(seen, *token));
        gone.filter(|(token, left)| *left <= since && self.is_late(*token, *left)).count() as u64
    }

    /// How many holders of the new look the last look did not see.
    fn turns_until(&self, seen: &Inspection) -> u64 {
        let tokens = seen.holders.iter().filter_map(|holder| holder.token);
        tokens.filter(|token| !has(&self.seen, *token)).count() as u64
    }
}

/// The token of each lease, and what is left of it.
fn lefts(seen: &Inspection) -> impl Iterator<Item = (FencingToken, Duration)> {
    seen.holders.iter().filter_map(|holder| holder.token.zip(holder.remaining))
}

fn has(seen: &Inspection, token: FencingToken) -> bool {
    seen.holders.iter().any(|holder| holder.token == Some(token))
}

fn highest(seen: &Inspection) -> Option<u64> {
    seen.holders.iter().filter_map(|holder| holder.token).map(FencingToken::get).max()
}

/// By how much the highest token of all holders has advanced.
fn advance(before: &Inspection, after: &Inspection) -> u64 {
    match (highest(before), highest(after)) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Holder, Kind};

    use super::*;

    fn held(holders: &[(u64, u64)], waiting: u64) -> Inspection {
        let holder = |(token, left): &(u64, u64)| {
            let left = Duration::from_secs(*left);
            Holder::new(Kind::Exclusive, Some(FencingToken::new(*token)), Some(left))
        };
        let holders: Vec<_> = holders.iter().map(holder).collect();
        let holding = holders.len() as u64;
        Inspection::new((holders, holding), (Vec::new(), waiting))
    }

    /// The second of a look, the tokens with the rests of their leases in seconds, and the number
    /// of waiters.
    type Look<'a> = (u64, &'a [(u64, u64)], u64);

    /// A lock after these looks.
    fn after(looks: &[Look<'_>]) -> Row {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut row = Row::new(held(looks[0].1, looks[0].2), at(looks[0].0), 0);
        for (second, holders, waiting) in &looks[1..] {
            row.look(held(holders, *waiting), at(*second), 0);
        }
        row
    }

    #[test]
    fn another_token_is_another_holder() {
        let row = after(&[(0, &[(7, 30)], 0), (1, &[(7, 29)], 0), (2, &[(17, 30)], 0)]);
        assert_eq!((row.turns, row.losses), (1, 0));
        // Ten tokens in the last second, smoothed.
        assert_eq!(row.tokens_per_second, 5.0);
    }

    #[test]
    fn each_reader_that_comes_is_a_turn_and_one_that_stays_is_none() {
        let row = after(&[(0, &[(7, 30), (8, 30)], 0), (1, &[(8, 29), (9, 30), (10, 30)], 0)]);
        assert_eq!((row.turns, row.losses), (2, 0));
    }

    #[test]
    fn a_lease_that_is_renewed_or_released_is_not_lost() {
        assert_eq!(after(&[(0, &[(7, 30)], 0), (9, &[(7, 21)], 0), (40, &[], 0)]).losses, 0);
        // The renewal was late, and then came.
        assert_eq!(
            after(&[(0, &[(7, 30)], 0), (20, &[(7, 10)], 0), (21, &[(7, 30)], 0)]).losses,
            0
        );
        // The renewal was late, and a release came before the end of the lease.
        assert_eq!(after(&[(0, &[(7, 30)], 0), (20, &[(7, 10)], 0), (25, &[], 0)]).losses, 0);
    }

    #[test]
    fn a_lease_whose_renewal_was_late_and_whose_time_is_over_is_lost() {
        let late: &[Look<'_>] = &[(0, &[(7, 30)], 0), (20, &[(7, 10)], 1)];
        assert!(after(late).is_overdue());
        for next in [&[][..], &[(16, 30)]] {
            let row = after(&[late[0], late[1], (31, next, 0)]);
            assert_eq!((row.losses, row.is_overdue()), (1, false));
        }
    }

    #[test]
    fn a_counter_that_goes_on_from_the_clock_is_no_rate() {
        let row = after(&[(0, &[(7, 30)], 0), (1, &[(1_795_000_000_000_000, 30)], 0)]);
        assert_eq!((row.turns, row.tokens_per_second), (1, 0.5));
    }

    #[test]
    fn the_wait_counts_from_the_first_look_that_found_it_without_a_break() {
        let row = after(&[(0, &[(7, 30)], 1), (5, &[(7, 30)], 2)]);
        assert_eq!(row.waited(row.at), Some(Duration::from_secs(5)));
        let row = after(&[(0, &[(7, 30)], 1), (5, &[(7, 30)], 0), (6, &[(7, 30)], 1)]);
        assert_eq!(row.waited(row.at), Some(Duration::ZERO));
        assert_eq!(after(&[(0, &[(7, 30)], 0)]).waited_since, None);
    }

    #[test]
    fn what_is_left_goes_on_between_two_looks() {
        let row = after(&[(0, &[(7, 30), (8, 20)], 0)]);
        assert_eq!(row.left(row.at + Duration::from_secs(5)), Some(Duration::from_secs(15)));
        assert_eq!(row.left(row.at + Duration::from_secs(50)), Some(Duration::ZERO));
    }
}
