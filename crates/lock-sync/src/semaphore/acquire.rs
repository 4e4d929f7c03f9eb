//! The futures that wait for permits.

use std::sync::Arc;
use std::task::{Context, Poll};

use lock_core::Mode;

use super::holds::Holds;
use super::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use crate::bare::{Denial, Locking, Wait};
use crate::waits::future;

future! {
    /// The future that [`Semaphore::acquire`] and [`Semaphore::acquire_many`] return.
    #[must_use = "futures do nothing unless polled"]
    Acquire['a]['a](waiting: Waiting, semaphore: &'a Semaphore)
        -> Result<SemaphorePermit<'a>, Denial => AcquireError>
    |context| {
        let acquired = waiting.poll(semaphore, context);
        acquired.map_ok(|holds| SemaphorePermit::new(semaphore, holds))
    }
}

future! {
    /// The future that [`Semaphore::acquire_owned`] and [`Semaphore::acquire_many_owned`] return.
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
    /// `None` for a request for zero permits, which needs no answer of the store, and once the wait is over.
    locking: Option<Locking>,
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
                // Dropping the wait undoes its request, and a grant that the caller has not seen.
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
            // A close wakes each waiter that has left its waker. A later waiter sees the close here.
            if !semaphore.is_closed() {
                return Poll::Pending;
            }
        }
    }
}

impl Semaphore {
    pub(super) fn waiting(&self, count: u32, wait: Wait) -> Waiting {
        let mode = Mode::Permits { take: count, of: self.declared };
        let locking = (count > 0).then(|| self.lock.locking(mode, wait));
        Waiting { locking }
    }
}
