//! Futures that are dropped early.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_tests::Random;

/// How long a task continues a wait that it has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whim {
    /// To the end.
    Steady,
    /// For this many polls. Zero means no poll.
    Polls(usize),
    /// For this time.
    Time(Duration),
}

impl Whim {
    /// Mostly steady.
    pub(crate) fn draw(random: &mut Random, longest: Duration) -> Self {
        match random.below(100) {
            0..=7 => Self::Polls(random.below(7)),
            8..=12 => Self::Time(random.between(Duration::ZERO, longest)),
            _ => Self::Steady,
        }
    }

    /// Polls a future until it is done, or this limit is reached: then the future is dropped, and
    /// the result is `None`.
    pub(crate) async fn bear<F: Future>(self, future: F) -> Option<F::Output> {
        match self {
            Self::Steady => Some(future.await),
            Self::Polls(polls) => after_polls(future, polls).await,
            Self::Time(time) => tokio::time::timeout(time, future).await.ok(),
        }
    }
}

/// Polls a future each time it is woken, and drops it at the end of the last of `polls` polls.
async fn after_polls<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is done after this many polls.
    async fn done_after(polls: usize) -> usize {
        for _ in 1..polls {
            tokio::task::yield_now().await;
        }
        polls
    }

    #[tokio::test]
    async fn a_future_is_given_up_after_so_many_polls_or_so_long() {
        for polls in 0..5 {
            let done = Whim::Polls(polls).bear(done_after(3)).await;
            assert_eq!(done, (polls >= 3).then_some(3), "{polls}");
        }
        assert_eq!(Whim::Steady.bear(done_after(9)).await, Some(9));
        let never = std::future::pending::<()>();
        assert_eq!(Whim::Time(Duration::from_millis(1)).bear(never).await, None);
    }

    #[test]
    fn all_whims_occur_and_most_are_none() {
        let mut random = Random::from_seed(1);
        let longest = Duration::from_millis(50);
        let drawn: Vec<Whim> = (0..1_000).map(|_| Whim::draw(&mut random, longest)).collect();
        for polls in 0..7 {
            assert!(drawn.contains(&Whim::Polls(polls)), "{polls}");
        }
        let timed = drawn.iter().filter(|whim| matches!(whim, Whim::Time(time) if *time < longest));
        assert!(timed.count() > 20);
        assert!(drawn.iter().filter(|whim| **whim == Whim::Steady).count() > 700);
    }
}
