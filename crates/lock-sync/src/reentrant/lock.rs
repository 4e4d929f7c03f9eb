//! The futures that wait for a reentrant mutex.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use lock_core::OwnerToken;
use pin_project::pin_project;

use super::{Owner, OwnerGuard, ReentrantGuard, ReentrantLockError, ReentrantMutex, scope};
use crate::blocking::block_on;
use crate::engine::Wait;
use crate::locking::Locking;

/// Waits for a [`ReentrantMutex`] in the name of an owner: what [`ReentrantMutex::lock_as`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct LockAs<'a, T: ?Sized> {
    mutex: &'a ReentrantMutex<T>,
    /// Until the guard has it.
    owner: Option<&'a mut Owner>,
    #[pin]
    locking: Locking,
}

impl<'a, T: ?Sized> LockAs<'a, T> {
    pub(super) fn new(mutex: &'a ReentrantMutex<T>, owner: &'a mut Owner, wait: Wait) -> Self {
        Self { locking: locking(mutex, owner.token(), wait), mutex, owner: Some(owner) }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<OwnerGuard<'a, T>, ReentrantLockError> {
        self.locking.on_driver();
        block_on(self)
    }
}

impl<'a, T: ?Sized> Future for LockAs<'a, T> {
    type Output = Result<OwnerGuard<'a, T>, ReentrantLockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mutex: &'a ReentrantMutex<T> = this.mutex;
        this.locking
            .poll(context, || Some(()))
            .map_ok(|(hold, ())| {
                let owner = this.owner.take().expect("a lock future is granted the lock once");
                OwnerGuard::new(mutex, owner, hold)
            })
            .map_err(ReentrantLockError::from_denial)
    }
}

impl<T: ?Sized> fmt::Debug for LockAs<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockAs").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}

/// Waits for a [`ReentrantMutex`] in the name of the owner in whose scope it is first polled: what
/// [`ReentrantMutex::lock`] returns.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ReentrantLock<'a, T: ?Sized> {
    mutex: &'a ReentrantMutex<T>,
    wait: Wait,
    /// There is one from the first poll on.
    #[pin]
    locking: Option<Locking>,
}

impl<'a, T: ?Sized> ReentrantLock<'a, T> {
    pub(super) fn new(mutex: &'a ReentrantMutex<T>, wait: Wait) -> Self {
        Self { mutex, wait, locking: None }
    }

    /// Waits by blocking this thread.
    pub(super) fn block(mut self) -> Result<ReentrantGuard<'a, T>, ReentrantLockError> {
        let mut locking = locking(self.mutex, scope::current_token()?, self.wait);
        locking.on_driver();
        self.locking = Some(locking);
        block_on(self)
    }
}

impl<'a, T: ?Sized> Future for ReentrantLock<'a, T> {
    type Output = Result<ReentrantGuard<'a, T>, ReentrantLockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            if let Some(locking) = this.locking.as_mut().as_pin_mut() {
                return locking
                    .poll(context, || Some(()))
                    .map_ok(|(hold, ())| ReentrantGuard::new(this.mutex, hold))
                    .map_err(ReentrantLockError::from_denial);
            }
            let token = scope::current_token()?;
            this.locking.set(Some(locking(this.mutex, token, *this.wait)));
        }
    }
}

impl<T: ?Sized> fmt::Debug for ReentrantLock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantLock").field("key", self.mutex.key()).finish_non_exhaustive()
    }
}

fn locking<T: ?Sized>(mutex: &ReentrantMutex<T>, token: OwnerToken, wait: Wait) -> Locking {
    Locking::new(&mutex.entry, super::owner::mode(token), wait, mutex.entry.shared().manner)
}
