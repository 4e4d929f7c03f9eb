//! The wait for a permit of a lock with a maximum of readers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::Mode;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};

use super::Core;
use super::admission::{Permit, Quota};
use crate::bare::{Alarm, Denial, Limit, Locking, Wait};
use crate::foreign::Shielded;

/// The wait for a permit of the quota. The later wait for the grant of the engine has the rest of the time limit.
pub(super) struct Admitting {
    core: Core,
    quota: Quota,
    mode: Mode,
    wait: Wait,
    on_driver: bool,
    queued: Option<Queued>,
}

/// The future of a permit.
type Next = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

struct Queued {
    /// If this is dropped when it already has a permit, the next waiter gets the permit.
    permit: Shielded<Next>,
    limit: Limit,
    alarm: Alarm,
}

impl Admitting {
    pub(super) fn new(core: &Core, quota: &Quota, mode: Mode, wait: Wait) -> Self {
        let (core, quota) = (core.clone(), quota.clone());
        Self { core, quota, mode, wait, on_driver: false, queued: None }
    }

    /// Sends the requests from the driver, for a caller that blocks its thread.
    pub(super) fn on_driver(&mut self) {
        self.on_driver = true;
    }

    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Locking, Permit), Denial>> {
        if self.queued.is_none() {
            // A released permit goes to the first waiter. So a task that finds a free permit here overtakes no waiter.
            if let Ok(permit) = Arc::clone(&self.quota.0).try_acquire_owned() {
                return Poll::Ready(Ok((self.locking(self.wait), Permit::new(permit))));
            }
        }
        let queued = match &mut self.queued {
            Some(queued) => queued,
            none => none.insert(Queued::new(&self.core, &self.quota, self.wait)?),
        };
        if let Poll::Ready(permit) = Pin::new(&mut queued.permit).poll(context) {
            // This cannot fail: no code closes the semaphore.
            let permit = permit.map(Permit::new).map_err(|_| Denial::Closed)?;
            let wait = queued.limit.wait(&self.core.lock);
            return Poll::Ready(Ok((self.locking(wait), permit)));
        }
        ready!(Pin::new(&mut queued.alarm).poll(context));
        // The alarm rang because the limit is reached, or because the driver has ended.
        self.core.lock.start().map_err(Denial::Failed)?;
        Poll::Ready(Err(Denial::Timeout(None)))
    }

    fn locking(&self, wait: Wait) -> Locking {
        let mut locking = self.core.lock.locking(self.mode, wait);
        if self.on_driver {
            locking.on_driver();
        }
        locking
    }
}

impl Queued {
    fn new(core: &Core, quota: &Quota, wait: Wait) -> Result<Self, Denial> {
        match wait {
            Wait::Try => return Err(Denial::WouldBlock),
            // The driver watches the limit.
            Wait::AtMost(_) => core.lock.start().map_err(Denial::Failed)?,
            Wait::Forever => {}
        }
        let limit = Limit::of(wait, &core.lock);
        let permit: Next = Box::pin(Arc::clone(&quota.0).acquire_owned());
        Ok(Self { permit: Shielded::new(permit), limit, alarm: limit.alarm(&core.lock) })
    }
}
