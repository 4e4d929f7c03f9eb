//! Futures that are dropped at a chosen point.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use super::soon;

/// The future was dropped after the requested number of polls.
#[derive(Debug)]
pub(crate) struct PolledOut;

/// Polls a future each time it is woken, and drops it at the end of the last of `polls` polls.
///
/// Fails the test if the future is not woken soon.
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

/// Asks over and over for a lock that another client holds, and releases at about the time when the
/// future is dropped, which is after each number of polls. `begin` returns the guard of the other
/// client, and the future. Returns how often the future was dropped, and how often it had a result.
pub(crate) async fn give_up_at_every_poll<H, F, G, E>(
    rounds: usize,
    begin: impl AsyncFn() -> (H, F),
) -> (usize, usize)
where
    F: Future<Output = Result<G, E>>,
    E: Debug,
{
    let (mut dropped, mut had) = (0, 0);
    for round in 0..rounds {
        for polls in 0..8 {
            let (held, asking) = begin().await;
            let let_go = async {
                for _ in 0..round % 16 {
                    tokio::task::yield_now().await;
                }
                drop(held);
            };
            match soon(async { tokio::join!(after_polls(asking, polls), let_go).0 }).await {
                Err(PolledOut) => dropped += 1,
                Ok(Ok(guard)) => {
                    had += 1;
                    drop(guard);
                }
                Ok(Err(error)) => panic!("{error:?}"),
            }
        }
    }
    (dropped, had)
}

/// Ends at an instant, to the microsecond: the timers of a runtime are too coarse to hit a reply.
pub(crate) async fn spin_until(instant: Instant) {
    while Instant::now() < instant {
        tokio::task::yield_now().await;
    }
}
