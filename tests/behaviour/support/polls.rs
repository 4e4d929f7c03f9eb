//! Futures that are given up at a chosen point.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use super::soon;

/// The future was dropped after as many polls as were asked for.
#[derive(Debug)]
pub(crate) struct PolledOut;

/// Polls a future each time it is woken, and drops it at the end of the last of `polls` polls.
///
/// Fails the test if it is not woken soon.
#[track_caller]
pub(crate) fn after_polls<F: Future>(
    future: F,
    polls: usize,
) -> impl Future<Output = Result<F::Output, PolledOut>> {
    soon(async move {
        let mut future = pin!(future);
        let mut left = polls;
        poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(Err(PolledOut));
            }
            left -= 1;
            match future.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending if left == 0 => Poll::Ready(Err(PolledOut)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    })
}

/// Ends at an instant, to the microsecond: the timers of a runtime are too coarse to hit a reply.
pub(crate) async fn spin_until(instant: Instant) {
    while Instant::now() < instant {
        tokio::task::yield_now().await;
    }
}
