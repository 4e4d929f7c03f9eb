//! At most so many at a time.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::{Error, ErrorKind, Instant, Mode};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::Core;
use crate::engine::{Denial, Hold, Wait};
use crate::error::ReleaseError;
use crate::locking::Locking;

/// The seats of a lock with a maximum of readers.
///
/// Whoever asks the engine sits by then, writers too: so a writer that becomes a reader is within the
/// maximum, those without a seat stand in one line in the order in which they came, and nobody who waits
/// for a seat holds anything that others wait for.
#[derive(Clone)]
pub(super) struct Seats(Arc<Semaphore>);

impl Seats {
    pub(super) fn new(seats: u32) -> Result<Self, Error> {
        if seats == 0 {
            let message = "a RwLock may not be created with 0 readers";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        if seats > MAX_SEATS {
            let message = format!("a RwLock may not be created with more than {MAX_SEATS} readers");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        // Where `usize` is shorter than that, nobody has memory for so many guards.
        Ok(Self(Arc::new(Semaphore::new(usize::try_from(seats).unwrap_or(usize::MAX >> 3)))))
    }
}

/// As many as tokio's lock has.
const MAX_SEATS: u32 = u32::MAX >> 3;

/// A hold, and the seat on which it was taken if they are limited.
#[derive(Debug)]
pub(super) struct Seated {
    // In this order: whoever gets the seat next finds the lock given up.
    hold: Hold,
    seat: Option<OwnedSemaphorePermit>,
}

impl Seated {
    pub(super) fn new(hold: Hold, seat: Option<OwnedSemaphorePermit>) -> Self {
        Self { hold, seat }
    }

    pub(super) fn into_parts(self) -> (Hold, Option<OwnedSemaphorePermit>) {
        (self.hold, self.seat)
    }

    pub(super) async fn release(self) -> Result<(), ReleaseError> {
        let Self { hold, seat } = self;
        let released = hold.release().await;
        drop(seat);
        released
    }
}

impl Deref for Seated {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl DerefMut for Seated {
    fn deref_mut(&mut self) -> &mut Hold {
        &mut self.hold
    }
}

/// The way to a seat. What is asked of the engine afterwards has what is left of the time.
pub(super) struct Seating {
    core: Core,
    seats: Seats,
    mode: Mode,
    wait: Wait,
    on_driver: bool,
    queued: Option<Queued>,
}

struct Queued {
    seat: Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>,
    limit: Option<Limit>,
}

/// The end of the wait, on the driver's clock: the caller may have no runtime.
struct Limit {
    until: Instant,
    alarm: JoinHandle<()>,
}

impl Seating {
    pub(super) fn new(core: &Core, seats: &Seats, mode: Mode, wait: Wait) -> Self {
        let (core, seats) = (core.clone(), seats.clone());
        Self { core, seats, mode, wait, on_driver: false, queued: None }
    }

    /// For a caller that blocks its thread.
    pub(super) fn on_driver(&mut self) {
        self.on_driver = true;
    }

    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Locking, OwnedSemaphorePermit), Denial>> {
        if self.queued.is_none() {
            // Whoever frees a seat gives it to those in line: this overtakes nobody.
            if let Ok(seat) = Arc::clone(&self.seats.0).try_acquire_owned() {
                return Poll::Ready(Ok((self.locking(self.wait), seat)));
            }
        }
        let queued = match &mut self.queued {
            Some(queued) => queued,
            none => none.insert(Queued::new(&self.core, &self.seats, self.wait)?),
        };
        if let Poll::Ready(seat) = queued.seat.as_mut().poll(context) {
            // It cannot be refused: nobody closes it.
            let seat = seat.map_err(|_| Denial::Closed)?;
            let wait = queued.limit.as_ref().map_or(self.wait, |limit| {
                let now = self.core.entry.shared().clock.now();
                Wait::AtMost(limit.until.saturating_duration_since(now))
            });
            return Poll::Ready(Ok((self.locking(wait), seat)));
        }
        if let Some(limit) = &mut queued.limit {
            let _ = ready!(Pin::new(&mut limit.alarm).poll(context));
            // Rung in time, or because the driver has gone.
            self.core.entry.shared().start().map_err(Denial::Failed)?;
            return Poll::Ready(Err(Denial::Timeout(None)));
        }
        Poll::Pending
    }

    fn locking(&self, wait: Wait) -> Locking {
        let mut locking = Locking::new(&self.core.entry, self.mode, wait, self.core.manner);
        if self.on_driver {
            locking.on_driver();
        }
        locking
    }
}

impl Queued {
    fn new(core: &Core, seats: &Seats, wait: Wait) -> Result<Self, Denial> {
        let limit = match wait {
            Wait::Try => return Err(Denial::WouldBlock),
            Wait::AtMost(limit) => Some(limit),
            Wait::Forever => None,
        };
        let limit = match limit {
            Some(limit) => Some(Limit::new(core, limit).map_err(Denial::Failed)?),
            None => None,
        };
        Ok(Self { seat: Box::pin(Arc::clone(&seats.0).acquire_owned()), limit })
    }
}

impl Limit {
    fn new(core: &Core, limit: std::time::Duration) -> Result<Self, Error> {
        let shared = core.entry.shared();
        shared.start()?;
        let runtime = shared.runtime().cloned();
        let Some(runtime) = runtime else {
            return Err(Error::new(ErrorKind::ShuttingDown, "the driver of the locks has stopped"));
        };
        let alarm = runtime.spawn(async move { tokio::time::sleep(limit).await });
        Ok(Self { until: shared.clock.now() + limit, alarm })
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.alarm.abort();
    }
}
