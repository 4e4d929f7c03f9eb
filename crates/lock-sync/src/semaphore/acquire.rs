//! The futures that wait for permits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lock_core::Mode;
use pin_project::pin_project;

use super::holds::Holds;
use super::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use crate::blocking::block_on;
use crate::engine::{Denial, Wait};
use crate::foreign::{Bell, Listening};
use crate::locking::Locking;

/// Waits for permits: what [`Semaphore::acquire`] and [`Semaphore::acquire_many`] return.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    #[pin]
    waiting: Waiting,
}

impl<'a> Acquire<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, count: u32, wait: Wait) -> Self {
        Self { waiting: Waiting::new(semaphore, count, wait), semaphore }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<SemaphorePermit<'a>, AcquireError> {
        self.waiting.on_driver();
        block_on(self)
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let semaphore: &'a Semaphore = this.semaphore;
        this.waiting
            .poll(semaphore, context)
            .map_ok(|holds| SemaphorePermit::new(semaphore, holds))
            .map_err(AcquireError::from_denial)
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("key", self.semaphore.key()).finish_non_exhaustive()
    }
}

/// Waits for permits: what [`Semaphore::acquire_owned`] and [`Semaphore::acquire_many_owned`] return.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct AcquireOwned {
    #[pin]
    waiting: Waiting,
    semaphore: Arc<Semaphore>,
}

impl AcquireOwned {
    pub(super) fn new(semaphore: Arc<Semaphore>, count: u32, wait: Wait) -> Self {
        Self { waiting: Waiting::new(&semaphore, count, wait), semaphore }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.waiting.on_driver();
        block_on(self)
    }
}

impl Future for AcquireOwned {
    type Output = Result<OwnedSemaphorePermit, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let semaphore: &Arc<Semaphore> = this.semaphore;
        this.waiting
            .poll(semaphore, context)
            .map_ok(|holds| OwnedSemaphorePermit::new(Arc::clone(semaphore), holds))
            .map_err(AcquireError::from_denial)
    }
}

impl fmt::Debug for AcquireOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireOwned").field("key", self.semaphore.key()).finish_non_exhaustive()
    }
}

/// A wait for permits that ends when the handle is closed.
#[pin_project]
pub(super) struct Waiting {
    /// `None` for no permits at all, of which nobody need be asked, and once it is over.
    #[pin]
    locking: Option<Locking>,
    /// There is one once it has to wait.
    closing: Option<Listening<Arc<Bell>>>,
}

impl Waiting {
    pub(super) fn new(semaphore: &Semaphore, count: u32, wait: Wait) -> Self {
        let mode = Mode::Permits { take: count, of: semaphore.declared };
        let locking =
            (count > 0).then(|| Locking::new(&semaphore.entry, mode, wait, semaphore.manner));
        Self { locking, closing: None }
    }

    fn on_driver(&mut self) {
        if let Some(locking) = &mut self.locking {
            locking.on_driver();
        }
    }

    pub(super) fn poll(
        self: Pin<&mut Self>,
        semaphore: &Semaphore,
        context: &mut Context<'_>,
    ) -> Poll<Result<Holds, Denial>> {
        let mut this = self.project();
        loop {
            if semaphore.is_closed() {
                // What was asked for by now is undone, a grant that nobody has seen as well.
                this.locking.set(None);
                return Poll::Ready(Err(Denial::Closed));
            }
            let Some(locking) = this.locking.as_mut().as_pin_mut() else {
                return Poll::Ready(Ok(Holds::default()));
            };
            if let Poll::Ready(result) = locking.poll(context, || Some(())) {
                if let Err(denial) = &result {
                    semaphore.learn(denial);
                }
                return Poll::Ready(result.map(|(hold, ())| Holds::one(hold)));
            }
            if this.closing.is_none() {
                *this.closing = Some(Bell::listen(Arc::clone(&semaphore.bell)));
                // It hears of what happens from now on.
                if semaphore.is_closed() {
                    continue;
                }
            }
            if let Some(closing) = this.closing.as_mut()
                && Pin::new(closing).poll(context).is_pending()
            {
                return Poll::Pending;
            }
            *this.closing = None;
        }
    }
}
