//! The futures that wait for a mutex.

use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::Mode;
use pin_project::pin_project;
use tokio::task::coop::poll_proceed;

use super::{Mutex, MutexGuard, OwnedMutexGuard};
use crate::blocking::block_on;
use crate::engine::{Acquiring, Denial, Entry, Hold, Manner, Wait};
use crate::error::{LockError, TryLockError};

/// Waits for a [`Mutex`]: what [`Mutex::lock`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    #[pin]
    locking: Locking,
}

impl<'a, T: ?Sized> Lock<'a, T> {
    pub(super) fn new(mutex: &'a Mutex<T>, wait: Wait) -> Self {
        Self { mutex, locking: Locking::new(&mutex.entry, wait, mutex.manner) }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<MutexGuard<'a, T>, LockError> {
        self.locking.acquiring.on_driver();
        block_on(self)
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = Result<MutexGuard<'a, T>, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex: &'a Mutex<T> = this.mutex;
        this.locking
            .poll(context, || mutex.data.try_lock().ok())
            .map_ok(|(hold, data)| MutexGuard::new(mutex, data, hold))
            .map_err(lock_error)
    }
}

impl<T: ?Sized> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}

/// Waits for a [`Mutex`]: what [`Mutex::lock_owned`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct LockOwned<T: ?Sized> {
    #[pin]
    locking: Locking,
    mutex: Arc<Mutex<T>>,
}

impl<T: ?Sized> LockOwned<T> {
    pub(super) fn new(mutex: Arc<Mutex<T>>, wait: Wait) -> Self {
        Self { locking: Locking::new(&mutex.entry, wait, mutex.manner), mutex }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<OwnedMutexGuard<T>, LockError> {
        self.locking.acquiring.on_driver();
        block_on(self)
    }
}

impl<T: ?Sized> Future for LockOwned<T> {
    type Output = Result<OwnedMutexGuard<T>, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex: &Arc<Mutex<T>> = this.mutex;
        this.locking
            .poll(context, || Arc::clone(&mutex.data).try_lock_owned().ok())
            .map_ok(|(hold, data)| OwnedMutexGuard::new(Arc::clone(mutex), data, hold))
            .map_err(lock_error)
    }
}

impl<T: ?Sized> fmt::Debug for LockOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockOwned").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}

/// First the engine's grant, then the data.
#[pin_project]
pub(super) struct Locking {
    acquiring: Acquiring,
    hold: Option<Hold>,
    /// As tokio's futures, so that what is inside may change.
    #[pin]
    _pinned: PhantomPinned,
}

impl Locking {
    pub(super) fn new(entry: &Arc<Entry>, wait: Wait, manner: Manner) -> Self {
        let acquiring = Acquiring::new(Arc::clone(entry), Mode::Exclusive, wait, manner);
        Self { acquiring, hold: None, _pinned: PhantomPinned }
    }

    pub(super) fn poll<D>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Hold, D), Denial>> {
        let this = self.project();
        if this.hold.is_none() {
            *this.hold = Some(ready!(this.acquiring.poll(context))?);
        }
        // A task that locks in a loop yields to the others now and then, as with tokio's locks. It has
        // its turn by then: a budget that is used up costs nobody a place in the queue.
        let coop = ready!(poll_proceed(context));
        match (take_data(), this.hold.take()) {
            (Some(data), Some(hold)) => {
                coop.made_progress();
                Poll::Ready(Ok((hold, data)))
            }
            (_, hold) => {
                // The engine grants when no guard is left. Only `Debug` can have the data, and will
                // have looked at it in a moment.
                *this.hold = hold;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

fn lock_error(denial: Denial) -> LockError {
    match denial {
        Denial::Timeout(source) => LockError::Timeout { source },
        // Only those who do not wait are turned away so.
        Denial::WouldBlock => LockError::Timeout { source: None },
        Denial::Closed => LockError::Closed,
        Denial::Failed(error) => LockError::Backend(error),
    }
}

pub(super) fn try_lock_error(denial: Denial) -> TryLockError {
    match denial {
        Denial::WouldBlock | Denial::Timeout(_) => TryLockError::WouldBlock,
        Denial::Closed => TryLockError::Closed,
        Denial::Failed(error) => TryLockError::Backend(error),
    }
}
