//! The keys for which this process waits, and the claim that was last found in its way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Key, OwnerTag};

/// The watched keys. Other clients probably want such a key as well.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<HashMap<Key, Rival>>);

#[derive(Debug, Default)]
struct Rival {
    watches: usize,
    last: Option<OwnerTag>,
    /// How often the lock has moved on since this process had it.
    moves: u32,
    /// How often the lock moves on between two turns of this process: a smoothed average, times [`UNIT`].
    usual: u32,
}

const UNIT: u32 = 64;

/// A watch of a key, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    watched: Arc<Watched>,
    key: Key,
}

impl Watched {
    pub(crate) fn watch(self: &Arc<Self>, key: &Key) -> Watching {
        self.lock().entry(key.clone()).or_default().watches += 1;
        Watching { watched: Arc::clone(self), key: key.clone() }
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.lock().contains_key(key)
    }

    /// Notes the claim that is in the way. Returns whether it differs from the last one: then the lock moves on.
    pub(crate) fn is_new(&self, key: &Key, rival: OwnerTag) -> bool {
        let mut keys = self.lock();
        let Some(known) = keys.get_mut(key) else { return false };
        let is_new = known.last.replace(rival) != Some(rival);
        known.moves += u32::from(is_new);
        is_new
    }

    /// This process has the lock.
    pub(crate) fn win(&self, key: &Key) {
        if let Some(known) = self.lock().get_mut(key) {
            let moves = std::mem::take(&mut known.moves).min(UNIT);
            known.usual = (3 * known.usual + moves * UNIT) / 4;
        }
    }

    /// Whether the process should let others go first, because its last turn was not long ago.
    pub(crate) fn gives_way(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(|known| 2 * known.moves * UNIT < known.usual)
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Rival>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut keys = self.watched.lock();
        if let Some(rival) = keys.get_mut(&self.key) {
            rival.watches -= 1;
            if rival.watches == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_while_it_is_watched() {
        let (watched, key) = (Arc::new(Watched::default()), Key::new("a").unwrap());
        let [one, other] = [1, 2].map(OwnerTag::new);
        assert!(!watched.is_new(&key, one));
        let watches = [(); 2].map(|()| watched.watch(&key));
        assert!(watched.is_new(&key, one) && !watched.is_new(&key, one));
        assert!(watched.is_new(&key, other) && watched.has(&key));
        assert!(!watched.gives_way(&key));
        watched.win(&key);
        assert!(watched.gives_way(&key));
        assert!(watched.is_new(&key, one) && !watched.gives_way(&key));
        // Alone it need not wait.
        (0..32).for_each(|_| watched.win(&key));
        assert!(!watched.gives_way(&key));
        drop(watches);
        assert!(!watched.has(&key));
    }
}
