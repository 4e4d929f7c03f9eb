//! The futures that wait for a slot.

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project::pin_project;

use super::search::Search;
use super::{OwnedSlotPermit, SlotPermit, SlotSemaphore};
use crate::blocking::block_on;
use crate::semaphore::AcquireError;

/// Waits for a permit: what [`SlotSemaphore::acquire`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct AcquireSlot<'a> {
    search: Search,
    semaphore: &'a SlotSemaphore,
    /// As tokio's futures, so that what is inside may change.
    #[pin]
    _pinned: PhantomPinned,
}

impl<'a> AcquireSlot<'a> {
    pub(super) fn new(semaphore: &'a SlotSemaphore, search: Search) -> Self {
        Self { search, semaphore, _pinned: PhantomPinned }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<SlotPermit<'a>, AcquireError> {
        self.search.on_driver();
        block_on(self)
    }
}

impl<'a> Future for AcquireSlot<'a> {
    type Output = Result<SlotPermit<'a>, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let semaphore: &'a SlotSemaphore = this.semaphore;
        this.search
            .poll(context)
            .map_ok(|(slot, hold)| SlotPermit::new(semaphore, slot, hold))
            .map_err(AcquireError::from_denial)
    }
}

impl fmt::Debug for AcquireSlot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireSlot").field("key", self.semaphore.key()).finish_non_exhaustive()
    }
}

/// Waits for a permit: what [`SlotSemaphore::acquire_owned`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct AcquireSlotOwned {
    search: Search,
    semaphore: Arc<SlotSemaphore>,
    #[pin]
    _pinned: PhantomPinned,
}

impl AcquireSlotOwned {
    pub(super) fn new(semaphore: Arc<SlotSemaphore>, search: Search) -> Self {
        Self { search, semaphore, _pinned: PhantomPinned }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<OwnedSlotPermit, AcquireError> {
        self.search.on_driver();
        block_on(self)
    }
}

impl Future for AcquireSlotOwned {
    type Output = Result<OwnedSlotPermit, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let semaphore: &Arc<SlotSemaphore> = this.semaphore;
        this.search
            .poll(context)
            .map_ok(|(slot, hold)| OwnedSlotPermit::new(Arc::clone(semaphore), slot, hold))
            .map_err(AcquireError::from_denial)
    }
}

impl fmt::Debug for AcquireSlotOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireSlotOwned")
            .field("key", self.semaphore.key())
            .finish_non_exhaustive()
    }
}
