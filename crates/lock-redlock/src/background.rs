//! The runtime for all work for which no caller waits.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, select};
use futures::stream::{FuturesUnordered, StreamExt};
use lock_core::{Clock, Error, ErrorKind, Instant, runtime};
use tokio::runtime::{EnterGuard, Handle, Id};
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;

/// A runtime of the quorum, on a thread that ends when no task needs it any more; or a runtime of the app.
#[derive(Debug)]
pub(crate) struct Background {
    runtime: Handle,
    /// Ends when the last handle goes.
    open: watch::Receiver<()>,
    /// The worker ends when this sender is dropped and the works are done.
    works: mpsc::UnboundedSender<Work>,
}

type Work = BoxFuture<'static, ()>;

/// A part of each handle. Work that runs only while there is a handle ends with the last handle.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    _sender: Arc<watch::Sender<()>>,
}

impl Background {
    /// Uses this runtime, or starts a thread.
    pub(crate) fn start(runtime: Option<Handle>) -> Result<(Self, Open), Error> {
        let (sender, open) = watch::channel(());
        let (works, received) = mpsc::unbounded_channel();
        let runtime = match runtime {
            Some(runtime) => {
                runtime.spawn(do_all(received));
                runtime
            }
            None => runtime::spawn_thread("lock-redlock", do_all(received)).map_err(|error| {
                let message = "could not start the thread of the quorum";
                Error::with_source(ErrorKind::Other, message, error)
            })?,
        };
        Ok((Self { runtime, open, works }, Open { _sender: Arc::new(sender) }))
    }

    /// Hands some work to the worker, which runs it to its end. The work must end by itself.
    ///
    /// The call starts no task, so `Drop` may call it.
    pub(crate) fn hand_over(&self, work: impl Future<Output = ()> + Send + 'static) {
        // A panic must not end the other works.
        let work = AssertUnwindSafe(work).catch_unwind().map(drop).boxed();
        // If the runtime of the app has ended, the work is dropped.
        let _ended = self.works.send(work);
    }

    /// Runs some work as long as there is a handle.
    pub(crate) fn spawn_while_open(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut open = self.open.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = work => {}
                _closed = open.changed() => {}
            }
        });
    }

    /// Whether there is a handle.
    pub(crate) fn is_open(&self) -> bool {
        self.open.has_changed().is_ok()
    }

    /// Makes timers work on a thread without a runtime, as long as the guard lives.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        Handle::try_current().is_err().then(|| self.runtime.enter())
    }
}

/// Does all works at once.
async fn do_all(mut works: mpsc::UnboundedReceiver<Work>) {
    let mut begun = FuturesUnordered::new();
    loop {
        tokio::select! {
            // In a fixed order, so that a simulated story can be repeated.
            biased;
            work = works.recv() => match work {
                Some(work) => begun.push(work),
                None => break,
            },
            Some(()) = begun.next() => {}
        }
    }
    while begun.next().await.is_some() {}
}

/// A timer on the clock of the leases. It is set anew when its time changes, and when another runtime polls it, because
/// the runtime of the earlier polls may have ended.
#[derive(Debug, Default)]
pub(crate) struct Timer(Option<Set>);

#[derive(Debug)]
struct Set {
    at: Instant,
    runtime: Id,
    sleep: Pin<Box<Sleep>>,
}

impl Timer {
    /// Ready when this instant has come. Needs no runtime for [`Instant::FAR_FUTURE`].
    pub(crate) fn poll(
        &mut self,
        clock: Clock,
        at: Instant,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            return Poll::Pending;
        }
        let runtime = Handle::current().id();
        loop {
            let left = at.saturating_duration_since(clock.now());
            if left.is_zero() {
                self.0 = None;
                return Poll::Ready(());
            }
            let set = self.0.take().filter(|set| set.at == at && set.runtime == runtime);
            let new = || Set { at, runtime, sleep: Box::pin(tokio::time::sleep(left)) };
            ready!(self.0.insert(set.unwrap_or_else(new)).sleep.as_mut().poll(context));
            // The timer was early on this clock.
            self.0 = None;
        }
    }
}

/// Sleeps on the runtime that drives the timers of this thread.
pub(crate) async fn pause(background: &Background, clock: Clock, time: Duration) {
    let (mut timer, at) = (Timer::default(), clock.now() + time);
    poll_fn(|context| {
        let _entered = background.enter();
        timer.poll(clock, at, context)
    })
    .await;
}

/// Waits for some work, for this time at most. The work and the timer run on a thread without a runtime, too. `None` if
/// the time is over first.
pub(crate) async fn within<F: Future>(
    background: &Background,
    clock: Clock,
    time: Duration,
    work: F,
) -> Option<F::Output> {
    let (work, paused) = (pin!(work), pin!(pause(background, clock, time)));
    let mut first = select(work, paused);
    let first = poll_fn(|context| {
        let _entered = background.enter();
        first.poll_unpin(context)
    });
    match first.await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_ends_with_the_last_handle() {
        let (background, open) = Background::start(None).unwrap();
        let another = open.clone();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        background.spawn_while_open(async move {
            let _held = sender;
            std::future::pending::<()>().await;
        });
        drop(open);
        assert!(background.is_open());
        drop(another);
        // The sender goes with the task.
        assert!(receiver.recv().is_err());
        assert!(!background.is_open());
    }

    #[test]
    fn a_pause_outlives_the_runtime_that_began_it() {
        let (background, _open) = Background::start(None).unwrap();
        let mut pausing = Box::pin(pause(&background, Clock::boot(), Duration::from_millis(20)));
        let begin = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(begin.block_on(async { pausing.as_mut().now_or_never() }), None);
        drop(begin);
        let end = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        end.block_on(pausing);
    }

    #[test]
    fn what_has_an_end_comes_to_it() {
        let (background, open) = Background::start(None).unwrap();
        drop(open);
        let (sender, receiver) = std::sync::mpsc::channel();
        background.hand_over(async move {
            tokio::task::yield_now().await;
            let _received = sender.send(7);
        });
        assert_eq!(receiver.recv(), Ok(7));
    }
}
