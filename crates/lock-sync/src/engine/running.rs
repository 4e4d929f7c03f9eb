//! A request to the store that is under way.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use lock_core::{Acquire, Attempt, Claim, Error, ErrorKind, Instant, Released, Renewal, Ttl};
use tokio::runtime::Handle;

use super::Entry;
use crate::driver::{Command, Flight};

/// A request that reports its answer to the entry, whoever polls it to the end.
///
/// It is what makes a dropped future harmless. The task that waits for the answer polls the request
/// on its own thread, which spares two wake-ups of another one. If that task goes away, the request
/// moves to the driver, which polls it to its end: the answer is never lost, so a grant that nobody
/// wants is released, and released after it was made.
#[must_use = "a request does nothing unless polled"]
pub(crate) struct Running {
    entry: Arc<Entry>,
    /// The mutex is never locked: it makes the futures that hold a request `Sync`.
    request: Option<Mutex<BoxFuture<'static, Answer>>>,
    kind: Kind,
    /// Whether the driver has it: then there is nobody left to take it over.
    adopted: bool,
    /// Whether it belongs to the driver's runtime, whoever polls it.
    on_driver: bool,
    _flight: Flight,
}

/// What must be reported if there never is an answer.
#[derive(Clone)]
enum Kind {
    Attempt,
    Renew(Claim, Instant),
    Release,
    Forget,
}

#[derive(Clone)]
enum Answer {
    Attempt(Result<Attempt, Error>),
    Renew(Renewal),
    Release(Result<Released, Error>),
}

impl Running {
    pub(super) fn attempt(entry: &Arc<Entry>, request: Acquire) -> Self {
        let backend = Arc::clone(&entry.shared.backend);
        Self::new(entry, Kind::Attempt, async move {
            Answer::Attempt(backend.try_acquire(&request).await)
        })
    }

    pub(super) fn renew(entry: &Arc<Entry>, claim: Claim, ttl: Ttl) -> Self {
        let backend = Arc::clone(&entry.shared.backend);
        let kind = Kind::Renew(claim.clone(), entry.shared.clock.now());
        Self::new(entry, kind, async move { Answer::Renew(backend.renew(&claim, ttl).await) })
    }

    pub(super) fn release(entry: &Arc<Entry>, claim: Claim) -> Self {
        Self::giving_up(entry, Kind::Release, claim)
    }

    pub(super) fn forget(entry: &Arc<Entry>, claim: Claim) -> Self {
        Self::giving_up(entry, Kind::Forget, claim)
    }

    fn giving_up(entry: &Arc<Entry>, kind: Kind, claim: Claim) -> Self {
        let backend = Arc::clone(&entry.shared.backend);
        Self::new(entry, kind, async move { Answer::Release(backend.release(&claim).await) })
    }

    fn new(
        entry: &Arc<Entry>,
        kind: Kind,
        request: impl Future<Output = Answer> + Send + 'static,
    ) -> Self {
        Self {
            entry: Arc::clone(entry),
            request: Some(Mutex::new(Box::pin(request))),
            kind,
            adopted: false,
            on_driver: false,
            _flight: entry.shared.flights.begin(),
        }
    }

    /// Lets the request live on the driver's runtime, for a caller that blocks its thread: there may
    /// be nobody else to drive the runtime that it belongs to.
    pub(super) fn on_driver(mut self) -> Self {
        self.on_driver = true;
        self
    }

    /// Runs the request to its end: the driver's way.
    ///
    /// A backend bounds its requests itself. One that does not, or cannot because the runtime that the
    /// request began on is blocked, must not block the key for ever: after one lease there is nothing
    /// left that the answer could be good for.
    pub(crate) async fn run(mut self) {
        self.adopted = true;
        let limit = self.entry.shared.policy.ttl.duration();
        let answered = poll_fn(|context| self.poll(context).map(drop));
        if tokio::time::timeout(limit, answered).await.is_err() {
            self.request = None;
            let why = format!("no answer within {limit:?}");
            self.report(self.kind.failed(ErrorKind::Timeout, why));
        }
    }

    /// Gives up on a request that nobody will ever poll again: its outcome stays unknown.
    pub(crate) fn abandon(mut self) {
        self.adopted = true;
    }

    /// Polls the request. Once it is ready the entry knows the answer; that to a release is returned
    /// as well.
    ///
    /// Whatever the backend spawns or sleeps on belongs to the runtime of the polling task, where
    /// the answer then arrives without waking another thread; outside any runtime, to the driver's.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Released, Error>>> {
        let Some(request) = &mut self.request else { return Poll::Ready(None) };
        let request = request.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut();
        let answer = {
            let shared = &self.entry.shared;
            let elsewhere = self.on_driver || Handle::try_current().is_err();
            let _runtime = shared.runtime().filter(|_| elsewhere).map(Handle::enter);
            match catch_unwind(AssertUnwindSafe(|| request.poll(context))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(answer)) => answer,
                // A backend that panics must not take the lock with it.
                Err(panic) => self.kind.failed(ErrorKind::Other, panic_message(&*panic)),
            }
        };
        self.request = None;
        Poll::Ready(self.report(answer))
    }

    fn report(&self, answer: Answer) -> Option<Result<Released, Error>> {
        match (answer, &self.kind) {
            (Answer::Attempt(result), _) => self.entry.attempt_done(result),
            (Answer::Renew(renewal), Kind::Renew(claim, sent)) => {
                self.entry.renew_done(claim, *sent, renewal);
            }
            (Answer::Release(result), Kind::Release) => {
                self.entry.release_done(result.clone());
                return Some(result);
            }
            _ => {}
        }
        None
    }
}

impl Kind {
    fn failed(&self, kind: ErrorKind, why: String) -> Answer {
        let error = Error::new(kind, why);
        match self {
            Self::Attempt => Answer::Attempt(Err(error)),
            Self::Renew(..) => Answer::Renew(Renewal::Unknown(error)),
            Self::Release | Self::Forget => Answer::Release(Err(error)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        if !self.adopted {
            let heir = Self {
                entry: Arc::clone(&self.entry),
                request: Some(request),
                kind: self.kind.clone(),
                adopted: false,
                on_driver: self.on_driver,
                _flight: self.entry.shared.flights.begin(),
            };
            self.entry.shared.send(Command::Run(heir));
        } else {
            // The driver's runtime is gone: the lease ends by itself.
            drop(request);
            let why = "the runtime of the driver has stopped".into();
            self.report(self.kind.failed(ErrorKind::ShuttingDown, why));
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("the backend panicked: {message}")
}
