//! Which rounds of a request follow one another, and the random pauses between them; pure.

use std::time::Duration;

use lock_core::{AcquireOutcome, Error, Instant, Mode, OwnerTag, OwnerToken};

use crate::claims::Held;
use crate::hash::{hash, mix};

/// How many rounds there are at most.
const ROUNDS: u32 = 8;

/// If the votes for rivals stay unchanged in this many rounds, the request assumes that one rival holds the lock, and
/// that some nodes of this holder do not answer.
const UNMOVED: u32 = 3;

/// When to ask again after a vote without a winner.
const SOON: Duration = Duration::from_millis(50);

/// The pause after which a claim for a shared mode asks again. Nodes give a hint when the lock is free, but not
/// when a writer becomes a reader or one of several readers releases.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The shortest pause that a timer can make.
const MIN: Duration = Duration::from_millis(1);

/// The outcome of a round.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A quorum has granted the claim, agrees on its tokens, and the lease is not over.
    Granted(Held),
    /// A quorum has granted the claim, but does not agree on its tokens.
    Disagreed,
    Held,
    /// The first node has voted for another claim a short time ago. The other nodes were not asked.
    Moving,
    Split {
        favourite: bool,
    },
    /// Too few nodes voted, or the lease was over when the last answer came.
    Unable(Error),
}

/// The rounds of one request.
#[derive(Debug)]
pub(crate) struct Rounds {
    owner: OwnerToken,
    /// How long a quorum takes to answer.
    pub(crate) trip: Duration,
    /// When the last round begins at the latest.
    end: Instant,
    /// The number of the present round.
    pub(crate) number: u32,
    /// The nodes that voted for other claims in the last round.
    rivals: Vec<(usize, Option<OwnerTag>)>,
    /// For how many rounds these nodes have been the same.
    unmoved: u32,
}

impl Rounds {
    pub(crate) fn new(owner: OwnerToken, trip: Duration, end: Instant) -> Self {
        Self { owner, trip, end, number: 1, rivals: Vec::new(), unmoved: 0 }
    }

    /// Whether the votes for rivals have been unchanged for so long that one rival probably holds the lock.
    fn are_unmoved(&self) -> bool {
        self.unmoved >= UNMOVED
    }

    /// A round has ended without a grant. Returns the pause before the next round, which follows if votes are split or
    /// the nodes disagree, unless the request has taken too long.
    pub(crate) fn follow(
        &mut self,
        outcome: &Outcome,
        rivals: Vec<(usize, Option<OwnerTag>)>,
        now: Instant,
    ) -> Option<Duration> {
        self.unmoved = if rivals == self.rivals { self.unmoved + 1 } else { 1 };
        self.rivals = rivals;
        let pause = match *outcome {
            Outcome::Split { favourite } if !self.are_unmoved() => {
                pause(self.trip, &self.owner, self.number, favourite)
            }
            Outcome::Disagreed => Duration::ZERO,
            _ => return None,
        };
        let follows = self.number < ROUNDS && now + pause < self.end;
        self.number += u32::from(follows);
        follows.then_some(pause)
    }

    /// The answer to the caller, after a last round that has granted nothing. `free_in`: after what time a quorum may be
    /// free.
    pub(crate) fn refusal(
        &self,
        outcome: Outcome,
        mode: Mode,
        free_in: Option<Duration>,
    ) -> Result<AcquireOutcome, Error> {
        let is_held = match outcome {
            Outcome::Unable(error) => return Err(error),
            Outcome::Split { .. } => self.are_unmoved(),
            outcome => matches!(outcome, Outcome::Held),
        };
        // A reader may fit beside the next holders.
        let reads = mode.compatible_with(Mode::Shared);
        let retry_after = match free_in {
            _ if !is_held => Some(SOON),
            free_in if reads => Some(free_in.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)),
            free_in => free_in,
        };
        Ok(AcquireOutcome::Busy { retry_after })
    }
}

/// How long a contender pauses after a round of a split vote, so that rival contenders ask one after another. A waiter
/// does not use it to wait for a holder, but sleeps until a hint.
///
/// `trip` is the time of a round trip to the nodes. The favourite waits about a round trip for the others to give way.
/// The others give way for up to a few round trips, and longer from round to round.
///
/// The owner token makes the pause random: tokens are random, so no two contenders pause alike, and a test that chooses
/// the tokens can repeat a run.
fn pause(trip: Duration, owner: &OwnerToken, round: u32, is_favourite: bool) -> Duration {
    let unit = MIN.max(trip);
    let bits = mix(hash(owner.expose()) ^ u64::from(round)) >> 11;
    let random = bits as f64 / (1u64 << 53) as f64;
    if is_favourite {
        unit.mul_f64(0.5 + random)
    } else {
        unit * 2 + (unit * 4 * round).mul_f64(random)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Instant = Instant::from_nanos(0);

    fn rounds() -> Rounds {
        Rounds::new(OwnerToken::from_bytes([7; 16]), MIN, Instant::FAR_FUTURE)
    }

    /// Two rivals, who change from round to round.
    fn rivals(round: u32) -> Vec<(usize, Option<OwnerTag>)> {
        (0..2).map(|node| (node, Some(OwnerTag::new(2 * round + node as u32)))).collect()
    }

    fn split() -> impl Iterator<Item = Outcome> {
        [true, false].into_iter().cycle().map(|favourite| Outcome::Split { favourite })
    }

    #[test]
    fn however_long_votes_stay_split_there_are_few_rounds() {
        let mut rounds = rounds();
        for (number, outcome) in (1..ROUNDS).zip(split()) {
            assert_eq!(rounds.number, number);
            assert!(rounds.follow(&outcome, rivals(number), NOW).is_some());
        }
        assert_eq!(rounds.follow(&Outcome::Disagreed, rivals(ROUNDS), NOW), None);
    }

    #[test]
    fn rivals_with_equal_votes_in_three_rounds_are_taken_for_a_holder() {
        let mut rounds = rounds();
        for (round, rivals) in [1, 2, 2, 2].map(rivals).into_iter().enumerate() {
            let follows = rounds.follow(&Outcome::Split { favourite: true }, rivals, NOW);
            assert_eq!((follows.is_none(), rounds.are_unmoved()), (round == 3, round == 3));
        }
    }

    #[test]
    fn no_round_begins_after_the_end_of_the_request_or_after_a_clear_answer() {
        let mut rounds = rounds();
        rounds.end = NOW + Duration::from_nanos(1);
        for outcome in [Outcome::Split { favourite: true }, Outcome::Held, Outcome::Moving] {
            assert_eq!(rounds.follow(&outcome, rivals(1), NOW), None);
        }
        assert_eq!(rounds.follow(&Outcome::Disagreed, rivals(2), NOW), Some(Duration::ZERO));
        assert_eq!(rounds.follow(&Outcome::Disagreed, rivals(3), rounds.end), None);
    }

    #[test]
    fn a_reader_asks_again_soon_and_a_writer_when_the_lock_may_be_free() {
        let (rounds, long) = (rounds(), Duration::from_secs(30));
        let retry = |outcome, mode, free_in| match rounds.refusal(outcome, mode, free_in) {
            Ok(AcquireOutcome::Busy { retry_after }) => retry_after,
            other => panic!("{other:?}"),
        };
        let held = |mode, free_in| retry(Outcome::Held, mode, free_in);
        assert_eq!(held(Mode::Exclusive, Some(long)), Some(long));
        assert_eq!(held(Mode::Exclusive, None), None);
        assert_eq!(held(Mode::Shared, Some(long)), Some(LOOK_AGAIN));
        assert_eq!(held(Mode::Shared, None), Some(LOOK_AGAIN));
        assert_eq!(held(Mode::Shared, Some(MIN)), Some(MIN));
        for undecided in [Outcome::Moving, Outcome::Disagreed, Outcome::Split { favourite: true }] {
            assert_eq!(retry(undecided, Mode::Exclusive, Some(long)), Some(SOON));
        }
    }

    proptest! {
        #[test]
        fn pauses_are_random_and_bounded(seed in any::<[u8; 16]>(), millis in 0..100u64) {
            let (trip, owner) = (Duration::from_millis(millis), OwnerToken::from_bytes(seed));
            let unit = MIN.max(trip);
            let mut pauses = Vec::new();
            for round in 1..=6 {
                let short = pause(trip, &owner, round, true);
                prop_assert!(short >= unit / 2 && short < unit * 2);
                let long = pause(trip, &owner, round, false);
                prop_assert!(long >= unit * 2 && long <= unit * (2 + 4 * round));
                pauses.push(long);
            }
            pauses.dedup();
            prop_assert!(pauses.len() > 1);
        }
    }
}
