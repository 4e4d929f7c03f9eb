//! The futures that wait for permits.

use std::sync::Arc;
use std::task::{Context, Poll};

use lock_core::Mode;

use super::declaring::Declares;
use super::holds::Holds;
use super::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use crate::bare::{Denial, Limit, Locking, Wait};
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
    mode: Mode,
    wait: Wait,
    on_driver: bool,
    /// `None` once the wait is over, and for a request for zero permits, which needs no answer of the store.
    part: Option<Part>,
    /// From the first poll on, if the handle may have to declare its number of permits.
    limit: Option<Limit>,
    has_declared: bool,
}

#[allow(clippy::large_enum_variant, reason = "a box would be one more allocation for each permit")]
enum Part {
    Declaring(Declares),
    Locking(Locking),
}

impl Waiting {
    fn on_driver(&mut self) {
        self.on_driver = true;
        if let Some(Part::Locking(locking)) = &mut self.part {
            locking.on_driver();
        }
    }

    fn poll(
        &mut self,
        semaphore: &Semaphore,
        context: &mut Context<'_>,
    ) -> Poll<Result<Holds, Denial>> {
        if semaphore.last_wins() && self.limit.is_none() {
            self.begin(semaphore);
        }
        loop {
            if semaphore.is_closed() {
                // Dropping the wait undoes its request, and a grant that the caller has not seen.
                self.part = None;
                return Poll::Ready(Err(Denial::Closed));
            }
            let outcome = match &mut self.part {
                // No request for zero permits goes to the entry, which would refuse the request.
                None if semaphore.lock.is_closed() => Poll::Ready(Err(Denial::Closed)),
                None => return Poll::Ready(Ok(Holds::default())),
                Some(Part::Declaring(declares)) => {
                    declares.poll(context).map(|declared| declared.map(|()| None))
                }
                Some(Part::Locking(locking)) => {
                    locking.poll(context, || Some(())).map(|locked| locked.map(Some))
                }
            };
            match outcome {
                Poll::Ready(Ok(Some((hold, ())))) => return Poll::Ready(Ok(Holds::one(hold))),
                Poll::Ready(Ok(None)) => self.lock_after_declaring(semaphore),
                Poll::Ready(Err(denial)) => {
                    if !self.declares_again(semaphore, &denial) {
                        semaphore.learn(&denial);
                        return Poll::Ready(Err(denial));
                    }
                }
                // A close wakes each waiter whose waker it has. A later waiter sees the close here.
                Poll::Pending if !semaphore.is_closed() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }

    /// The wait of a handle that may have to declare its number begins.
    fn begin(&mut self, semaphore: &Semaphore) {
        let limit = Limit::of(self.wait, &semaphore.lock);
        self.limit = Some(limit);
        if self.part.is_some()
            && let Some(declares) = semaphore.first_declares(limit, self.on_driver)
        {
            self.part = Some(Part::Declaring(declares));
        }
    }

    fn lock_after_declaring(&mut self, semaphore: &Semaphore) {
        self.has_declared = true;
        let wait = self.limit.map_or(self.wait, |limit| limit.wait(&semaphore.lock));
        let mut locking = semaphore.lock.locking(self.mode, wait);
        if self.on_driver {
            locking.on_driver();
        }
        self.part = Some(Part::Locking(locking));
    }

    /// Declares the number after a refusal, once in a wait at most.
    fn declares_again(&mut self, semaphore: &Semaphore, refusal: &Denial) -> bool {
        let Some(limit) = self.limit.filter(|_| !self.has_declared) else { return false };
        match semaphore.declares_after(refusal, limit, self.on_driver) {
            Some(declares) => self.part = Some(Part::Declaring(declares)),
            None => return false,
        }
        true
    }
}

impl Semaphore {
    pub(super) fn waiting(&self, count: u32, wait: Wait) -> Waiting {
        let mode = Mode::Permits { take: count, of: self.declared };
        let part = (count > 0).then(|| Part::Locking(self.lock.locking(mode, wait)));
        Waiting { mode, wait, on_driver: false, part, limit: None, has_declared: false }
    }
}
