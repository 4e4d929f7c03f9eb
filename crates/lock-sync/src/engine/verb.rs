//! What a request asks of the store, and its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::{
    Acquire, Backend, Claim, Convert, Error, ErrorKind, Instant, Mode, PermitBackend, Released,
    Renew, Renewal,
};
use pin_project::pin_project;

use super::machine::{AcquireAnswer, ReleaseAnswer};

/// What a request asks.
#[derive(Clone)]
pub(super) enum Verb {
    Attempt(Acquire),
    /// With the instant at which it was made, and the limit for its answer.
    Renew(Renew, Instant, Duration),
    /// With the limit for its answer.
    Convert(Convert, Duration),
    /// With the mode that the lease may have instead, and a request for the next lease.
    Release(Claim, Option<Mode>, Option<Box<Acquire>>),
    /// The end of a lease whose permits do not come back.
    Forget(Claim, Arc<dyn PermitBackend>),
}

pub(super) enum Answer {
    Attempt(AcquireAnswer),
    Renew(Renewal),
    Release(ReleaseAnswer),
}

/// A request that was sent, with its verb in the same box: futures that wait for a lock are small.
pub(super) type SentRequest = Pin<Box<dyn Sent>>;

pub(super) trait Sent: Send {
    fn verb(&self) -> &Verb;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer>;
}

#[pin_project]
struct WithVerb<F> {
    verb: Verb,
    #[pin]
    answer: F,
}

impl<F: Future<Output = Answer> + Send> Sent for WithVerb<F> {
    fn verb(&self) -> &Verb {
        &self.verb
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        self.project().answer.poll(context)
    }
}

impl Answer {
    /// Whether the answer is more than an error.
    pub(super) fn says_something(&self) -> bool {
        match self {
            Self::Attempt(answer) => answer.is_ok(),
            Self::Renew(renewal) => !matches!(renewal, Renewal::Unknown(_)),
            Self::Release(answer) => answer.is_ok(),
        }
    }
}

impl Verb {
    pub(super) fn send(self, backend: &Arc<dyn Backend>) -> SentRequest {
        let (mut sent, backend) = (self.clone(), Arc::clone(backend));
        sent.claims(|claim| known_to(&*backend, claim));
        // Called on the `dyn Backend` itself: the implementation for `Arc` allocates once more.
        match sent {
            Self::Attempt(request) => {
                self.to(async move { Answer::Attempt((*backend).try_acquire(&request).await) })
            }
            Self::Convert(request, _) => {
                self.to(async move { Answer::Attempt(convert(&*backend, &request).await) })
            }
            Self::Renew(request, ..) => {
                self.to(async move { Answer::Renew((*backend).renew(&request).await) })
            }
            Self::Forget(claim, counting) => self.to(async move {
                Answer::Release((*counting).forget(&claim).await.map(|released| (released, None)))
            }),
            Self::Release(claim, other, None) => self.to(async move {
                let released = release(&*backend, &claim, other).await;
                Answer::Release(released.map(|released| (released, None)))
            }),
            Self::Release(claim, _, Some(next)) => self.to(async move {
                Answer::Release((*backend).release_and_requeue(&claim, &next).await)
            }),
        }
    }

    /// The request with this verb, and the future of its answer.
    fn to(self, answer: impl Future<Output = Answer> + Send + 'static) -> SentRequest {
        Box::pin(WithVerb { verb: self, answer })
    }

    fn claims(&mut self, mut change: impl FnMut(&mut Claim)) {
        match self {
            Self::Attempt(request) => change(&mut request.claim),
            Self::Convert(request, _) => change(&mut request.request.claim),
            Self::Renew(request, ..) => change(&mut request.claim),
            Self::Forget(claim, _) => change(claim),
            Self::Release(claim, _, next) => {
                change(claim);
                next.iter_mut().for_each(|next| change(&mut next.claim));
            }
        }
    }

    /// The answer to report if the store gives none.
    pub(super) fn failed(&self, kind: ErrorKind, why: String) -> Answer {
        let error = Error::new(kind, why);
        match self {
            Self::Attempt(_) | Self::Convert(..) => Answer::Attempt(Err(error)),
            Self::Renew(..) => Answer::Renew(Renewal::Unknown(error)),
            Self::Release(..) | Self::Forget(..) => Answer::Release(Err(error)),
        }
    }
}

/// Renames a claim for a store without joint holders. There, a group is within this process, and holds exclusively.
pub(super) fn known_to(backend: &dyn Backend, claim: &mut Claim) {
    if claim.mode.is_joint() && !backend.capabilities().joins() {
        claim.mode = Mode::Exclusive;
    }
}

async fn convert(backend: &dyn Backend, request: &Convert) -> AcquireAnswer {
    let none = || Error::new(ErrorKind::Unsupported, "the backend does not convert leases");
    backend.capabilities().converter().ok_or_else(none)?.convert(request).await
}

/// Ends a lease, which may have the other mode instead. The known mode comes first: a conversion to the other one that
/// arrives after the end of the lease changes nothing.
pub(super) async fn release(
    backend: &dyn Backend,
    claim: &Claim,
    other: Option<Mode>,
) -> Result<Released, Error> {
    match (backend.release(claim).await?, other) {
        (Released::NotHeld, Some(other)) => backend.release(&claim.clone().in_mode(other)).await,
        (released, _) => Ok(released),
    }
}
