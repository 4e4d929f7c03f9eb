//! From synchronous code.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

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
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
