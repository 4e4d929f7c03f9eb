//! The parts of every future that waits for a guard.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project::pin_project;

use crate::blocking::{assert_may_block, block_on};

/// A future that waits for a guard.
pub(crate) trait Waits: Future + Sized {
    type Guard;
    /// Why there is no guard. The future converts it into its public error.
    type Refusal;

    /// Sends the requests from the driver. A caller that blocks its thread needs this, because no other thread may
    /// be running the caller's runtime.
    fn on_driver(&mut self);

    fn poll_guard(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::Guard, Self::Refusal>>;
}

/// Waits by blocking this thread.
#[track_caller]
pub(crate) fn block<F: Waits>(mut future: F) -> F::Output {
    assert_may_block();
    future.on_driver();
    block_on(future)
}

/// Resolves to the outcome of the inner future, with the denial in place of its public error.
#[pin_project]
pub(crate) struct Attempt<F>(#[pin] pub(crate) F);

impl<F: Waits> Future for Attempt<F> {
    type Output = Result<F::Guard, F::Refusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().0.poll_guard(context)
    }
}

/// Defines a public future: its generic parameters, with bounds and without, its fields, and the expression that polls
/// it.
///
/// The first field is the wait. The second field, if there is one, is the lock, borrowed or owned. It is dropped after
/// the wait. The expression polls the wait and makes the guard.
macro_rules! future {
    (
        $(#[$meta:meta])*
        $Future:ident[$($generics:tt)*][$($args:tt)*] $(default $Default:ty,)?
        ($wait:ident: $Wait:ty $(, $lock:ident: $Lock:ty)?)
            -> Result<$Guard:ty, $Refusal:ty => $Error:ty>
        |$context:ident| $poll:expr
    ) => {
        $(#[$meta])*
        #[pin_project::pin_project]
        pub struct $Future<$($generics)* $(= $Default)?> {
            $wait: $Wait,
            $($lock: $Lock,)?
            /// Like tokio's futures, this one is `!Unpin`, so that its fields may change.
            #[pin]
            _pinned: std::marker::PhantomPinned,
        }

        impl<$($generics)*> $Future<$($args)*> {
            pub(super) fn new($wait: $Wait $(, $lock: $Lock)?) -> Self {
                Self { $wait, $($lock,)? _pinned: std::marker::PhantomPinned }
            }
        }

        impl<$($generics)*> crate::waits::Waits for $Future<$($args)*> {
            type Guard = $Guard;
            type Refusal = $Refusal;

            fn on_driver(&mut self) {
                self.$wait.on_driver();
            }

            fn poll_guard(
                self: std::pin::Pin<&mut Self>,
                $context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<$Guard, $Refusal>> {
                let this = self.project();
                let $wait: &mut $Wait = this.$wait;
                $(let $lock: &$Lock = this.$lock;)?
                $poll
            }
        }

        impl<$($generics)*> std::future::Future for $Future<$($args)*> {
            type Output = Result<$Guard, $Error>;

            fn poll(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Self::Output> {
                crate::waits::Waits::poll_guard(self, context).map_err(<$Error>::from)
            }
        }

        impl<$($generics)*> std::fmt::Debug for $Future<$($args)*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($Future))
                    $(.field("key", self.$lock.key()))?
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use future;
