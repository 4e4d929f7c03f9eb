//! Which leases could not be renewed at the last try, and when an outage of the store begins and ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lock_core::Key;
use lock_core::observer::{LeaseRenewed, RenewalOutcome};

/// What a renewal says about the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The first renewal has failed.
    Begun,
    /// A renewal has succeeded, and no lease is left whose last renewal failed.
    Over {
        /// How long the outage lasted.
        after: Duration,
    },
}

/// For how long a renewal may be under way after its lease was lost.
const UNDER_WAY: Duration = Duration::from_secs(60);

/// The leases whose last renewal failed.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// Whether there are such leases: without them, the end of a hold costs one load.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Until when each of the leases may live. No event tells of the end of a lease that has no holder.
    failing: HashMap<Key, Instant>,
    /// When leases were lost a short time ago. A renewal that was sent before may fail after the loss.
    lost: HashMap<Key, Instant>,
    since: Option<Instant>,
}

impl Outage {
    /// A renewal has its outcome. Returns the news, and how many leases fail now.
    pub(crate) fn renewed(&self, event: &LeaseRenewed<'_>) -> (Option<News>, usize) {
        self.change(|state, now| match event.outcome {
            RenewalOutcome::Renewed | RenewalOutcome::Held => state.succeeded(event.key, now),
            RenewalOutcome::Failed(_) => {
                let was_lost =
                    state.lost.get(event.key).is_some_and(|&lost| lost + event.took >= now);
                if was_lost { None } else { state.failed(event.key, now, event.ttl) }
            }
            _ => state.gone(event.key),
        })
    }

    /// A lease is lost. Returns how many leases still fail.
    pub(crate) fn lost(&self, key: &Key) -> usize {
        let change = |state: &mut State, now| {
            state.lost.insert(key.clone(), now);
            state.gone(key)
        };
        self.change(change).1
    }

    /// A hold has ended. Returns how many leases still fail, if that number has changed.
    #[inline]
    pub(crate) fn gone(&self, key: &Key) -> Option<usize> {
        self.any.load(Ordering::Relaxed).then(|| self.change(|state, _| state.gone(key)).1)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut State, Instant) -> Option<News>,
    ) -> (Option<News>, usize) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failing.retain(|_, until| *until > now);
        state.lost.retain(|_, lost| *lost + UNDER_WAY > now);
        let news = change(&mut state, now);
        self.any.store(!state.failing.is_empty(), Ordering::Relaxed);
        (news, state.failing.len())
    }
}

impl State {
    fn failed(&mut self, key: &Key, now: Instant, left: Duration) -> Option<News> {
        self.failing.insert(key.clone(), now + left);
        let is_new = self.since.is_none();
        self.since.get_or_insert(now);
        is_new.then_some(News::Begun)
    }

    fn succeeded(&mut self, key: &Key, now: Instant) -> Option<News> {
        self.failing.remove(key);
        if !self.failing.is_empty() {
            return None;
        }
        self.since.take().map(|since| News::Over { after: now - since })
    }

    fn gone(&mut self, key: &Key) -> Option<News> {
        self.failing.remove(key);
        None
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Error, ErrorKind};

    use super::*;

    const TTL: Duration = Duration::from_secs(3);

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn failed(outage: &Outage, key: &Key, ttl: Duration) -> (Option<News>, usize) {
        let error = Error::new(ErrorKind::Timeout, "no answer");
        let outcome = RenewalOutcome::Failed(&error);
        outage.renewed(&LeaseRenewed { key, outcome, took: Duration::ZERO, ttl })
    }

    fn renewed(outage: &Outage, key: &Key) -> (Option<News>, usize) {
        let outcome = RenewalOutcome::Renewed;
        outage.renewed(&LeaseRenewed { key, outcome, took: Duration::ZERO, ttl: TTL })
    }

    #[test]
    fn an_outage_ends_with_the_first_success_after_the_last_failing_lease() {
        let (outage, [a, b, c]) = (Outage::default(), ["a", "b", "c"].map(key));
        assert_eq!(renewed(&outage, &a), (None, 0));
        assert_eq!(failed(&outage, &a, TTL), (Some(News::Begun), 1));
        assert_eq!(failed(&outage, &b, TTL), (None, 2));
        assert_eq!(renewed(&outage, &a), (None, 1));
        // The lost lease does not fail any more. But that does not mean that the store answers.
        assert_eq!(outage.gone(&b), Some(0));
        assert_eq!(failed(&outage, &c, TTL), (None, 1));
        assert!(matches!(renewed(&outage, &c), (Some(News::Over { .. }), 0)));
        assert_eq!(outage.gone(&c), None);
    }

    #[test]
    fn a_renewal_that_fails_after_its_lease_was_lost_is_no_news() {
        let (outage, a) = (Outage::default(), key("a"));
        assert_eq!(outage.lost(&a), 0);
        let error = Error::new(ErrorKind::Timeout, "no answer");
        let of = |took| LeaseRenewed {
            key: &a,
            outcome: RenewalOutcome::Failed(&error),
            took,
            ttl: TTL,
        };
        assert_eq!(outage.renewed(&of(TTL)), (None, 0));
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(outage.renewed(&of(Duration::ZERO)), (Some(News::Begun), 1), "a new lease");
    }

    #[test]
    fn a_lease_without_a_holder_is_forgotten_when_it_is_over() {
        let (outage, [a, b]) = (Outage::default(), ["a", "b"].map(key));
        failed(&outage, &a, Duration::ZERO);
        assert_eq!(failed(&outage, &b, TTL), (None, 1));
    }
}
