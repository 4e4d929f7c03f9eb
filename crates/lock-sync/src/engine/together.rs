//! One request for leases of several keys.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use lock_core::{Acquire, AcquireOutcome, Error, ErrorKind};

use super::driver::Flight;
use super::running::{Asks, panic_message};
use super::shared::Shared;
use super::timing::within;
use crate::sync::atomic::{AtomicBool, Ordering};

/// One request for leases of several keys.
///
/// The driver runs it from the start, so that its answer reaches every key even if the waiting task goes away.
pub(crate) struct Together<E: Asks> {
    shared: Arc<Shared<E>>,
    asked: Asked<E>,
    unable: Arc<AtomicBool>,
    _flight: Flight,
}

pub(super) type Asked<E> = Vec<(Arc<E>, Acquire)>;

impl<E: Asks> Together<E> {
    /// Sets `unable` if the store cannot, or does not want to, grant these keys in one step, or if the backend panics.
    pub(super) fn new(shared: &Arc<Shared<E>>, asked: Asked<E>, unable: &Arc<AtomicBool>) -> Self {
        let (shared, unable) = (Arc::clone(shared), Arc::clone(unable));
        Self { _flight: shared.flights.begin(), shared, asked, unable }
    }

    /// Runs the request to its end, for at most the length of a lease: after that, no answer is of use.
    pub(crate) async fn run(mut self) {
        let requests: Vec<_> = self.asked.iter().map(|(_, request)| request.clone()).collect();
        let ttls = self.asked.iter().map(|(entry, _)| entry.policy().ttl.duration());
        let limit = ttls.max().unwrap_or_default();
        let backend = Arc::clone(&self.shared.backend);
        let request = AssertUnwindSafe(backend.try_acquire_all(&requests)).catch_unwind();
        let answer = match within(limit, request).await {
            Some(Ok(answer)) => answer,
            // A backend that panics must not take the locks with it. It may have granted them.
            Some(Err(panic)) => {
                self.unable.store(true, Ordering::Release);
                Err(Error::new(ErrorKind::NotReady, panic_message(&*panic)))
            }
            None => Err(Error::new(ErrorKind::Timeout, format!("no answer within {limit:?}"))),
        };
        self.report(answer);
    }

    fn report(&mut self, answer: Result<Option<Vec<AcquireOutcome>>, Error>) {
        let asked = std::mem::take(&mut self.asked);
        match answer {
            Ok(Some(attempts)) if attempts.len() == asked.len() => {
                for ((entry, request), attempt) in asked.into_iter().zip(attempts) {
                    let answer = Ok(free_at_once(attempt));
                    entry.event(|machine| machine.attempt_done(&request.claim, &answer));
                }
            }
            // The store may have granted all of them: each key finds out for itself.
            Err(error) if error.is_retryable() => {
                let failed = Err(error);
                for (entry, request) in asked {
                    entry.event(|machine| machine.attempt_done(&request.claim, &failed));
                }
            }
            // The store has granted nothing. A caller that waits for only one of the keys must not get this error,
            // because that key may not be the cause.
            Ok(_) | Err(_) => {
                self.unable.store(true, Ordering::Release);
                refuse(asked);
            }
        }
    }
}

impl<E: Asks> Drop for Together<E> {
    fn drop(&mut self) {
        if !self.asked.is_empty() {
            // The leases, if there are any, end by themselves.
            let why = "the runtime of the driver has stopped";
            self.report(Err(Error::new(ErrorKind::ShuttingDown, why)));
        }
    }
}

/// Takes back requests that were not sent.
pub(super) fn refuse(asked: Asked<impl Asks>) {
    for (entry, request) in asked {
        let free = Ok(free_at_once(AcquireOutcome::Busy { retry_after: None }));
        entry.event(|machine| machine.attempt_done(&request.claim, &free));
    }
}

/// A key that was refused without a time may be free, so other waiters for it in this process ask at once.
fn free_at_once(attempt: AcquireOutcome) -> AcquireOutcome {
    match attempt {
        AcquireOutcome::Busy { retry_after: None } => {
            AcquireOutcome::Busy { retry_after: Some(Duration::ZERO) }
        }
        answer => answer,
    }
}
