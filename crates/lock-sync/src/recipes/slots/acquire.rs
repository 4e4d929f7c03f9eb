//! The futures that wait for a slot.

use std::sync::Arc;
use std::time::Duration;

use super::search::Search;
use super::{OwnedSlotPermit, SlotPermit, SlotSemaphore};
use crate::bare::{Denial, Wait};
use crate::semaphore::{AcquireError, TryAcquireError};
use crate::waits::{Attempt, block, future};

impl SlotSemaphore {
    /// Acquires a permit, waiting until a slot is free.
    ///
    /// The call first asks for one slot after the other, and begins at another slot each time. If no slot is free, it
    /// waits for all slots at once. The [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks)
    /// bounds the wait. The future does nothing until it is first polled, and any executor can poll it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its positions at all slots. The driver undoes its requests in the background:
    /// a slot that was just granted goes to the next waiter.
    ///
    /// # Errors
    ///
    /// - [`AcquireError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown);
    /// - [`AcquireError::Timeout`] if the wait limit was reached;
    /// - [`AcquireError::Backend`] if, for every slot, the store refused, or, without a wait limit, was out of reach
    ///   for longer than a lease lives. While this holds for some slots only, the call waits for the other slots, and
    ///   asks for these slots again after longer and longer pauses: from the length of a lease to 16 times as long. If
    ///   the [outage limit](crate::Builder::outage_limit) is longer than a lease, the first pause is as long as that
    ///   limit.
    pub fn acquire(&self) -> AcquireSlot<'_> {
        AcquireSlot::new(self.search(self.default_wait()), self)
    }

    /// Acquires a permit, waiting for at most `limit` from the first poll on.
    ///
    /// A limit shorter than a round trip to the store can end the wait although a slot is free.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{AcquireError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let exports = locks.slot_semaphore("exports", 1)?;
    /// let held = exports.acquire().await?;
    /// let second = exports.acquire_timeout(Duration::from_millis(10)).await;
    /// assert!(matches!(second, Err(AcquireError::Timeout { .. })));
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_timeout(&self, limit: Duration) -> AcquireSlot<'_> {
        AcquireSlot::new(self.search(Wait::AtMost(limit)), self)
    }

    /// Acquires a permit that keeps the semaphore alive and borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_owned(self: Arc<Self>) -> AcquireSlotOwned {
        AcquireSlotOwned::new(self.search(self.default_wait()), self)
    }

    /// Acquires a permit that keeps the semaphore alive, waiting for at most `limit` from the first poll
    /// on.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_owned_timeout(self: Arc<Self>, limit: Duration) -> AcquireSlotOwned {
        AcquireSlotOwned::new(self.search(Wait::AtMost(limit)), self)
    }

    /// Acquires a permit if a slot is free, without waiting for a holder.
    ///
    /// The call asks for one slot after the other, but skips slots that this process knows to be taken. If other
    /// processes hold all slots, the call takes a round trip for each slot.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// - [`TryAcquireError::NoPermits`] if every slot is held or awaited;
    /// - [`TryAcquireError::Backend`] if the store could not be asked about a slot, and no slot before it was free;
    /// - [`TryAcquireError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown).
    pub async fn try_acquire(&self) -> Result<SlotPermit<'_>, TryAcquireError> {
        Ok(Attempt(AcquireSlot::new(self.search(Wait::Try), self)).await?)
    }

    /// Acquires a permit that keeps the semaphore alive, if a slot is free.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSlotPermit, TryAcquireError> {
        Ok(Attempt(AcquireSlotOwned::new(self.search(Wait::Try), self)).await?)
    }

    /// Acquires a permit from synchronous code.
    ///
    /// The caller needs no runtime.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// If called within an asynchronous execution context, as
    /// [`Semaphore::blocking_acquire`](crate::Semaphore::blocking_acquire).
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<SlotPermit<'_>, AcquireError> {
        block(self.acquire())
    }

    /// Acquires a permit that keeps the semaphore alive, from synchronous code.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// As [`blocking_acquire`](Self::blocking_acquire).
    #[track_caller]
    pub fn blocking_acquire_owned(self: Arc<Self>) -> Result<OwnedSlotPermit, AcquireError> {
        block(self.acquire_owned())
    }
}

future! {
    /// The future that [`SlotSemaphore::acquire`] returns.
    #[must_use = "futures do nothing unless polled"]
    AcquireSlot['a]['a](search: Search, semaphore: &'a SlotSemaphore)
        -> Result<SlotPermit<'a>, Denial => AcquireError>
    |context| {
        search.poll(context).map_ok(|(slot, hold)| SlotPermit::new(semaphore, slot, hold))
    }
}

future! {
    /// The future that [`SlotSemaphore::acquire_owned`] returns.
    #[must_use = "futures do nothing unless polled"]
    AcquireSlotOwned[][](search: Search, semaphore: Arc<SlotSemaphore>)
        -> Result<OwnedSlotPermit, Denial => AcquireError>
    |context| {
        let found = search.poll(context);
        found.map_ok(|(slot, hold)| OwnedSlotPermit::new(Arc::clone(semaphore), slot, hold))
    }
}
