//! The future that tells a holder that its lease is over.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;

use crate::engine::HoldView;
use crate::error::LeaseLost;

/// Resolves when a lease is lost, or when its guard gives the lease up. [`Lease::lost`](crate::Lease::lost) returns it.
///
/// The driver resolves the future at the deadline of the lease, or earlier if the store reports the loss. In a
/// process that stands still or gets too little processor time, the future may resolve late.
/// [`is_valid`](crate::Lease::is_valid) does not depend on the driver.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct Lost(#[pin] Waiting);

type Waiting = Pin<Box<dyn Future<Output = LeaseLost> + Send + Sync>>;

impl Lost {
    pub(crate) fn new(view: Arc<HoldView>) -> Self {
        Self(Box::pin(async move { view.over().await }))
    }

    /// Resolves with the first loss of several leases. Without leases it never resolves.
    pub(crate) fn first_of(mut all: Vec<Self>) -> Self {
        let first = poll_fn(move |context| {
            let lost = all.iter_mut().map(|lost| Pin::new(lost).poll(context));
            lost.fold(Poll::Pending, |first, next| if first.is_ready() { first } else { next })
        });
        Self(Box::pin(first))
    }
}

impl Future for Lost {
    type Output = LeaseLost;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LeaseLost> {
        self.project().0.poll(context)
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}

/// Runs work until a lease is over: the future behind [`Lease::while_held`](crate::Lease::while_held).
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct WhileHeld<F, C> {
    #[pin]
    work: F,
    lost: Lost,
    check: C,
}

impl<F, C> WhileHeld<F, C> {
    pub(crate) fn new(work: F, lost: Lost, check: C) -> Self {
        Self { work, lost, check }
    }
}

/// Checks the clock before and after every poll of the work, because the driver may be late.
impl<F: Future, C: Fn() -> Result<(), LeaseLost>> Future for WhileHeld<F, C> {
    type Output = Result<F::Output, LeaseLost>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(lost) = Pin::new(this.lost).poll(context) {
            return Poll::Ready(Err(lost));
        }
        (this.check)()?;
        let output = ready!(this.work.poll(context));
        Poll::Ready((this.check)().map(|()| output))
    }
}
