//! A map that removes its entries when they are over.

use std::collections::HashMap;
use std::hash::Hash;

/// A map with fewer entries is not swept.
pub(crate) const MIN: usize = 64;

/// A map that is swept whenever its size may have doubled since the last sweep. So the cost of a sweep is spread over
/// as many new entries. No other method looks at more than one entry.
#[derive(Debug)]
pub(crate) struct Swept<K, V> {
    map: HashMap<K, V>,
    at: usize,
}

impl<K: Hash + Eq, V> Swept<K, V> {
    pub(crate) fn new() -> Self {
        Self { map: HashMap::new(), at: MIN }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.map.remove(key);
    }

    /// The entry of a key, which may be new. Before it adds an entry, it removes the entries that are over, if a sweep
    /// is due.
    pub(crate) fn entry(
        &mut self,
        key: K,
        mut is_over: impl FnMut(&V) -> bool,
        new: impl FnOnce() -> V,
    ) -> &mut V {
        if self.map.len() >= self.at && !self.map.contains_key(&key) {
            self.map.retain(|_, value| !is_over(value));
            self.at = MIN.max(2 * self.map.len());
        }
        self.map.entry(key).or_insert_with(new)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_entries_costs_two_looks_at_most() {
        const MANY: usize = 20_000;
        let (mut map, mut looks) = (Swept::new(), 0);
        for number in 0..MANY {
            let is_over = |_: &usize| {
                looks += 1;
                false
            };
            map.entry(number, is_over, || number);
            map.entry(number / 2, |_| unreachable!("the entry is not new"), || 0);
        }
        assert!(looks <= 2 * MANY, "{looks} looks");
        assert_eq!(map.len(), MANY);
        let mut looks = 0;
        for number in MANY..MANY + 100 {
            let is_over = |old: &usize| {
                looks += 1;
                *old < number
            };
            map.entry(number, is_over, || number);
        }
        assert_eq!(looks, 0, "no sweep is due before the map has twice as many entries");
    }
}
