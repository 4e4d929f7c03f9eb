//! The futures that wait for a mutex.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lock_core::Mode;
use pin_project::pin_project;

use super::{Mutex, MutexGuard, OwnedMutexGuard};
use crate::blocking::block_on;
use crate::engine::Wait;
use crate::error::LockError;
use crate::locking::{Locking, lock_error};

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
        Self { mutex, locking: Locking::new(&mutex.entry, Mode::Exclusive, wait, mutex.manner) }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<MutexGuard<'a, T>, LockError> {
        self.locking.on_driver();
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
        Self { locking: Locking::new(&mutex.entry, Mode::Exclusive, wait, mutex.manner), mutex }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<OwnedMutexGuard<T>, LockError> {
        self.locking.on_driver();
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
