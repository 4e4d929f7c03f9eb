//! From synchronous code.

use std::future::Future;

/// Panics where tokio's blocking functions do, with their words and the caller's location.
#[track_caller]
pub(crate) fn assert_may_block() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // The answer is there already: all that is left of blocking is the check.
    let _ = sender.send(());
    let _ = receiver.blocking_recv();
}

/// Waits for a future of this crate, which needs no runtime of the caller's.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(future)
}
