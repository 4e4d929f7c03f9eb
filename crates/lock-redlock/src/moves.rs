//! Whether locks change hands, as far as this process sees it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lock_core::{Key, OwnerTag};

use crate::sweep::Sweep;

/// The holders of the keys that are watched, as requests found them: what tells a hint of few nodes that was of
/// use from one that was not.
#[derive(Debug, Default)]
pub(crate) struct Moves(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    keys: HashMap<Key, Weak<Move>>,
    sweep: Sweep,
}

/// One key that is watched.
#[derive(Debug, Default)]
pub(crate) struct Move {
    count: AtomicU64,
    holders: Mutex<Vec<OwnerTag>>,
}

impl Moves {
    pub(crate) fn watch(&self, key: &Key) -> Arc<Move> {
        let mut watched = self.lock();
        if let Some(known) = watched.keys.get(key).and_then(Weak::upgrade) {
            return known;
        }
        let Watched { keys, sweep } = &mut *watched;
        sweep.run(keys, |watch| watch.strong_count() > 0);
        let new = Arc::default();
        watched.keys.insert(key.clone(), Arc::downgrade(&new));
        new
    }

    /// Notes who holds a key, or has votes for it.
    pub(crate) fn note(&self, key: &Key, holders: impl IntoIterator<Item = OwnerTag>) {
        let Some(watched) = self.lock().keys.get(key).and_then(Weak::upgrade) else { return };
        let mut holders: Vec<_> = holders.into_iter().collect();
        holders.sort_unstable();
        holders.dedup();
        let mut known = watched.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != holders {
            *known = holders;
            watched.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Move {
    /// How often the key changed hands.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep;

    #[test]
    fn only_another_holder_is_a_move() {
        let (moves, key) = (Moves::default(), Key::new("a").unwrap());
        let [one, other] = [1, 2].map(OwnerTag::new);
        moves.note(&key, [one]);
        let watched = moves.watch(&key);
        for (holders, count) in
            [(vec![one, other], 1), (vec![other, one, one], 1), (vec![other], 2), (vec![], 3)]
        {
            moves.note(&key, holders);
            assert_eq!(watched.count(), count);
        }
        assert_eq!(moves.watch(&key).count(), 3);
        drop(watched);
        assert_eq!(moves.watch(&key).count(), 0);
    }

    #[test]
    fn keys_that_nobody_watches_are_forgotten() {
        let moves = Moves::default();
        for number in 0..10 * sweep::MIN {
            moves.watch(&Key::new(number.to_string()).unwrap());
        }
        assert!(moves.lock().keys.len() <= 2 * sweep::MIN);
    }
}
