//! Random pauses.

use std::time::Duration;

use lock_core::OwnerToken;

use crate::first;

/// The shortest pause that a timer can make.
const MIN: Duration = Duration::from_millis(1);

/// Pauses between the rounds of a split vote, so that contenders in one another's way come one after another. A waiter
/// does not use them to wait for a holder: it sleeps.
#[derive(Debug)]
pub(crate) struct Backoff {
    random: u64,
    trip: Duration,
    round: u32,
}

impl Backoff {
    /// `trip` is the time of a round trip to the nodes. Owner tokens are random, so no two contenders pause alike. A
    /// test that chooses them can repeat a run.
    pub(crate) fn new(trip: Duration, owner: &OwnerToken) -> Self {
        Self::seeded(trip, first::hash(owner.expose()))
    }

    fn seeded(trip: Duration, seed: u64) -> Self {
        // Zero is the one state that the generator does not leave.
        Self { random: seed | 1, trip, round: 0 }
    }

    /// How long the favourite lets the others give way: about a round trip.
    pub(crate) fn favourite(&mut self) -> Duration {
        MIN.max(self.trip).mul_f64(0.5 + self.random())
    }

    /// How long the others give way: up to a few round trips, and more from round to round.
    pub(crate) fn other(&mut self) -> Duration {
        self.round += 1;
        let limit = MIN.max(self.trip) * 4 * self.round;
        MIN.max(self.trip) * 2 + limit.mul_f64(self.random())
    }

    /// At least 0 and less than 1: xorshift64* (Marsaglia, 2003; Vigna, 2016).
    fn random(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let bits = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_are_random_and_bounded(seed in any::<u64>(), millis in 0..100u64) {
            let trip = Duration::from_millis(millis);
            let mut backoff = Backoff::seeded(trip, seed);
            let unit = MIN.max(trip);
            let mut pauses = Vec::new();
            for round in 1..=6 {
                let short = backoff.favourite();
                prop_assert!(short >= unit / 2 && short < unit * 2);
                let long = backoff.other();
                prop_assert!(long >= unit * 2 && long <= unit * (2 + 4 * round));
                pauses.push(long);
            }
            pauses.dedup();
            prop_assert!(pauses.len() > 1);
        }
    }
}
