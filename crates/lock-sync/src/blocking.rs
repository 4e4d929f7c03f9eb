//! Waiting from synchronous code.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Panics where tokio's blocking functions panic, with their message and the caller's location.
#[track_caller]
pub(crate) fn assert_may_block() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // The value has already arrived, so `blocking_recv` only makes the check.
    let _ = sender.send(());
    let _ = receiver.blocking_recv();
}

/// Waits for a future of this crate. The caller needs no runtime.
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
