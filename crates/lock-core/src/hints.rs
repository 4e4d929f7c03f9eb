//! The way of the hints from a connection to one [`Watch`](crate::Watch), for backends: a bounded channel that loses no
//! news.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::stream::Stream;
use futures::task::AtomicWaker;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::Hint;

/// So many hints wait for a user who does not take them. Further ones become one [`Hint::Resync`].
const MOST_HINTS: usize = 256;

/// Makes the two ends of a watch.
///
/// 256 hints wait for a user who does not take them. Further hints become one [`Hint::Resync`].
///
/// # Examples
///
/// ```
/// use futures::StreamExt;
/// use lock_core::hints::hints;
/// use lock_core::{Hint, Watch};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (giver, taker) = hints();
/// let mut watch = Watch::new(taker);
/// giver.give(Hint::Released);
/// drop(giver);
/// assert_eq!(watch.next().await, Some(Hint::Released));
/// assert_eq!(watch.next().await, None);
/// # }
/// ```
pub fn hints() -> (Giver, Taker) {
    let (sender, receiver) = mpsc::channel(MOST_HINTS);
    let missed = Arc::new(Missed::default());
    (Giver { sender, missed: Arc::clone(&missed) }, Taker { receiver, missed })
}

/// The end at which hints come in. The stream ends when all clones of this end are dropped. [`hints()`] makes one.
#[derive(Clone, Debug)]
pub struct Giver {
    sender: Sender<Hint>,
    missed: Arc<Missed>,
}

/// The hints, in order. [`hints()`] makes one.
#[derive(Debug)]
pub struct Taker {
    receiver: Receiver<Hint>,
    missed: Arc<Missed>,
}

/// Whether a hint found no room.
#[derive(Debug, Default)]
struct Missed {
    is_so: AtomicBool,
    waker: AtomicWaker,
}

impl Giver {
    /// Hands a hint on, without waiting. If there is no room, the user gets one [`Hint::Resync`] after the hints that
    /// wait. The call may wake a task, so it does not belong under a lock.
    ///
    /// The [example](hints()) gives one.
    pub fn give(&self, hint: Hint) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(hint) {
            self.missed.is_so.store(true, Ordering::Release);
            self.missed.waker.wake();
        }
    }
}

impl Stream for Taker {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        // A hint may be missed between the two looks, so the waker comes first.
        self.missed.waker.register(context.waker());
        match self.receiver.poll_recv(context) {
            Poll::Pending if self.missed.is_so.swap(false, Ordering::AcqRel) => {
                Poll::Ready(Some(Hint::Resync))
            }
            polled => polled,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn next(taker: &mut Taker) -> Option<Option<Hint>> {
        taker.next().now_or_never()
    }

    #[test]
    fn further_hints_become_one_and_later_ones_come_as_they_are() {
        let (giver, mut taker) = hints();
        for _ in 0..10 * MOST_HINTS {
            giver.give(Hint::Released);
        }
        for _ in 0..MOST_HINTS {
            assert_eq!(next(&mut taker), Some(Some(Hint::Released)));
        }
        assert_eq!(next(&mut taker), Some(Some(Hint::Resync)));
        assert_eq!(next(&mut taker), None);
        giver.give(Hint::Changed);
        assert_eq!(next(&mut taker), Some(Some(Hint::Changed)));
        drop(giver);
        assert_eq!(next(&mut taker), Some(None));
    }
}
