//! When the server of a connection was last looked at in full.
//!
//! A vote compares the record of the server with the expected one. That this run of the server made the record, under
//! its present history, needs `INFO`, which costs more than the vote. A connection leads to one run of one server, so
//! only the history can change while it lasts: the server follows another one, takes over the data of that server, and
//! becomes a master again. [`WINDOW`] is shorter than that.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::Instant;

/// How often a ballot looks at the server in full, at most.
const EVERY: Duration = Duration::from_millis(5);

/// For how long after a look was sent an answer counts without another look.
const WINDOW: Duration = Duration::from_millis(50);

/// The looks at the server of one connection.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the last look was sent.
    asked: Option<Instant>,
    /// The record that the last look found, and when that look was sent.
    passed: Option<(Box<str>, Instant)>,
}

impl Checks {
    /// Whether a ballot that expects this record and is sent now has to look in full.
    pub(crate) fn is_due(&self, record: &str, now: Instant) -> bool {
        let mut state = self.lock();
        // While a look is under way, the one before is good enough.
        let within = if state.asked.is_some_and(|asked| is_within(EVERY, asked, now)) {
            WINDOW / 2
        } else {
            EVERY
        };
        let is_due = !state.is_known(record, within, now);
        if is_due {
            state.asked = Some(now);
        }
        is_due
    }

    /// Whether an answer that has come now counts although its request did not look in full.
    pub(crate) fn covers(&self, record: &str, now: Instant) -> bool {
        self.lock().is_known(record, WINDOW, now)
    }

    /// A look that was sent at this time has found this record.
    pub(crate) fn passed(&self, record: &str, sent: Instant) {
        match &mut self.lock().passed {
            Some((known, at)) if **known == *record => *at = sent.max(*at),
            passed => *passed = Some((record.into(), sent)),
        }
    }

    /// The record is not the expected one.
    pub(crate) fn failed(&self) {
        *self.lock() = State::default();
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_known(&self, record: &str, within: Duration, now: Instant) -> bool {
        self.passed
            .as_ref()
            .is_some_and(|(known, at)| **known == *record && is_within(within, *at, now))
    }
}

fn is_within(time: Duration, since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) <= time
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_new_connection_is_looked_at_first() {
        let checks = Checks::default();
        assert!(checks.is_due("a", at(100)));
        assert!(!checks.covers("a", at(100)));
        // Until the look has been answered, every ballot looks.
        assert!(checks.is_due("a", at(101)));
        checks.passed("a", at(100));
        assert!(!checks.is_due("a", at(105)));
        assert!(checks.is_due("b", at(105)), "it was found to have another record");
    }

    #[test]
    fn one_ballot_looks_in_five_milliseconds_however_long_the_answer_takes() {
        let checks = Checks::default();
        checks.passed("a", at(100));
        let looks = (101..=125).filter(|&now| checks.is_due("a", at(now))).count();
        assert_eq!(looks, 4);
        // The look is not answered. Only the last one that was answered counts.
        assert!(checks.is_due("a", at(126)) && checks.is_due("a", at(127)));
        assert!(checks.covers("a", at(150)) && !checks.covers("a", at(151)));
    }

    #[test]
    fn a_late_answer_makes_no_look_older() {
        let checks = Checks::default();
        checks.passed("a", at(120));
        checks.passed("a", at(100));
        assert!(checks.covers("a", at(170)));
        checks.failed();
        assert!(checks.is_due("a", at(121)) && !checks.covers("a", at(121)));
    }
}
