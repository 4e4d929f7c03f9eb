//! How long a connection has answered no call. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// After so long without any answer, a connection is of no more use.
const LONGEST: Duration = Duration::from_millis(1100);

/// The time in which calls waited for answers, and the connection gave none.
///
/// One call that the server is slow to answer says little if other calls are answered meanwhile. The time in which no
/// call waits does not count.
#[derive(Debug)]
pub(super) struct Silence {
    length: Duration,
    /// What was before this instant is counted already, or was broken by an answer.
    until: Instant,
}

impl Silence {
    pub(super) fn new(now: Instant) -> Self {
        Self { length: Duration::ZERO, until: now }
    }

    /// An answer has come.
    pub(super) fn end(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// A call that was sent then has ended without an answer. Returns whether the connection has been silent for too
    /// long.
    pub(super) fn add(&mut self, sent: Instant, now: Instant) -> bool {
        self.length += now.saturating_duration_since(sent.max(self.until));
        self.until = self.until.max(now);
        self.length >= LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_adds_up_until_an_answer_comes() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut silence = Silence::new(start);
        assert!(!silence.add(at(0), at(600)));
        // The time of two calls at once counts once, and the time without a call does not count.
        assert!(!silence.add(at(100), at(700)));
        assert!(!silence.add(at(9000), at(9300)));
        assert!(silence.add(at(9800), at(9900)));
        silence.end(at(9950));
        // Such a call was waiting while another one was answered.
        assert!(!silence.add(at(9000), at(11_000)));
        assert!(silence.add(at(10_900), at(11_050)));
    }
}
