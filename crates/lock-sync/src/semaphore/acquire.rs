//! The futures that wait for permits.

use std::sync::Arc;
use std::task::{Context, Poll};

use lock_core::Mode;

use super::declaring::Preface;
use super::holds::Holds;
use super::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use crate::bare::{Denial, Known, Limit, Locking, Wait};
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
    /// From the first poll on: whether the semaphore was known to be closed for all.
    began: Option<Known>,
    /// The limit of the wait. `Some` from the first poll on if a preface may come before the lock.
    limit: Option<Limit>,
    has_declared: bool,
}

#[allow(clippy::large_enum_variant, reason = "a box would be one more allocation for each permit")]
enum Part {
    Preface(Preface),
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
        loop {
            let began = self.began.unwrap_or_else(|| self.begin(semaphore));
            if semaphore.ends(began) {
                // Dropping the wait undoes its request, and a grant that the caller has not seen.
                self.part = None;
                return Poll::Ready(Err(Denial::Closed));
            }
            let outcome = match &mut self.part {
                // No request for zero permits goes to the entry, which would refuse the request.
                None if semaphore.is_closed() || semaphore.lock.is_closed() => {
                    Poll::Ready(Err(Denial::Closed))
                }
                None => return Poll::Ready(Ok(Holds::default())),
                Some(Part::Preface(preface)) => {
                    preface.poll(context).map(|done| done.map(|()| None))
                }
                Some(Part::Locking(locking)) => {
                    locking.poll(context, || Some(())).map(|locked| locked.map(Some))
                }
            };
            match outcome {
                Poll::Ready(Ok(Some((hold, ())))) => return Poll::Ready(Ok(Holds::one(hold))),
                Poll::Ready(Ok(None)) => self.go_on(semaphore),
                Poll::Ready(Err(denial)) => {
                    if !self.declares_again(semaphore, &denial) {
                        semaphore.heed(&denial, began);
                        return Poll::Ready(Err(denial));
                    }
                }
                // A close wakes each waiter whose waker it has. A later waiter sees the close here.
                Poll::Pending if !semaphore.ends(began) => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }

    /// Begins the wait, with a preface if one is due.
    fn begin(&mut self, semaphore: &Semaphore) -> Known {
        let known = semaphore.closed_for_all.known();
        self.began = Some(known);
        if self.part.is_some() && (known.is_closed() || semaphore.last_wins()) {
            let limit = Limit::of(self.wait, &semaphore.lock);
            self.limit = Some(limit);
            if known.is_closed() {
                let asks = semaphore.asks_again(known, limit, self.on_driver);
                self.part = Some(Part::Preface(asks));
            } else {
                self.declares_first(semaphore);
            }
        }
        known
    }

    /// Declares the number before the wait for the lock, if that is due.
    fn declares_first(&mut self, semaphore: &Semaphore) -> bool {
        let Some(limit) = self.limit.filter(|_| !self.has_declared) else { return false };
        let declares = semaphore.first_declares(limit, self.on_driver);
        self.has_declared = declares.is_some();
        if let Some(declares) = declares {
            self.part = Some(Part::Preface(declares));
        }
        self.has_declared
    }

    /// The preface is over. If the semaphore was closed for all before, the store has said that it is open.
    fn go_on(&mut self, semaphore: &Semaphore) {
        self.began =
            Some(semaphore.closed_for_all.known()).filter(|it| !it.is_closed()).or(self.began);
        if self.declares_first(semaphore) {
            return;
        }
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
            Some(declares) => self.part = Some(Part::Preface(declares)),
            None => return false,
        }
        self.has_declared = true;
        true
    }
}

impl Semaphore {
    pub(super) fn waiting(&self, count: u32, wait: Wait) -> Waiting {
        let mode = Mode::Permits { take: count, of: self.declared };
        let part = (count > 0).then(|| Part::Locking(self.lock.locking(mode, wait)));
        Waiting {
            mode,
            wait,
            on_driver: false,
            part,
            began: None,
            limit: None,
            has_declared: false,
        }
    }
}
