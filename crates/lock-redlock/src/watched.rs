//! The keys for which this process waits, the claim that was last in the way, and the turns of other processes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Instant, Key, OwnerTag};
use tokio::sync::Notify;

use crate::guarded::Guarded;
use crate::turns::Turns;

/// The watched keys. Other clients probably want these keys as well.
#[derive(Debug, Default)]
pub(crate) struct Watched(Guarded<HashMap<Key, Rivals>>);

#[derive(Debug, Default)]
struct Rivals {
    watches: usize,
    /// The claim that was last in the way, and since when this process knows that.
    last: Option<(OwnerTag, Instant)>,
    turns: Turns,
    /// Whether the next hint is about the release of this process.
    is_own: bool,
    /// Rings at each turn.
    turned: Arc<Notify>,
}

/// How long a claim with one node may take to get the others.
const RECENT: Duration = Duration::from_millis(5);

/// A watch of a key, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    watched: Arc<Watched>,
    key: Key,
}

impl Watched {
    pub(crate) fn watch(self: &Arc<Self>, key: &Key) -> Watching {
        self.0.lock().entry(key.clone()).or_default().watches += 1;
        Watching { watched: Arc::clone(self), key: key.clone() }
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.0.lock().contains_key(key)
    }

    /// Notes the claim that is in the way. Returns whether it has been in the way for less than
    /// [`RECENT`].
    pub(crate) fn is_new(&self, key: &Key, rival: OwnerTag, now: Instant) -> bool {
        let mut keys = self.0.lock();
        let Some(known) = keys.get_mut(key) else { return false };
        let same = known.last.filter(|(last, _)| *last == rival);
        let (_, since) = *known.last.insert(same.unwrap_or((rival, now)));
        now < since + RECENT
    }

    /// This process has the lock.
    pub(crate) fn win(&self, key: &Key) {
        if let Some(known) = self.0.lock().get_mut(key) {
            known.turns.win();
            known.is_own = true;
        }
    }

    /// This process has released the lock, and `others` other clients listened.
    pub(crate) fn released(&self, key: &Key, others: u32) {
        if let Some(known) = self.0.lock().get_mut(key) {
            known.turns.released(others);
        }
    }

    /// Whether each other client has had exactly one turn since this process had the lock. In that case no other client
    /// will ask first.
    pub(crate) fn is_next(&self, key: &Key) -> bool {
        self.0.lock().get(key).is_some_and(|known| known.turns.is_next())
    }

    /// The bell of the next turn, if this process should wait for it because other clients are due more turns.
    pub(crate) fn gives_way(&self, key: &Key) -> Option<Arc<Notify>> {
        let keys = self.0.lock();
        let known = keys.get(key).filter(|known| known.turns.gives_way())?;
        Some(Arc::clone(&known.turned))
    }
}

impl Watching {
    /// The lock was free: the turn of a process has ended. (Several watches of one key multiply all turns by one
    /// factor.)
    pub(crate) fn turns(&self) {
        let mut keys = self.watched.0.lock();
        let Some(known) = keys.get_mut(&self.key) else { return };
        if !std::mem::take(&mut known.is_own) {
            known.turns.pass();
        }
        let turned = Arc::clone(&known.turned);
        drop(keys);
        turned.notify_waiters();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut keys = self.watched.0.lock();
        if let Some(rivals) = keys.get_mut(&self.key) {
            rivals.watches -= 1;
            if rivals.watches == 0 {
                let gone = keys.remove(&self.key);
                drop(keys);
                // A request that gave way to other clients asks now.
                gone.iter().for_each(|gone| gone.turned.notify_waiters());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_key_is_known_while_it_is_watched() {
        let (watched, key) = (Arc::new(Watched::default()), Key::new("a").unwrap());
        let [one, other] = [1, 2].map(OwnerTag::new);
        let is_new = |rival, millis| {
            let now = Instant::from_nanos(0) + Duration::from_millis(millis);
            watched.is_new(&key, rival, now)
        };
        assert!(!is_new(one, 0) && !watched.has(&key));
        let watches = [(); 2].map(|()| watched.watch(&key));
        assert!(is_new(one, 0) && is_new(one, 4) && !is_new(one, 5) && watched.has(&key));
        assert!(is_new(other, 5) && is_new(one, 6));
        drop(watches);
        assert!(!watched.has(&key));
    }

    #[test]
    fn a_process_gives_way_until_each_other_client_had_a_turn() {
        let (watched, key) = (Arc::new(Watched::default()), Key::new("a").unwrap());
        let watch = watched.watch(&key);
        let gives_way = || watched.gives_way(&key).is_some();
        assert!(!gives_way() && !watched.is_next(&key));
        watched.win(&key);
        watched.released(&key, 2);
        // The own release is not a turn of another client.
        for is_own in [true, false] {
            watch.turns();
            assert!(gives_way() && !watched.is_next(&key), "{is_own}");
        }
        watch.turns();
        assert!(!gives_way() && watched.is_next(&key));
        watch.turns();
        assert!(!gives_way() && !watched.is_next(&key));
    }

    #[test]
    fn a_turn_wakes_a_process_that_gives_way_and_so_does_the_end_of_the_last_watch() {
        let (watched, key) = (Arc::new(Watched::default()), Key::new("a").unwrap());
        let watch = watched.watch(&key);
        watched.win(&key);
        watched.released(&key, 2);
        let turned = watched.gives_way(&key).unwrap();
        let mut waits = std::pin::pin!(turned.notified());
        assert!(waits.as_mut().now_or_never().is_none());
        watch.turns();
        assert!(waits.now_or_never().is_some());
        let mut waits = std::pin::pin!(turned.notified());
        assert!(waits.as_mut().now_or_never().is_none());
        drop(watch);
        assert!(waits.now_or_never().is_some() && watched.gives_way(&key).is_none());
    }
}
