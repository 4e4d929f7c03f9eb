//! Letting other tasks run.

use std::future::poll_fn;
use std::task::Poll;

/// Goes to the end of the worker's queue.
///
/// Tokio's own yield would first make the worker look at its sockets, which would be most of the measured time.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
