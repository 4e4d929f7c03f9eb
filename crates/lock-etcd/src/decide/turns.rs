//! The order of the requests of this client about each key, and what was last seen of the key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::Key;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::plan::Known;

/// At how many keys those are dropped that no request is about, at the earliest.
const SWEEP: usize = 4096;

/// A longer document is read again for each request.
const LONGEST: usize = 16 * 1024;

/// An older document is read again. The store may have been restored meanwhile, and then gives its revisions out again,
/// for other documents, which the revision alone does not show.
const OLDEST: Duration = Duration::from_secs(3);

/// One queue for each key: a release runs after the request that it undoes.
#[derive(Default)]
pub(crate) struct Turns(Mutex<Keys>);

#[derive(Default)]
struct Keys {
    entries: HashMap<Key, Entry>,
    /// How many keys the last sweep has left.
    left: usize,
}

type Entry = Arc<tokio::sync::Mutex<Seen>>;

impl Keys {
    fn entry(&mut self, key: &Key) -> Entry {
        // A sweep that leaves many keys is not repeated before there are twice as many.
        let is_full = self.entries.len() >= SWEEP.max(2 * self.left);
        if is_full && !self.entries.contains_key(key) {
            self.entries.retain(|_, entry| is_needed(entry));
            self.left = self.entries.len();
        }
        Arc::clone(self.entries.entry(key.clone()).or_default())
    }
}

/// What was last seen of a key.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) known: Option<Known>,
    /// The revision on which a transaction was conditioned whose outcome is unknown. It may still be carried out, until
    /// the document has another revision.
    pub(crate) unsure: Option<i64>,
    /// Whether it was read by the present request.
    pub(crate) is_fresh: bool,
    /// The number of the connection by which it was seen.
    connection: u64,
    /// When the document was last seen.
    seen_at: Option<Instant>,
    /// A revision of the store at which the document was so.
    pub(crate) at: i64,
}

/// The turn of one request.
pub(crate) type Turn = OwnedMutexGuard<Seen>;

impl Turns {
    /// Waits for the turn of a request about the key, on the connection with this number.
    pub(crate) async fn take(&self, key: &Key, connection: u64) -> Turn {
        let entry = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key);
        let mut turn = entry.lock_owned().await;
        turn.is_fresh = false;
        let is_old = turn.seen_at.is_none_or(|seen_at| seen_at.elapsed() > OLDEST);
        if turn.connection != connection || is_old {
            turn.connection = connection;
            turn.known = None;
        }
        turn
    }
}

/// Whether a request is about the key, or a transaction has no outcome yet.
fn is_needed(entry: &Entry) -> bool {
    Arc::strong_count(entry) > 1 || entry.try_lock().is_ok_and(|seen| seen.unsure.is_some())
}

impl Seen {
    /// The document was read, or written, at this revision of the store.
    pub(crate) fn see(&mut self, known: Known, at: i64) {
        if self.unsure != Some(known.revision) {
            self.unsure = None;
        }
        self.is_fresh = true;
        self.known = Some(known);
        self.seen_at = Some(Instant::now());
        self.at = at;
    }

    /// The document has not changed until this revision of the store.
    pub(crate) fn confirm(&mut self, at: i64) {
        self.is_fresh = true;
        self.seen_at = Some(Instant::now());
        self.at = at;
    }

    /// A transaction that writes the document is sent.
    pub(crate) fn send(&mut self) {
        let revision = self.known.as_ref().map_or(0, |known| known.revision);
        self.unsure = Some(revision);
    }

    /// A document that is long is not kept.
    pub(crate) fn tidy(&mut self) {
        if self.known.as_ref().is_some_and(|known| known.bytes.len() > LONGEST) {
            self.known = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(revision: i64, len: usize) -> Known {
        Known { revision, bytes: vec![0; len] }
    }

    #[test]
    fn a_lost_transaction_counts_until_the_document_changes() {
        let mut seen = Seen::default();
        seen.see(known(5, 1), 9);
        seen.send();
        seen.see(known(5, 1), 9);
        assert_eq!(seen.unsure, Some(5));
        seen.see(known(6, 1), 9);
        assert_eq!(seen.unsure, None);
    }

    #[test]
    fn long_documents_are_not_kept() {
        let mut seen = Seen::default();
        seen.see(known(5, LONGEST), 9);
        seen.tidy();
        assert!(seen.known.is_some());
        seen.see(known(5, LONGEST + 1), 9);
        seen.tidy();
        assert!(seen.known.is_none());
    }

    #[tokio::test]
    async fn another_connection_reads_anew() {
        let (turns, key) = (Turns::default(), Key::new("a").unwrap());
        turns.take(&key, 1).await.see(known(5, 1), 5);
        assert!(turns.take(&key, 1).await.known.is_some());
        assert!(turns.take(&key, 2).await.known.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_document_is_read_anew() {
        let (turns, key) = (Turns::default(), Key::new("a").unwrap());
        turns.take(&key, 1).await.see(known(5, 1), 5);
        tokio::time::advance(OLDEST).await;
        let mut turn = turns.take(&key, 1).await;
        assert!(turn.known.is_some());
        turn.confirm(6);
        drop(turn);
        tokio::time::advance(OLDEST).await;
        assert!(turns.take(&key, 1).await.known.is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(turns.take(&key, 1).await.known.is_none());
    }

    #[tokio::test]
    async fn idle_keys_do_not_pile_up() {
        let turns = Turns::default();
        let key = |index: usize| Key::new(format!("key {index}")).unwrap();
        let held = turns.take(&key(0), 0).await;
        turns.take(&key(1), 0).await.unsure = Some(7);
        for index in 2..SWEEP + 10 {
            turns.take(&key(index), 0).await;
        }
        let keys = &turns.0.lock().unwrap().entries;
        assert!(keys.len() < 20 && keys.contains_key(&key(0)) && keys.contains_key(&key(1)));
        drop(held);
    }

    #[tokio::test]
    async fn keys_that_are_needed_make_sweeps_rare() {
        let turns = Turns::default();
        let key = |index: usize| Key::new(format!("key {index}")).unwrap();
        for index in 0..SWEEP {
            turns.take(&key(index), 0).await.unsure = Some(7);
        }
        let len = || turns.0.lock().unwrap().entries.len();
        for index in SWEEP..2 * SWEEP {
            turns.take(&key(index), 0).await;
        }
        assert_eq!(len(), 2 * SWEEP, "no sweep since the first one");
        turns.take(&key(2 * SWEEP), 0).await;
        assert_eq!(len(), SWEEP + 1);
    }
}
