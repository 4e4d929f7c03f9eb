//! Random pauses.

use std::time::Duration;

use lock_core::OwnerToken;

use crate::first;

/// The shortest pause that a timer can make.
const MIN: Duration = Duration::from_millis(1);

/// How long a contender pauses after a round of a split vote, so that rival contenders ask one after another. A waiter
/// does not use it to wait for a holder, but sleeps until a hint.
///
/// `trip` is the time of a round trip to the nodes. The favourite waits about a round trip for the others to give way.
/// The others give way for up to a few round trips, and longer from round to round.
///
/// The owner token makes the pause random: tokens are random, so no two contenders pause alike, and a test that chooses
/// the tokens can repeat a run.
pub(crate) fn pause(
    trip: Duration,
    owner: &OwnerToken,
    round: u32,
    is_favourite: bool,
) -> Duration {
    let unit = MIN.max(trip);
    let bits = first::mix(first::hash(owner.expose()) ^ u64::from(round)) >> 11;
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
