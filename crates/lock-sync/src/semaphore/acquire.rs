//! The futures that wait for permits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lock_core::Mode;

use super::holds::Holds;
use super::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use crate::bare::{Denial, Locking, Wait};
use crate::foreign::{Bell, Listening};
use crate::waits::future;

future! {
    /// Waits for permits: what [`Semaphore::acquire`] and [`Semaphore::acquire_many`] return.
    #[must_use = "futures do nothing unless polled"]
    Acquire['a]['a](waiting: Waiting, semaphore: &'a Semaphore)
        -> Result<SemaphorePermit<'a>, Denial => AcquireError>
    |context| {
        let acquired = waiting.poll(semaphore, context);
        acquired.map_ok(|holds| SemaphorePermit::new(semaphore, holds))
    }
}

future! {
    /// Waits for permits: what [`Semaphore::acquire_owned`] and [`Semaphore::acquire_many_owned`] return.
    #[must_use = "futures do nothing unless polled"]
    AcquireOwned[][](waiting: Waiting, semaphore: Arc<Semaphore>)
        -> Result<OwnedSemaphorePermit, Denial => AcquireError>
    |context| {
        let acquired = waiting.poll(semaphore, context);
        acquired.map_ok(|holds| OwnedSemaphorePermit::new(Arc::clone(semaphore), holds))
    }
}

/// A wait for permits that ends when the handle is closed.
pub(super) struct Waiting {
    /// `None` for no permits at all, for which no store need be asked, and once it is over.
    locking: Option<Locking>,
    /// There is one once it has to wait.
    closing: Option<Listening<Arc<Bell>>>,
}

impl Waiting {
    fn on_driver(&mut self) {
        if let Some(locking) = &mut self.locking {
            locking.on_driver();
        }
    }

    fn poll(
        &mut self,
        semaphore: &Semaphore,
        context: &mut Context<'_>,
    ) -> Poll<Result<Holds, Denial>> {
        loop {
            if semaphore.is_closed() {
                // What was asked for by now is undone, and so is a grant that no caller has seen.
                self.locking = None;
                return Poll::Ready(Err(Denial::Closed));
            }
            let Some(locking) = &mut self.locking else {
                return Poll::Ready(Ok(Holds::default()));
            };
            if let Poll::Ready(result) = locking.poll(context, || Some(())) {
                if let Err(denial) = &result {
                    semaphore.learn(denial);
                }
                return Poll::Ready(result.map(|(hold, ())| Holds::one(hold)));
            }
            if self.closing.is_none() {
                self.closing = Some(Bell::listen(Arc::clone(&semaphore.bell)));
                // It hears of what happens from now on.
                if semaphore.is_closed() {
                    continue;
                }
            }
            if let Some(closing) = self.closing.as_mut()
                && Pin::new(closing).poll(context).is_pending()
            {
                return Poll::Pending;
            }
            self.closing = None;
        }
    }
}

impl Semaphore {
    pub(super) fn waiting(&self, count: u32, wait: Wait) -> Waiting {
        let mode = Mode::Permits { take: count, of: self.declared };
        let locking = (count > 0).then(|| self.lock.locking(mode, wait));
        Waiting { locking, closing: None }
    }
}
