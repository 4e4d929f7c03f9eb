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
    /// It looks for a free slot first, one after the other, beginning at another one each time. If there
    /// is none, it waits for all of them at once, for as long as the
    /// [wait limit](crate::Builder::wait_limit) of its [`Locks`](crate::Locks) says. The future does nothing until it is
    /// first polled, and it can be polled by any executor.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its places in all lines. Whatever it has asked of the store by then is
    /// undone in the background: a slot that was just granted goes to whoever waits next.
    ///
    /// # Errors
    ///
    /// - [`AcquireError::Closed`] after [`Locks::shutdown`](crate::Locks::shutdown);
    /// - [`AcquireError::Timeout`] if the wait limit was reached;
    /// - [`AcquireError::Backend`] if the store refused, or could not be reached for longer than a lease
    ///   lives, and there is no limit that says to wait longer. A slot for which that is so is left out;
    ///   it is an error once no other is left to wait for.
    pub fn acquire(&self) -> AcquireSlot<'_> {
        AcquireSlot::new(self.search(self.default_wait()), self)
    }

    /// Acquires a permit, waiting for at most `limit` from the first poll on.
    ///
    /// A limit shorter than a round trip to the store is a limit on the store.
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
    /// It asks for one slot after the other, but for those that this process knows not to be free: if all
    /// are held elsewhere, that takes a round trip for each.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// - [`TryAcquireError::NoPermits`] if every slot is held or awaited;
    /// - [`TryAcquireError::Backend`] if the store could not be asked about one, and no other was free
    ///   before it;
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
    /// Needs no runtime of the caller's.
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
    /// Waits for a permit: what [`SlotSemaphore::acquire`] returns.
    #[must_use = "futures do nothing unless polled"]
    AcquireSlot['a]['a](search: Search, semaphore: &'a SlotSemaphore)
        -> Result<SlotPermit<'a>, Denial => AcquireError>
    |context| {
        search.poll(context).map_ok(|(slot, hold)| SlotPermit::new(semaphore, slot, hold))
    }
}

future! {
    /// Waits for a permit: what [`SlotSemaphore::acquire_owned`] returns.
    #[must_use = "futures do nothing unless polled"]
    AcquireSlotOwned[][](search: Search, semaphore: Arc<SlotSemaphore>)
        -> Result<OwnedSlotPermit, Denial => AcquireError>
    |context| {
        let found = search.poll(context);
        found.map_ok(|(slot, hold)| OwnedSlotPermit::new(Arc::clone(semaphore), slot, hold))
    }
}
