//! What every future is made of that waits for a guard.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project::pin_project;

use crate::blocking::{assert_may_block, block_on};

/// What a future can do for its caller besides being awaited.
pub(crate) trait Waits: Future + Sized {
    type Guard;
    /// Why there is no guard, before the error of the future is made of it.
    type Refusal;

    /// For a caller that blocks its thread: then no other thread may drive the runtime of the caller.
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

/// Resolves as the future does that is in it, for a caller that makes another error of the refusal.
#[pin_project]
pub(crate) struct Attempt<F>(#[pin] pub(crate) F);

impl<F: Waits> Future for Attempt<F> {
    type Output = Result<F::Guard, F::Refusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().0.poll_guard(context)
    }
}

/// Defines a public future: its generic parameters, with bounds and without, its fields, and how it is polled.
///
/// The first field is the wait. The second, if there is one, is the lock, borrowed or owned: it is dropped after the
/// wait. The expression polls the wait for the guard.
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
            /// As tokio's futures, so that what is inside may change.
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
