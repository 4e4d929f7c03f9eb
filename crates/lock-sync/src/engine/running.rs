//! A request to the store that is under way.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures::FutureExt;
use lock_core::observer::{HandedOver, LeaseRenewed, RenewalOutcome};
use lock_core::{
    Acquire, Claim, Convert, Error, ErrorKind, Instant, Key, OwnerToken, Released, Renew, Renewal,
    Ttl,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::driver::Flight;
use super::machine::{AcquireAnswer, Denial, Ending, Machine, ReleaseAnswer, Ticket};
use super::policy::Policy;
use super::queue::WaiterId;
use super::shared::{Home, Keyed, Shared};
use super::timing::within;
use super::verb::{Answer, SentRequest, Verb};
use crate::foreign::survive;
use crate::sync::now;

/// The entry of one key, as far as its requests know it.
pub(crate) trait Asks: Keyed<Command: From<Running<Self>>> {
    fn shared(&self) -> &Arc<Shared<Self>>;

    fn key(&self) -> &Key;

    fn policy(&self) -> &Policy;

    /// The store has the lease of this owner back, and no other process waits. Returns `false` if the machine has to hear
    /// of that in an event.
    fn came_back(&self, owner: OwnerToken) -> bool;

    /// Feeds an event to the machine, and carries out the pass.
    fn event<R>(self: &Arc<Self>, event: impl FnOnce(&mut Machine<Waker>) -> R) -> R;

    /// The store has answered the request of this waiter, and the waiter's task reports the answer. Returns the outcome
    /// of the waiter, if it has one.
    fn answered(
        self: &Arc<Self>,
        id: WaiterId,
        claim: &Claim,
        result: &AcquireAnswer,
    ) -> Option<Result<Ticket, Denial>>;
}

/// A request that reports its answer to the entry, whether a task or the driver polls it to the end.
///
/// It makes a dropped future harmless. The task that waits for the answer polls the request on its own thread,
/// which spares two wake-ups of another thread. If that task goes away, the request moves to the driver, which runs
/// it to its end. So a grant that no waiter wants is released, and only after the store has made it.
#[must_use = "a request does nothing unless polled"]
pub(crate) struct Running<E: Asks> {
    entry: Arc<E>,
    /// `None` once the request has ended, or another `Running` has taken it. The mutex is never locked: it makes the
    /// futures that hold a request `Sync`.
    request: Option<Mutex<SentRequest>>,
    home: Home,
    /// Whether the driver has the request, or has gone: then the request moves to no other place when it is dropped.
    adopted: bool,
    /// Whether other processes wait for the lease that this request ends.
    wanted: bool,
    _flight: Flight,
}

/// How long the driver waits for the answer to a request that it took over from a task, before it asks again. If the
/// task's runtime is alive, the answer takes no longer than it would have taken the task.
const GRACE: Duration = Duration::from_millis(5);

impl<E: Asks> Running<E> {
    pub(super) fn attempt(entry: &Arc<E>, request: Acquire, home: Home) -> Self {
        Self::new(entry, Verb::Attempt(request), home)
    }

    pub(super) fn renew(entry: &Arc<E>, request: Renew, limit: Duration) -> Self {
        let sent = now(entry.shared().clock);
        Self::new(entry, Verb::Renew(request, sent, limit), Home::Driver)
    }

    pub(super) fn convert(entry: &Arc<E>, request: Convert, limit: Duration) -> Self {
        Self::new(entry, Verb::Convert(request, limit), Home::Driver)
    }

    /// Releases a claim. If the ending has a next request, asks for a place in the store's queue in the same step.
    pub(super) fn release(entry: &Arc<E>, ending: Ending, home: Home) -> Self {
        let Ending { claim, other, next, forget, wanted } = ending;
        let verb = match entry.shared().counting.get().filter(|_| forget) {
            Some(backend) => Verb::Forget(claim, Arc::clone(backend)),
            None => Verb::Release(claim, other, next),
        };
        let mut running = Self::new(entry, verb, home);
        running.wanted = wanted;
        running
    }

    fn new(entry: &Arc<E>, verb: Verb, home: Home) -> Self {
        Self {
            request: Some(Mutex::new(verb.send(&entry.shared().backend))),
            entry: Arc::clone(entry),
            home,
            adopted: false,
            wanted: false,
            _flight: entry.shared().flights.begin(),
        }
    }

    /// Polls the request. Once it is ready, the entry knows the answer. The answer to a release is returned as well.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Released, Error>>> {
        if self.request.is_none() {
            return Poll::Ready(None);
        }
        let (answer, request) = ready!(self.poll_request(context));
        Poll::Ready(self.report(&answer, request.verb()))
    }

    /// Polls the request of a waiter, on the waiter's own task. Once it is ready, the entry knows the answer. Returns
    /// the outcome of the waiter, if it has one.
    pub(super) fn poll_for(
        &mut self,
        id: WaiterId,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Ticket, Denial>>> {
        if self.request.is_none() {
            return Poll::Ready(None);
        }
        let (answer, request) = ready!(self.poll_request(context));
        Poll::Ready(match (&answer, request.verb()) {
            (Answer::Attempt(result), Verb::Attempt(request)) => {
                self.entry.answered(id, &request.claim, result)
            }
            (answer, verb) => {
                self.report(answer, verb);
                None
            }
        })
    }

    /// Polls the request for its answer, without telling the entry. After the answer, this has no request any more.
    fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<(Answer, SentRequest)> {
        let Some(request) = &mut self.request else { return Poll::Pending };
        let request = request.get_mut().unwrap_or_else(PoisonError::into_inner);
        let elsewhere = self.home == Home::Driver || Handle::try_current().is_err();
        let runtime = self.entry.shared().runtime().filter(|_| elsewhere);
        let _entered = runtime.map(Handle::enter);
        let answer = match catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => answer,
            // A backend that panics must not take the lock with it. The waiters hear of the panic. The store may have
            // carried out every other request, so the process repeats it.
            Err(panic) => {
                let asks = matches!(request.verb(), Verb::Attempt(_));
                let kind = if asks { ErrorKind::Other } else { ErrorKind::NotReady };
                request.verb().failed(kind, panic_message(&*panic))
            }
        };
        self.take().map_or(Poll::Pending, |request| Poll::Ready((answer, request)))
    }

    fn take(&mut self) -> Option<SentRequest> {
        Some(self.request.take()?.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the driver run the request to its end.
    pub(super) fn go_to_driver(self) {
        let shared = Arc::clone(self.entry.shared());
        shared.send(self.into());
    }

    /// Runs the request to its end, on the driver.
    ///
    /// A backend limits the time of its requests itself. A backend that does not must not block the key for ever, so
    /// the driver limits the time to one lease: after that, no answer is of use. A renewal has a shorter limit, so
    /// that a stalled renewal leaves time for another.
    pub(crate) async fn run(mut self) {
        self.adopted = true;
        if self.home == Home::Asker {
            let first = timeout(GRACE, poll_fn(|context| self.poll_request(context))).await;
            if let Ok((answer, request)) = &first
                && answer.says_something()
            {
                self.report(answer, request.verb());
                return;
            }
            self.ask_again(first.ok().map(|(_, failed)| failed));
        }
        let limit = self.limit();
        if within(limit, poll_fn(|context| self.poll(context).map(drop))).await.is_none() {
            self.give_up(ErrorKind::Timeout, format!("no answer within {limit:?}"));
        }
    }

    /// Gives up on a request that will never be polled again. Its outcome stays unknown.
    pub(crate) fn abandon(mut self) {
        self.adopted = true;
    }

    /// Asks once more, from the driver's runtime.
    ///
    /// The runtime on which the request began may be blocked, or no thread may drive it since its task went away.
    /// Then the answer may have arrived without being read. Or that runtime has gone, with its connection and timers,
    /// and the resulting error says nothing about the store. Requests are idempotent by owner, so the second answer
    /// is as good as the first. The first answer may still come: see [`undo_late_answer`].
    fn ask_again(&mut self, failed: Option<SentRequest>) {
        let pending = self.take();
        let Some(first) = failed.as_ref().or(pending.as_ref()) else { return };
        let again = first.verb().clone().send(&self.entry.shared().backend);
        self.request = Some(Mutex::new(again));
        self.home = Home::Driver;
        let Verb::Attempt(request) = first.verb() else { return };
        let claim = request.claim.clone();
        self.entry.event(|machine| machine.attempt_repeated(&claim));
        if let Some(pending) = pending {
            let entry = Arc::clone(&self.entry);
            let flight = entry.shared().flights.begin();
            tokio::spawn(undo_late_answer(entry, claim, pending, self.limit(), flight));
        }
    }

    fn limit(&mut self) -> Duration {
        let ttl = self.entry.policy().ttl.duration();
        let request = self.request.as_mut().map(Mutex::get_mut);
        match request.map(|request| request.unwrap_or_else(PoisonError::into_inner).verb()) {
            Some(Verb::Renew(_, _, limit) | Verb::Convert(_, limit)) => *limit,
            _ => ttl,
        }
    }

    /// Drops the request, and reports that there is no answer.
    fn give_up(&mut self, kind: ErrorKind, why: String) {
        if let Some(request) = self.take() {
            let verb = request.verb().clone();
            drop(request);
            self.report(&verb.failed(kind, why), &verb);
        }
    }

    fn report(&self, answer: &Answer, verb: &Verb) -> Option<Result<Released, Error>> {
        let key = self.entry.key();
        // The machine borrows the answer, so that no error is dropped under its lock.
        match (answer, verb) {
            (Answer::Attempt(result), Verb::Attempt(request)) => {
                self.entry.event(|machine| machine.attempt_done(&request.claim, result));
            }
            (Answer::Attempt(result), Verb::Convert(request, _)) => {
                if let Err(error) = result {
                    survive(|| tracing::debug!(%key, %error, "a conversion failed"));
                }
                let claim = &request.request.claim;
                self.entry.event(|machine| machine.convert_done(claim, result));
            }
            (Answer::Renew(renewal), Verb::Renew(request, sent, _)) => {
                if let Renewal::Unknown(error) = renewal {
                    survive(|| tracing::debug!(%key, %error, "a renewal failed"));
                }
                self.entry.event(|machine| machine.renew_done(&request.claim, *sent, renewal));
                self.tell_renewal(renewal, *sent, request.ttl);
            }
            (Answer::Release(result), Verb::Release(claim, _, next)) => {
                return Some(self.report_release(claim, next.as_deref(), result));
            }
            (Answer::Release(result), Verb::Forget(claim, _)) => {
                return Some(self.report_release(claim, None, result));
            }
            _ => {}
        }
        None
    }

    fn report_release(
        &self,
        claim: &Claim,
        next: Option<&Acquire>,
        result: &ReleaseAnswer,
    ) -> Result<Released, Error> {
        if let Err(error) = result {
            let (key, retried) = (self.entry.key(), error.is_retryable());
            survive(|| tracing::warn!(%key, %error, retried, "a release failed"));
        }
        let quiet = matches!(result, Ok((Released::Freed { told: 0 }, None)));
        if !(quiet && self.entry.came_back(claim.owner)) {
            let next = next.map(|next| &next.claim);
            self.entry.event(|machine| machine.release_done(claim, next, result));
        }
        self.tell_hand_over(result);
        let released = result.as_ref().map(|(released, _)| *released);
        released.map_err(Error::clone)
    }

    fn tell_renewal(&self, renewal: &Renewal, sent: Instant, ttl: Ttl) {
        let shared = self.entry.shared();
        let outcome = match renewal {
            Renewal::Held => RenewalOutcome::Held,
            Renewal::Renewed { .. } => RenewalOutcome::Renewed,
            Renewal::Lost => RenewalOutcome::Lost,
            Renewal::Unknown(error) => RenewalOutcome::Failed(error),
            _ => return,
        };
        if !shared.observers.is_empty() {
            let took = now(shared.clock).saturating_duration_since(sent);
            let event = LeaseRenewed { key: self.entry.key(), outcome, took, ttl: ttl.duration() };
            shared.observers.tell(|observer| observer.lease_renewed(&event));
        }
    }

    /// The store has answered a release.
    fn tell_hand_over(&self, answer: &ReleaseAnswer) {
        if self.wanted && matches!(answer, Ok((Released::Freed { .. }, _))) {
            let event = HandedOver { key: self.entry.key() };
            self.entry.shared().observers.tell(|observer| observer.handed_over(&event));
        }
    }
}

impl<E: Asks> Drop for Running<E> {
    fn drop(&mut self) {
        if self.request.is_none() {
            return;
        }
        if !self.adopted {
            let heir = Self {
                entry: Arc::clone(&self.entry),
                request: self.request.take(),
                home: self.home,
                adopted: false,
                wanted: self.wanted,
                _flight: self.entry.shared().flights.begin(),
            };
            self.entry.shared().send(heir.into());
        } else {
            // The driver has gone: the lease ends by itself.
            let why = "the runtime of the driver has stopped".into();
            self.give_up(ErrorKind::ShuttingDown, why);
        }
    }
}

/// Waits for the answer to the first of two requests. The store may carry out the first one last, after the release. Then
/// its grant or its place goes back too.
async fn undo_late_answer(
    entry: Arc<impl Asks>,
    claim: Claim,
    mut first: SentRequest,
    limit: Duration,
    _flight: Flight,
) {
    let answer = poll_fn(|context| first.as_mut().poll(context));
    if let Some(Answer::Attempt(answer)) = within(limit, answer).await {
        entry.event(|machine| machine.refuse(&claim, &answer));
    }
}

/// The answer to a request that the process repeats. If the backend panics, the store may have carried out the request.
pub(super) async fn caught<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let panicked =
        |panic: Box<dyn Any + Send>| Err(Error::new(ErrorKind::NotReady, panic_message(&*panic)));
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(panicked)
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("the backend panicked: {message}")
}
