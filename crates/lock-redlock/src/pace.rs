//! How fast a node answers; pure.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Instant;

/// How often to ask a missing node, to find out whether it is back.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// What is known about the answers of one node.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Each unanswered request for which no caller waits any more has a clone.
    behind: Arc<()>,
    /// When the node last answered any request, or when the first of these requests was sent, if that was later.
    since: Instant,
    /// When the node was last asked although it was missing.
    looked: Instant,
    /// The round trip, smoothed; zero before the first answer.
    trip: Duration,
}

impl Pace {
    pub(crate) fn new() -> Self {
        let never = Instant::from_nanos(0);
        Self { behind: Arc::default(), since: never, looked: never, trip: Duration::ZERO }
    }

    /// The caller of a request no longer waits for the answer. The node owes the answer until the result is dropped.
    pub(crate) fn falls_behind(&mut self, asked: Instant) -> Arc<()> {
        if self.behind() == 0 {
            self.since = self.since.max(asked);
        }
        Arc::clone(&self.behind)
    }

    /// How many answers the node owes.
    pub(crate) fn behind(&self) -> usize {
        Arc::strong_count(&self.behind) - 1
    }

    /// The node has answered.
    pub(crate) fn answered(&mut self, sent: Instant, now: Instant) {
        self.since = now;
        let (took, before) = (now.saturating_duration_since(sent), self.trip);
        self.trip = if before.is_zero() { took } else { before - before / 8 + took / 8 };
    }

    /// How long an answer takes, on a smoothed average. `None` before the first answer.
    pub(crate) fn trip(&self) -> Option<Duration> {
        Some(self.trip).filter(|trip| !trip.is_zero())
    }

    /// Whether the node owes an answer, and has answered nothing for the time `after`. A node that is only the last of
    /// a majority to answer is not silent.
    pub(crate) fn is_silent(&self, now: Instant, after: Duration) -> bool {
        self.behind() > 0 && now > self.since + after
    }

    /// Whether it is time to ask a missing node again, because it may be back. Returns `true` once in each
    /// [`LOOK_AFTER`].
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now > self.looked + LOOK_AFTER;
        if is_due {
            self.looked = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_millis(millis)
    }

    #[test]
    fn a_node_is_silent_if_it_owes_an_answer_and_answers_nothing_else() {
        let (mut pace, after) = (Pace::new(), Duration::from_millis(10));
        assert!(!pace.is_silent(at(99), after));
        let [first, last] = [100, 105].map(|millis| pace.falls_behind(at(millis)));
        assert!(!pace.is_silent(at(110), after) && pace.is_silent(at(111), after));
        pace.answered(at(110), at(112));
        drop(first);
        assert!(!pace.is_silent(at(122), after) && pace.is_silent(at(123), after));
        drop(last);
        assert!(!pace.is_silent(at(200), after));
    }

    #[test]
    fn a_missing_node_is_asked_once_a_second() {
        let mut pace = Pace::new();
        let asked = (0..5_000).filter(|&millis| pace.is_due(at(millis))).count();
        assert_eq!(asked, 4);
    }

    #[test]
    fn a_round_trip_is_smoothed() {
        let mut pace = Pace::new();
        assert_eq!(pace.trip(), None);
        pace.answered(at(0), at(80));
        pace.answered(at(100), at(100));
        let trip = pace.trip().unwrap();
        assert!(trip > Duration::from_millis(69) && trip < Duration::from_millis(71), "{trip:?}");
    }
}
