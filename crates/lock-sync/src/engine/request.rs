//! When a request to the store is due.

use std::sync::Arc;

use lock_core::{Claim, Error, Instant};

use super::timing::{BACKOFF, pause};

/// A request to the store: due at some instant, or under way.
#[derive(Debug)]
pub(super) struct Request {
    /// The request is under way.
    pub(super) sent: bool,
    /// When to send the request, or to repeat it after the one under way. For a release under way: when its answer is
    /// overdue.
    pub(super) at: Instant,
    /// The request may leave a little early, together with others.
    pub(super) relaxed: bool,
    /// The store did not answer the last request.
    pub(super) outage: Option<Outage>,
}

impl Request {
    pub(super) fn new(at: Instant) -> Self {
        Self { sent: false, at, relaxed: false, outage: None }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.sent && self.at <= now
    }

    /// Whether the request has failed and waits to be repeated.
    pub(super) fn is_failing(&self) -> bool {
        self.outage.is_some() && !self.sent
    }

    /// Notes that the request goes out.
    pub(super) fn send(&mut self) {
        (self.sent, self.at, self.relaxed) = (true, Instant::FAR_FUTURE, false);
    }

    /// Makes the request due at this instant at the latest.
    pub(super) fn by(&mut self, at: Instant, relaxed: bool) {
        if at < self.at {
            (self.at, self.relaxed) = (at, relaxed);
        }
    }

    /// The request has failed: it is due again after a pause. `errors` gets a copy of the error, so that an outage that
    /// ends does not drop the last one: see [`Machine::end`](super::machine::Machine::end). Returns since when the
    /// store has been silent. A store that says when it is ready is not silent.
    pub(super) fn fail(
        &mut self,
        now: Instant,
        error: &Error,
        claim: &Claim,
        errors: &mut Vec<Arc<Error>>,
    ) -> Instant {
        let error = Arc::new(error.clone());
        errors.push(Arc::clone(&error));
        let before = self.outage.take();
        let tries = before.as_ref().map_or(0, |outage| outage.tries + 1);
        let silent = before.filter(|it| !it.names_its_end() && error.retry_after().is_none());
        let since = silent.map_or(now, |outage| outage.since);
        (self.sent, self.at, self.relaxed) = (false, now + pause(BACKOFF, tries, claim), false);
        self.outage = Some(Outage { since, error, tries, told: false });
        since
    }
}

/// A time in which the store answers a request with errors, or not at all.
#[derive(Debug)]
pub(super) struct Outage {
    pub(super) since: Instant,
    pub(super) error: Arc<Error>,
    tries: u32,
    /// The waiters were told of the last failure, because the outage has lasted too long. Later waiters hear of the
    /// next failure.
    pub(super) told: bool,
}

impl Outage {
    /// Whether the store says when it is ready.
    fn names_its_end(&self) -> bool {
        self.error.retry_after().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{ErrorKind, Key, OwnerToken};

    use super::*;

    #[test]
    fn a_store_that_says_when_it_is_ready_is_not_silent() {
        let claim =
            Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes(*b"0123456789abcdef"));
        let (mut request, mut errors) = (Request::new(Instant::from_nanos(0)), Vec::new());
        let silence = Error::new(ErrorKind::Timeout, "no answer");
        let told = Error::not_before(Duration::from_secs(9), "it sits out");
        let mut fail = |at: u64, error: &Error| {
            let since = request.fail(Instant::from_nanos(at), error, &claim, &mut errors);
            (since.as_nanos(), request.outage.as_ref().unwrap().tries)
        };
        assert_eq!([fail(5, &silence), fail(6, &silence)], [(5, 0), (5, 1)]);
        assert_eq!([fail(7, &told), fail(8, &told)], [(7, 2), (8, 3)]);
        assert_eq!([fail(9, &silence), fail(10, &silence)], [(9, 4), (9, 5)]);
    }
}
