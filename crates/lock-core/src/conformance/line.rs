//! Waiting in a store's queue.

use std::time::Duration;

use super::scene::{Client, granted, in_mode};
use super::verdict::{Check, Failure};
use crate::{
    Acquire, AcquireOutcome, Backend, Claim, Convert, Error, ErrorKind, Grant, Hint, Key, Mode,
    Released, Ttl,
};
use crate::{OwnerToken, Renew, Renewal, Watch};

/// A request with a place in the queue of its key, and the watch that tells of its grant.
pub(super) struct Waiter<'c, B, R = Acquire> {
    pub(super) client: &'c Client<B>,
    pub(super) request: R,
    pub(super) watch: Watch,
    /// When to ask again if no hint comes, as the store last said.
    pub(super) retry_after: Option<Duration>,
}

/// A request by a new owner that asks to be queued.
pub(super) fn queued(key: &Key, mode: Mode, ttl: Ttl) -> Check<Acquire> {
    Ok(Acquire::new(in_mode(key, mode)?, ttl).queued())
}

/// A request of a client: for a lease, or for the conversion of one.
pub(super) trait Request: Clone + Send + Sync {
    /// The claim that holds the key if the request is granted.
    fn claim(&self) -> &Claim;

    /// The capability that a backend lacks if it does not support the request.
    fn lacking(&self) -> String;

    fn send(
        &self,
        backend: &impl Backend,
    ) -> impl Future<Output = Result<AcquireOutcome, Error>> + Send;
}

impl Request for Acquire {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn lacking(&self) -> String {
        format!("this backend has no {:?}", self.claim.mode)
    }

    async fn send(&self, backend: &impl Backend) -> Result<AcquireOutcome, Error> {
        backend.try_acquire(self).await
    }
}

impl Request for Convert {
    fn claim(&self) -> &Claim {
        &self.request.claim
    }

    fn lacking(&self) -> String {
        let Self { from, request } = self;
        format!("this backend does not convert {from:?} to {:?}", request.claim.mode)
    }

    async fn send(&self, backend: &impl Backend) -> Result<AcquireOutcome, Error> {
        let none = || Error::new(ErrorKind::Unsupported, "the backend does not name its converter");
        backend.capabilities().converter().ok_or_else(none)?.convert(self).await
    }
}

impl<B: Backend> Client<B> {
    /// Watches the key and asks to be queued. `None` if the request gets no place.
    pub(super) async fn joins<R: Request>(&self, request: R) -> Check<Option<Waiter<'_, B, R>>> {
        let mut waiter = self.in_line(request).await?;
        match waiter.asks().await? {
            AcquireOutcome::Queued { .. } => Ok(Some(waiter)),
            AcquireOutcome::Busy { .. } => Ok(None),
            AcquireOutcome::Granted(_) => {
                let mode = waiter.claim().mode;
                Err(Failure::Broken(format!("{mode:?} was granted beside others")))
            }
        }
    }

    /// Gets a place in the queue; the law is not applicable to a backend that has none.
    pub(super) async fn waits<R: Request>(&self, request: R) -> Check<Waiter<'_, B, R>> {
        self.joins(request).await?.ok_or_else(no_queue)
    }

    /// Watches the key, but does not ask for it yet.
    pub(super) async fn in_line<R: Request>(&self, request: R) -> Check<Waiter<'_, B, R>> {
        let watch = self.watch(&request.claim().key).await?;
        Ok(Waiter { client: self, request, watch, retry_after: None })
    }

    /// Makes a request; the law is not applicable to a backend without such a mode.
    pub(super) async fn ask(&self, request: &impl Request) -> Check<AcquireOutcome> {
        match self.sends(request).await? {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(self.lacks(request, &error))
            }
            answer => Ok(answer?),
        }
    }

    /// Asks, in any mode, for a lease that must be granted.
    pub(super) async fn obtains(&self, claim: &Claim, ttl: Ttl) -> Check<Grant> {
        granted(self.ask(&Acquire::new(claim.clone(), ttl)).await?)
    }

    /// Asks, in any mode and without a queue, for a lease that must be refused.
    pub(super) async fn is_refused(&self, claim: &Claim, ttl: Ttl) -> Check {
        refused(self.ask(&Acquire::new(claim.clone(), ttl)).await?)
    }

    /// Asks for a lease that must be refused for this reason.
    pub(super) async fn fails(&self, request: &impl Request, kind: ErrorKind) -> Check<String> {
        match self.sends(request).await? {
            Err(error) if error.kind() == kind => Ok(error.to_string()),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(self.lacks(request, &error))
            }
            other => Err(Failure::Broken(format!("expected {kind:?}, got {other:?}"))),
        }
    }

    async fn sends(&self, request: &impl Request) -> Check<Result<AcquireOutcome, Error>> {
        self.bounded("a request", request.send(&self.backend)).await
    }

    /// Whether the backend grants leases in a mode at all.
    pub(super) async fn serves(&self, mode: Mode, ttl: Ttl) -> Check<bool> {
        let claim = in_mode(&Key::new(OwnerToken::generate()?.expose())?, mode)?;
        match self.try_acquire(&Acquire::new(claim.clone(), ttl)).await? {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            answer => {
                granted(answer?)?;
                self.freed(&claim).await?;
                Ok(true)
            }
        }
    }

    /// A mode or a conversion that the backend does not offer.
    pub(super) fn lacks(&self, request: &impl Request, error: &Error) -> Failure {
        let lack = format!("{}: {error}", request.lacking());
        if self.terms.promised { Failure::Broken(lack) } else { Failure::NotApplicable(lack) }
    }

    /// Renews a lease that must be held, and returns the answer.
    pub(super) async fn renews(&self, request: &Renew) -> Check<Renewal> {
        let renewal = self.bounded("renew", self.backend.renew(request)).await?;
        match renewal {
            Renewal::Renewed { .. } => Ok(renewal),
            other => Err(Failure::Broken(format!("expected a renewed lease, got {other:?}"))),
        }
    }
}

impl<B: Backend, R: Request> Waiter<'_, B, R> {
    pub(super) fn claim(&self) -> &Claim {
        self.request.claim()
    }

    /// Repeats the request.
    pub(super) async fn asks(&mut self) -> Check<AcquireOutcome> {
        let attempt = self.client.ask(&self.request).await?;
        if let AcquireOutcome::Queued { retry_after } = attempt {
            self.retry_after = retry_after;
        }
        Ok(attempt)
    }

    /// Repeats the request, which must still be in the queue.
    pub(super) async fn still_waits(&mut self) -> Check {
        match self.asks().await? {
            AcquireOutcome::Queued { .. } => Ok(()),
            other => Err(Failure::Broken(format!("it was not yet its turn, but it got {other:?}"))),
        }
    }

    /// Repeats the request, which must have been granted.
    pub(super) async fn claims(&mut self) -> Check<Grant> {
        granted(self.asks().await?)
    }

    /// Waits for the hint of the grant.
    pub(super) async fn hears_grant(&mut self) -> Check<Option<Grant>> {
        let mine = self.claim().owner;
        let is_it = |hint| match hint {
            Hint::Granted { owner, grant } if owner == mine => Some(grant),
            _ => None,
        };
        self.hears("a hint of the grant", is_it).await
    }

    /// Waits for the hint that the request is the first in the queue. Returns the time after which to ask.
    pub(super) async fn hears_next(&mut self) -> Check<Duration> {
        let mine = self.claim().owner;
        let is_it = |hint| match hint {
            Hint::Next { owner, after } if owner == mine => Some(after),
            _ => None,
        };
        self.hears("a hint that it is the first in the queue", is_it).await
    }

    /// Waits for a hint that `is_it` recognizes.
    async fn hears<T>(&mut self, what: &str, is_it: impl Fn(Hint) -> Option<T>) -> Check<T> {
        let hint = async {
            loop {
                let Some(hint) = self.watch.next().await else {
                    return Err(Failure::Broken("the watch ended".into()));
                };
                if let Some(found) = is_it(hint) {
                    return Ok(found);
                }
            }
        };
        self.client.bounded(what, hint).await?
    }

    /// Waits for the turn of the request as a user does: asks again on every hint, and when the time comes.
    pub(super) async fn arrives(&mut self) -> Check<Grant> {
        let client = self.client;
        client
            .bounded("its turn in the queue", async {
                loop {
                    match self.asks().await? {
                        AcquireOutcome::Granted(grant) => return Ok(grant),
                        AcquireOutcome::Busy { .. } => return Err(no_queue()),
                        AcquireOutcome::Queued { .. } => {}
                    }
                    // Without a time, only a hint can end the wait.
                    let time = self.retry_after.unwrap_or(Duration::MAX);
                    if let Ok(None) = tokio::time::timeout(time, self.watch.next()).await {
                        return Err(Failure::Broken("the watch ended".into()));
                    }
                }
            })
            .await?
    }

    /// Gives up the place, or a grant that the client has not heard of yet. Returns whether it was a grant.
    pub(super) async fn leaves(self) -> Check<bool> {
        match self.client.release(self.claim()).await?? {
            Released::Freed { .. } => Ok(true),
            Released::NotHeld => Ok(false),
        }
    }
}

fn no_queue() -> Failure {
    Failure::NotApplicable("this backend has no queue".into())
}

/// Checks that an answer is a refusal without a place in the queue.
pub(super) fn refused(attempt: AcquireOutcome) -> Check {
    match attempt {
        AcquireOutcome::Busy { .. } => Ok(()),
        other => Err(Failure::Broken(format!("expected a refusal, got {other:?}"))),
    }
}
