//! The maximum of readers.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use lock_core::{Error, ErrorKind, Mode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bare::Hold;
use crate::error::ReleaseError;
use crate::foreign::Shielded;
use crate::guard::Guarded;

/// The permits of a lock with a maximum of readers.
///
/// A task takes a permit before it asks the engine. A writer needs a permit, too, so that a writer that becomes
/// a reader is within the maximum. The tasks without a permit wait in one line, in the order in which they
/// came, and hold nothing for which other tasks wait.
#[derive(Clone)]
pub(super) struct Quota(pub(super) Arc<Semaphore>);

impl Quota {
    pub(super) fn new(quota: u32) -> Result<Self, Error> {
        if quota == 0 {
            let message = "a RwLock may not be created with 0 readers";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        if quota > MAX_QUOTA {
            let message = format!("a RwLock may not be created with more than {MAX_QUOTA} readers");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        // If `usize` is shorter, no process has memory for so many guards.
        Ok(Self(Arc::new(Semaphore::new(usize::try_from(quota).unwrap_or(usize::MAX >> 3)))))
    }
}

/// The maximum of tokio's lock.
const MAX_QUOTA: u32 = u32::MAX >> 3;

/// A permit of the quota. Its drop wakes the next waiter.
pub(super) type Permit = Shielded<OwnedSemaphorePermit>;

/// A hold, and the permit under which it was taken if the lock has a maximum.
#[derive(Debug)]
pub(super) struct Admitted {
    // In this order, so that the task that gets the permit next finds the lock given up.
    hold: Hold,
    permit: Option<Permit>,
}

impl Admitted {
    #[inline]
    pub(super) fn new(hold: Hold, permit: Option<Permit>) -> Self {
        Self { hold, permit }
    }

    pub(super) fn into_parts(self) -> (Hold, Option<Permit>) {
        (self.hold, self.permit)
    }

    pub(super) async fn release(self) -> Result<(), ReleaseError> {
        let Self { hold, permit } = self;
        let released = hold.release().await;
        drop(permit);
        released
    }
}

impl Deref for Admitted {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl DerefMut for Admitted {
    fn deref_mut(&mut self) -> &mut Hold {
        &mut self.hold
    }
}

impl<D, L> Guarded<D, Admitted, L> {
    /// Goes on in a weaker mode.
    pub(super) fn downgrade(mut self, to: Mode) -> Self {
        self.hold.downgrade(to);
        self
    }
}
