//! When a map is rid of what is over.

use std::collections::HashMap;
use std::hash::Hash;

/// Below this many entries nobody looks for those that are over.
pub(crate) const MIN: usize = 64;

/// Looks through a map whenever its size may have doubled since the last time, so that the cost of looking
/// is spread over as many entries.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    at: usize,
}

impl Sweep {
    /// Called before something is added.
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
