//! The way to a guard: first a permit, if the lock has a maximum; then the engine's grant; then the data.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lock_core::Mode;
use pin_project::pin_project;

use super::Core;
use super::admission::{Admitted, Permit};
use super::admitting::Admitting;
use crate::engine::{Denial, Wait};
use crate::locking::Locking;

/// What every future of the lock waits with. It can be dropped at any point.
#[pin_project(project = Step)]
#[expect(clippy::large_enum_variant, reason = "the small one is for the few locks with a maximum")]
pub(super) enum Access {
    Admitting(Box<Admitting>),
    // In this order: the task that gets the permit next finds the lock given up.
    Locking(#[pin] Locking, Option<Permit>),
}

impl Access {
    pub(super) fn new(core: &Core, mode: Mode, wait: Wait) -> Self {
        match &core.quota {
            Some(quota) => Self::Admitting(Box::new(Admitting::new(core, quota, mode, wait))),
            None => Self::Locking(Locking::new(&core.entry, mode, wait, core.manner), None),
        }
    }

    /// For a caller that blocks its thread: nobody else may be there to drive its runtime.
    pub(super) fn on_driver(&mut self) {
        match self {
            Self::Admitting(admitting) => admitting.on_driver(),
            Self::Locking(locking, _) => locking.on_driver(),
        }
    }

    pub(super) fn poll<D>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        take_data: impl Fn() -> Option<D>,
    ) -> Poll<Result<(Admitted, D), Denial>> {
        loop {
            match self.as_mut().project() {
                Step::Admitting(admitting) => {
                    let (locking, permit) = ready!(admitting.poll(context))?;
                    self.set(Self::Locking(locking, Some(permit)));
                }
                Step::Locking(locking, permit) => {
                    let (hold, data) = ready!(locking.poll(context, &take_data))?;
                    return Poll::Ready(Ok((Admitted::new(hold, permit.take()), data)));
                }
            }
        }
    }
}

/// Defines the future of one way to take the lock: the data as it is found after the grant, and the guard
/// around it.
macro_rules! access_future {
    (
        $(#[$meta:meta])*
        $Future:ident[$($generics:tt)*][$($args:tt)*]($lock:ident: $Lock:ty) -> $Guard:ty {
            mode: $mode:expr,
            data: $data:expr,
            guard: |$found:ident, $hold:ident| $guard:expr,
        }
    ) => {
        $(#[$meta])*
        #[pin_project::pin_project]
        #[must_use = "futures do nothing unless polled"]
        pub struct $Future<$($generics)* = lock_core::Convertible> {
            #[pin]
            access: crate::rwlock::access::Access,
            lock: $Lock,
        }

        impl<$($generics)*> $Future<$($args)*> {
            fn new(lock: $Lock, wait: crate::engine::Wait) -> Self {
                let access = crate::rwlock::access::Access::new(&lock.core, $mode, wait);
                Self { access, lock }
            }

            /// Waits by blocking this thread.
            fn block(mut self) -> Result<$Guard, crate::LockError> {
                self.access.on_driver();
                crate::blocking::block_on(self)
            }

            /// Does not wait.
            async fn attempt(self) -> Result<$Guard, crate::TryLockError> {
                let mut this = std::pin::pin!(self);
                std::future::poll_fn(|context| this.as_mut().poll_guard(context))
                    .await
                    .map_err(crate::locking::try_lock_error)
            }

            fn poll_guard(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<$Guard, crate::engine::Denial>> {
                let this = self.project();
                let $lock: &$Lock = this.lock;
                this.access.poll(context, || $data.ok()).map_ok(|($hold, $found)| $guard)
            }
        }

        impl<$($generics)*> std::future::Future for $Future<$($args)*> {
            type Output = Result<$Guard, crate::LockError>;

            fn poll(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Self::Output> {
                self.poll_guard(context).map_err(crate::locking::lock_error)
            }
        }

        impl<$($generics)*> std::fmt::Debug for $Future<$($args)*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($Future))
                    .field("key", self.lock.key())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(super) use access_future;
