//! Removes entries that are over from a map.

use std::collections::HashMap;
use std::hash::Hash;

/// A map with fewer entries is not swept.
pub(crate) const MIN: usize = 64;

/// Sweeps a map whenever its size may have doubled since the last sweep. So the cost of a sweep is spread over as many
/// new entries.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    at: usize,
}

impl Sweep {
    /// Call it before you add an entry.
    pub(crate) fn run<K: Hash + Eq, V>(
        &mut self,
        map: &mut HashMap<K, V>,
        mut keep: impl FnMut(&mut V) -> bool,
    ) {
        if map.len() >= self.at.max(MIN) {
            map.retain(|_, value| keep(value));
            self.at = 2 * map.len();
        }
    }
}
