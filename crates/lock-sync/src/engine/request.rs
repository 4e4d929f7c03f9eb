//! When a request to the store is due.

use std::sync::Arc;

use lock_core::{Claim, Error, Instant};

use super::timing::{BACKOFF, pause};

/// A request to the store: due at some instant, or under way.
#[derive(Debug)]
pub(super) struct Request {
    /// The request is under way.
    pub(super) sent: bool,
    /// When to send the request, or to repeat it after the one under way.
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
    /// ends does not drop the last one: see [`Machine::end`](super::machine::Machine::end).
    pub(super) fn fail(
        &mut self,
        now: Instant,
        error: &Error,
        claim: &Claim,
        errors: &mut Vec<Arc<Error>>,
    ) -> Instant {
        let error = Arc::new(error.clone());
        errors.push(Arc::clone(&error));
        let before = self.outage.take().map(|outage| (outage.since, outage.tries + 1));
        let (since, tries) = before.unwrap_or((now, 0));
        (self.sent, self.at, self.relaxed) = (false, now + pause(BACKOFF, tries, claim), false);
        self.outage = Some(Outage { since, error, tries });
        since
    }
}

/// A time in which the store answers a request with errors, or not at all.
#[derive(Debug)]
pub(super) struct Outage {
    since: Instant,
    pub(super) error: Arc<Error>,
    tries: u32,
}
