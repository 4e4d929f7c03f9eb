//! A client that is slow to see its reply, or does not wait for it.

use std::pin::pin;
use std::task::Poll;

/// Polls `request` once, so that it is on its way, and not again before `pause` is over.
///
/// This delays a reply without a hook: the store answers in the meantime, and the client does not look.
pub(super) async fn seen_late<T>(
    request: impl Future<Output = T>,
    pause: impl Future<Output = ()>,
) -> T {
    let mut request = pin!(request);
    let first = std::future::poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
    match first {
        Poll::Ready(answer) => answer,
        Poll::Pending => {
            pause.await;
            request.await
        }
    }
}

/// Polls a future `times` times at most, with turns for other tasks in between, and drops it.
pub(super) async fn poll_and_drop(times: usize, future: impl Future) {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if polled.await.is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}
