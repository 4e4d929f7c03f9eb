//! The lease of etcd with which documents at rest go.

use std::collections::HashSet;
use std::time::Duration;

use lock_core::{Clock, Instant, Key};
use tokio::sync::Mutex;

use crate::link::Link;

/// The time of the lease that is asked for. A document at rest is kept for half of this time at least.
const TIME: Duration = Duration::from_secs(2 * 60 * 60);

/// How many locks leave their keys to one lease: a document and a bell each. etcd removes the keys of a lease in one
/// step, and all its members do nothing else meanwhile.
const LOCKS: usize = 500;

/// The lease that this client has now.
#[derive(Default)]
pub(crate) struct Retention(Mutex<Option<Current>>);

struct Current {
    id: i64,
    /// Until then, the lease lives for half of its time at least.
    until: Instant,
    /// The locks that have left their keys to it.
    locks: HashSet<Key>,
}

impl Current {
    /// Whether these locks may leave their keys to the lease.
    fn takes(&mut self, locks: &[&Key], now: Instant) -> bool {
        let new = locks.iter().filter(|key| !self.locks.contains(**key)).count();
        if self.until <= now || self.locks.len() + new > LOCKS {
            return false;
        }
        if new > 0 {
            self.locks.extend(locks.iter().copied().cloned());
        }
        true
    }
}

impl Retention {
    /// The number of a lease for the keys of these locks, which lives for half of its time at least. 0 if etcd grants
    /// none: then the documents stay until a client looks for such documents.
    pub(super) async fn obtain(&self, link: &Link, locks: &[&Key]) -> i64 {
        let mut current = self.0.lock().await;
        let now = Clock::boot().now();
        if let Some(current) = current.as_mut()
            && current.takes(locks, now)
        {
            return current.id;
        }
        let granted = link.grant(i64::try_from(TIME.as_secs()).unwrap_or(i64::MAX)).await;
        let until =
            |given| now + TIME.min(Duration::from_secs(u64::try_from(given).unwrap_or(0))) / 2;
        *current = granted.as_ref().ok().map(|(id, given)| {
            let locks = locks.iter().copied().cloned().collect();
            Current { id: *id, until: until(*given), locks }
        });
        drop(current);
        match granted {
            Ok((id, _)) => id,
            Err(fault) => {
                tracing::debug!(error = %fault.error, "no lease for documents at rest");
                0
            }
        }
    }

    /// This lease may be over.
    pub(super) async fn forget(&self, id: i64) {
        let mut current = self.0.lock().await;
        if current.as_ref().is_some_and(|it| it.id == id) {
            *current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_takes_the_keys_of_some_locks_for_half_of_its_time() {
        let now = Instant::from_nanos(1 << 40);
        let until = now + TIME / 2;
        let mut current = Current { id: 7, until, locks: HashSet::new() };
        let keys: Vec<Key> =
            (0..=LOCKS).map(|index| Key::new(format!("key {index}")).unwrap()).collect();
        for key in &keys[..LOCKS - 1] {
            assert!(current.takes(&[key], now));
        }
        let [.., last, further] = &keys[..] else { panic!("many keys") };
        assert!(!current.takes(&[last, further], now), "there is room for one");
        assert!(current.takes(&[last], now) && !current.takes(&[further], now));
        // Their keys are there already.
        assert!(current.takes(&[&keys[0], last], now));
        assert!(!current.takes(&[&keys[0]], until));
    }
}
