//! The future that tells a holder that its lease is lost.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;

use crate::engine::{Lease, Losing};
use crate::error::LeaseLost;

/// Resolves when the lease of its guard is lost. It never resolves if the guard is dropped or released first.
///
/// It borrows nothing, so it can stand beside the work on the guard's data in a `select!`.
///
/// The driver resolves it at the deadline of the lease, or earlier if the store reports the loss. In a process
/// that is stopped or starved, this may happen late. [`is_valid`](crate::MutexGuard::is_valid) does not depend on
/// the driver.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct Lost(#[pin] Waiting);

type Waiting = Pin<Box<dyn Future<Output = LeaseLost> + Send + Sync>>;

impl Lost {
    pub(crate) fn new(lease: Arc<Lease>, hold: u64) -> Self {
        // Here and not with the first poll: the guard may be gone by then.
        let losing = Losing::new(lease, hold);
        Self(Box::pin(async move { losing.wait().await }))
    }

    /// Resolves with the first of several. It never resolves if there are none.
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

/// Runs work until a lease is lost: the future behind every `while_held`.
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
