//! Numbers that can be had again.

use std::hash::{BuildHasher, RandomState};

/// A sequence of numbers that follows from a seed, which is printed.
pub(crate) struct Random(u64);

impl Random {
    /// From the seed in the environment variable `QUORUM_SEED`, or from a new one.
    pub(crate) fn new() -> Self {
        let given = std::env::var("QUORUM_SEED").ok();
        let seed = given.map_or_else(|| RandomState::new().hash_one(0), |it| it.parse().unwrap());
        println!("QUORUM_SEED={seed}");
        Self(seed)
    }

    /// A number below `limit`: the output of SplitMix64 (Steele, Lea and Flood, 2014).
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit as u64) as usize
    }

    /// So many different numbers below `limit`.
    pub(crate) fn some(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..limit).collect();
        (0..count).map(|_| rest.swap_remove(self.below(rest.len()))).collect()
    }
}
