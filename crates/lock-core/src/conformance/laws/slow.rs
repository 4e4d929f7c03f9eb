//! A client that is slow to see its reply.

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
