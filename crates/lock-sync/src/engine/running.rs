//! A request to the store that is under way.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use lock_core::{
    Acquire, Attempt, Backend, Claim, Convert, Error, ErrorKind, Instant, PermitBackend, Released,
    Renew, Renewal,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::command::Command;
use super::driver::Flight;
use super::machine::Ending;
use super::queue::WaiterId;
use super::{Denial, Entry, Ticket};

/// A request that reports its answer to the entry, whoever polls it to the end.
///
/// It is what makes a dropped future harmless. The task that waits for the answer polls the request
/// on its own thread, which spares two wake-ups of another one. If that task goes away, the request
/// moves to the driver, which sees it to its end: a grant that nobody wants is released, and released
/// after it was made.
#[must_use = "a request does nothing unless polled"]
pub(crate) struct Running {
    entry: Arc<Entry>,
    verb: Verb,
    /// The mutex is never locked: it makes the futures that hold a request `Sync`.
    request: Option<Mutex<Request>>,
    home: Home,
    /// Whether the driver has it: then there is nobody left to take it over.
    adopted: bool,
    _flight: Flight,
}

/// The runtime to which everything belongs that the backend spawns or sleeps on for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// That of the task that asks, where the answer arrives without waking another thread. The
    /// driver's, if that task has none.
    Asker,
    Driver,
}

#[derive(Clone)]
enum Verb {
    Attempt(Acquire),
    /// When it was sent, and how long its answer may take.
    Renew(Renew, Instant, Duration),
    /// How long its answer may take.
    Convert(Convert, Duration),
    Release(Claim, Option<Box<Acquire>>),
    /// With permits that shall not come back.
    Forget(Claim, Arc<dyn PermitBackend>),
}

enum Answer {
    Attempt(Result<Attempt, Error>),
    Renew(Renewal),
    Release(Result<(Released, Option<Attempt>), Error>),
}

type Request = BoxFuture<'static, Answer>;

/// How long the driver waits for the answer to a request that it took over from a task. If the task's
/// runtime is alive it takes no longer than the task would have waited.
const GRACE: Duration = Duration::from_millis(5);

impl Running {
    pub(super) fn attempt(entry: &Arc<Entry>, request: Acquire, home: Home) -> Self {
        Self::new(entry, Verb::Attempt(request), home)
    }

    pub(super) fn renew(entry: &Arc<Entry>, request: Renew, limit: Duration) -> Self {
        let sent = entry.shared.clock.now();
        Self::new(entry, Verb::Renew(request, sent, limit), Home::Driver)
    }

    pub(super) fn convert(entry: &Arc<Entry>, request: Convert, limit: Duration) -> Self {
        Self::new(entry, Verb::Convert(request, limit), Home::Driver)
    }

    /// Releases a claim, and asks for a place in the queue in its stead.
    pub(super) fn release(entry: &Arc<Entry>, ending: Ending, home: Home) -> Self {
        let Ending { claim, next, forget } = ending;
        let verb = match entry.shared.counting.get().filter(|_| forget) {
            Some(backend) => Verb::Forget(claim, Arc::clone(backend)),
            None => Verb::Release(claim, next.map(Box::new)),
        };
        Self::new(entry, verb, home)
    }

    fn new(entry: &Arc<Entry>, verb: Verb, home: Home) -> Self {
        Self {
            request: Some(Mutex::new(verb.send(Arc::clone(&entry.shared.backend)))),
            entry: Arc::clone(entry),
            verb,
            home,
            adopted: false,
            _flight: entry.shared.flights.begin(),
        }
    }

    /// Polls the request. Once it is ready the entry knows the answer; that to a release is returned
    /// as well.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Released, Error>>> {
        if self.request.is_none() {
            return Poll::Ready(None);
        }
        let answer = ready!(self.poll_request(context));
        Poll::Ready(self.report(answer))
    }

    /// Polls the request of a waiter whose own task this is. Once it is ready the entry knows the answer. Returns what
    /// became of the waiter, if anything did.
    pub(super) fn poll_for(
        &mut self,
        id: WaiterId,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Ticket, Denial>>> {
        if self.request.is_none() {
            return Poll::Ready(None);
        }
        match (ready!(self.poll_request(context)), &self.verb) {
            (Answer::Attempt(result), Verb::Attempt(request)) => {
                Poll::Ready(self.entry.answered(id, &request.claim, result))
            }
            (answer, _) => {
                self.report(answer);
                Poll::Ready(None)
            }
        }
    }

    /// What the request comes to, of which the entry is still to be told.
    fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        let Some(request) = &mut self.request else { return Poll::Pending };
        let request = request.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut();
        let elsewhere = self.home == Home::Driver || Handle::try_current().is_err();
        let runtime = self.entry.shared.runtime().filter(|_| elsewhere);
        let _entered = runtime.map(Handle::enter);
        let answer = match catch_unwind(AssertUnwindSafe(|| request.poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => answer,
            // A backend that panics must not take the lock with it.
            Err(panic) => self.verb.failed(ErrorKind::Other, panic_message(&*panic)),
        };
        self.request = None;
        Poll::Ready(answer)
    }

    /// Has the driver run the request to its end.
    pub(super) fn go_to_driver(self) {
        let shared = Arc::clone(&self.entry.shared);
        shared.send(Command::Run(self));
    }

    /// Runs the request to its end: the driver's way.
    ///
    /// A backend bounds its requests itself. One that does not must not block the key for ever: after
    /// one lease there is nothing left that the answer could be good for. A renewal is bounded more
    /// tightly, so that one that stalls leaves time for another.
    pub(crate) async fn run(mut self) {
        self.adopted = true;
        if self.home == Home::Asker {
            let first = timeout(GRACE, poll_fn(|context| self.poll_request(context))).await;
            if let Ok(answer) = first
                && answer.says_something()
            {
                self.report(answer);
                return;
            }
            self.ask_again();
        }
        let limit = self.limit();
        let answered = poll_fn(|context| self.poll(context).map(drop));
        if timeout(limit, answered).await.is_err() {
            self.request = None;
            let why = format!("no answer within {limit:?}");
            self.report(self.verb.failed(ErrorKind::Timeout, why));
        }
    }

    /// Gives up on a request that nobody will ever poll again: its outcome stays unknown.
    pub(crate) fn abandon(mut self) {
        self.adopted = true;
    }

    /// Asks once more, from the driver's runtime.
    ///
    /// The runtime that the request began on may be blocked, or driven by nobody since its task went
    /// away; then the answer is there but nobody reads it. Or it has gone, and the connection and the timers
    /// with it, which is no news of the store. Requests are idempotent by owner, so the second answer is as
    /// good as the first. That one may still come: see [`undo_late_grant`].
    fn ask_again(&mut self) {
        let again = self.verb.send(Arc::clone(&self.entry.shared.backend));
        self.home = Home::Driver;
        let first = self.request.replace(Mutex::new(again));
        let Verb::Attempt(request) = &self.verb else { return };
        match first {
            Some(first) => {
                let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
                let (entry, claim) = (Arc::clone(&self.entry), request.claim.clone());
                tokio::spawn(undo_late_grant(entry, claim, first, self.limit()));
            }
            // It has failed, and may still be carried out.
            None => self.entry.attempt_repeated(&request.claim),
        }
    }

    fn limit(&self) -> Duration {
        match &self.verb {
            Verb::Renew(_, _, limit) | Verb::Convert(_, limit) => *limit,
            _ => self.entry.shared.policy.ttl.duration(),
        }
    }

    fn report(&self, answer: Answer) -> Option<Result<Released, Error>> {
        match (answer, &self.verb) {
            (Answer::Attempt(result), Verb::Attempt(request)) => {
                self.entry.attempt_done(&request.claim, result);
            }
            (Answer::Attempt(result), Verb::Convert(request, _)) => {
                self.entry.convert_done(&request.request.claim, result);
            }
            (Answer::Renew(renewal), Verb::Renew(request, sent, _)) => {
                self.entry.renew_done(&request.claim, *sent, renewal);
            }
            (Answer::Release(result), Verb::Release(claim, _) | Verb::Forget(claim, _)) => {
                let released = result.as_ref().map(|(released, _)| *released);
                let released = released.map_err(Error::clone);
                self.entry.release_done(claim, result);
                return Some(released);
            }
            _ => {}
        }
        None
    }
}

impl Answer {
    /// Whether it is more than an error.
    fn says_something(&self) -> bool {
        match self {
            Self::Attempt(answer) => answer.is_ok(),
            Self::Renew(renewal) => !matches!(renewal, Renewal::Unknown(_)),
            Self::Release(answer) => answer.is_ok(),
        }
    }
}

impl Verb {
    fn send(&self, backend: Arc<dyn Backend>) -> Request {
        match self.clone() {
            Self::Attempt(request) => {
                Box::pin(async move { Answer::Attempt(backend.try_acquire(&request).await) })
            }
            Self::Convert(request, _) => {
                Box::pin(async move { Answer::Attempt(convert(&*backend, &request).await) })
            }
            Self::Renew(request, ..) => {
                Box::pin(async move { Answer::Renew(backend.renew(&request).await) })
            }
            Self::Forget(claim, counting) => Box::pin(async move {
                Answer::Release(counting.forget(&claim).await.map(|released| (released, None)))
            }),
            Self::Release(claim, None) => Box::pin(async move {
                Answer::Release(backend.release(&claim).await.map(|released| (released, None)))
            }),
            Self::Release(claim, Some(next)) => {
                Box::pin(async move { Answer::Release(backend.exchange(&claim, &next).await) })
            }
        }
    }

    /// What is reported if there never is an answer.
    fn failed(&self, kind: ErrorKind, why: String) -> Answer {
        let error = Error::new(kind, why);
        match self {
            Self::Attempt(_) | Self::Convert(..) => Answer::Attempt(Err(error)),
            Self::Renew(..) => Answer::Renew(Renewal::Unknown(error)),
            Self::Release(..) | Self::Forget(..) => Answer::Release(Err(error)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        if !self.adopted {
            let heir = Self {
                entry: Arc::clone(&self.entry),
                verb: self.verb.clone(),
                request: Some(request),
                home: self.home,
                adopted: false,
                _flight: self.entry.shared.flights.begin(),
            };
            self.entry.shared.send(Command::Run(heir));
        } else {
            // The driver's runtime is gone: the lease ends by itself.
            drop(request);
            let why = "the runtime of the driver has stopped".into();
            self.report(self.verb.failed(ErrorKind::ShuttingDown, why));
        }
    }
}

async fn convert(backend: &dyn Backend, request: &Convert) -> Result<Attempt, Error> {
    let none = || Error::new(ErrorKind::Unsupported, "the backend does not convert leases");
    backend.converter().ok_or_else(none)?.convert(request).await
}

/// Waits for the answer to a request that was asked again meanwhile. If it is a grant, it may have
/// been made after the second one was released.
async fn undo_late_grant(entry: Arc<Entry>, claim: Claim, first: Request, limit: Duration) {
    if let Ok(Answer::Attempt(Ok(Attempt::Granted(_)))) = timeout(limit, first).await {
        entry.forget_unless_known(claim);
    }
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("the backend panicked: {message}")
}
