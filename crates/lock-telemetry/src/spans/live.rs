//! The open spans, by the name of their acquisition or hold.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// With so many parts, two threads seldom need one part at once.
const PARTS: usize = 16;

/// A map in parts, each with a lock of its own. The values are shared, so that no span is cloned or dropped under such
/// a lock: that would run the code of a subscriber.
pub(super) struct Live<K, V> {
    /// The number of entries. While it is zero, a look-up costs one load.
    count: AtomicUsize,
    parts: [Mutex<HashMap<K, Arc<V>>>; PARTS],
    hasher: RandomState,
}

impl<K, V> Default for Live<K, V> {
    fn default() -> Self {
        let (count, hasher) = (AtomicUsize::new(0), RandomState::new());
        Self { count, parts: std::array::from_fn(|_| Mutex::default()), hasher }
    }
}

impl<K: Hash + Eq, V> Live<K, V> {
    pub(super) fn insert(&self, key: K, value: V) {
        // The count rises before the entry is there, so that no look-up misses the entry.
        self.count.fetch_add(1, Ordering::Relaxed);
        let replaced = self.part(&key).insert(key, Arc::new(value));
        if replaced.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn remove(&self, key: &K) -> Option<Arc<V>> {
        if self.is_empty() {
            return None;
        }
        let removed = self.part(key).remove(key);
        if removed.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        if self.is_empty() { None } else { self.part(key).get(key).cloned() }
    }

    /// Events about one acquisition or hold come in order, so the thread of a later event has seen the entry.
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn part(&self, key: &K) -> MutexGuard<'_, HashMap<K, Arc<V>>> {
        let hash = self.hasher.hash_one(key);
        let part = usize::try_from(hash % PARTS as u64).unwrap_or_default();
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
