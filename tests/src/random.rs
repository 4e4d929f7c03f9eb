//! Reproducible random numbers.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A sequence of numbers that follows from a seed: SplitMix64 (Steele, Lea and Flood, 2014).
///
/// # Examples
///
/// ```
/// use lock_tests::Random;
///
/// let mut random = Random::from_seed(7);
/// let drawn: Vec<usize> = (0..3).map(|_| random.below(100)).collect();
/// let mut again = Random::from_seed(7);
/// assert_eq!(drawn, [again.below(100), again.below(100), again.below(100)]);
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to a seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// From the seed in this environment variable, or from a new one. Prints the seed, so that the
    /// sequence can be repeated.
    ///
    /// # Panics
    ///
    /// If the variable has anything but a number.
    pub fn from_env(variable: &str) -> Self {
        let seed = match std::env::var(variable) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no seed")),
            Err(_) => Self::fresh_seed(),
        };
        println!("{variable}={seed}");
        Self(seed)
    }

    /// An unused seed, with as few digits as possible.
    pub fn fresh_seed() -> u64 {
        RandomState::new().hash_one(0) >> 32
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit as u64) as usize
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of these, which must not be empty.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// This many different numbers below `limit`.
    pub fn some(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..limit).collect();
        (0..count.min(limit)).map(|_| rest.swap_remove(self.below(rest.len()))).collect()
    }

    /// A time of whole milliseconds, from `least` on, below `limit`.
    pub fn between(&mut self, least: Duration, limit: Duration) -> Duration {
        let room = limit.saturating_sub(least).as_millis().max(1) as usize;
        least + Duration::from_millis(self.below(room) as u64)
    }

    /// An independent sequence for a part of the work: its numbers change nothing in this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.draw())
    }
}
