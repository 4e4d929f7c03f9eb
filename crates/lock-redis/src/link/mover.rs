//! Moving the bytes of a connection on any thread that has a reason to.
//!
//! If only a task of its own polled the future of a connection, each request would cost two changes of
//! thread: one to write the request, one to read the reply. On an idle connection the second thread has
//! nothing else to do. So a request that finds the connection idle writes itself: it polls the future once
//! on its own thread. A request that finds others under way leaves the writing to the task, which then
//! writes many of them at once.
//!
//! Measured as a pair of scripts on an otherwise idle server, compared with a future on a task of the same
//! runtime: two thirds of the time from the body of a multi-thread runtime, and equal time from a task.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures::task::AtomicWaker;
use tokio::task::coop::unconstrained;

use crate::wire::Driver;

/// The future of a connection. Its task and the requests poll it in turn.
pub(super) struct Mover {
    /// `None` once the connection has ended.
    driver: Mutex<Option<Driver>>,
    /// The task that polls the future when the socket is ready.
    task: AtomicWaker,
    state: AtomicU8,
    /// How many requests are under way.
    requests: AtomicUsize,
}

/// A request polls the future: the task need not wake before the request is done.
const INLINE: u8 = 1;
/// The future was woken after its last poll.
const WOKEN: u8 = 2;

impl Mover {
    pub(super) fn new(driver: Driver) -> Arc<Self> {
        Arc::new(Self {
            driver: Mutex::new(Some(driver)),
            task: AtomicWaker::new(),
            state: AtomicU8::new(0),
            requests: AtomicUsize::new(0),
        })
    }

    /// Polls the connection until it ends: the body of the task. The connection also ends with the task.
    pub(super) async fn run(self: Arc<Self>) {
        let mover = Hangup(self);
        std::future::poll_fn(|context| {
            mover.0.task.register(context.waker());
            mover.0.state.fetch_and(!WOKEN, Ordering::AcqRel);
            let mut driver = mover.0.driver();
            mover.0.poll(&mut driver)
        })
        .await;
    }

    /// Runs a request, and writes its command at once if the connection is idle.
    ///
    /// A future that takes another by value stores it twice, so every wrapper of a request takes it
    /// pinned: otherwise the future of a call was five times as big, and a tenth of the client's time went
    /// into moving it.
    pub(super) async fn carry<F: Future>(self: &Arc<Self>, mut request: Pin<&mut F>) -> F::Output {
        let under_way = UnderWay::begin(&self.requests);
        let mut fresh = under_way.alone;
        std::future::poll_fn(|context| {
            if std::mem::take(&mut fresh)
                && let Some(driver) = self.try_driver()
            {
                // The reply may come before this poll is over. It needs to wake no task: a task that is
                // woken while it is polled loses its turn, and another thread looks for work.
                let mut no_task = Context::from_waker(Waker::noop());
                let outcome = self.write(driver, || request.as_mut().poll(&mut no_task));
                if outcome.is_ready() {
                    return outcome;
                }
            }
            request.as_mut().poll(context)
        })
        .await
    }

    /// Makes a request put its command into the connection's queue, and polls the connection, which writes
    /// the command.
    fn write<T>(
        self: &Arc<Self>,
        mut driver: MutexGuard<'_, Option<Driver>>,
        enqueue: impl FnOnce() -> T,
    ) -> T {
        let _inline = Inline::begin(self);
        let outcome = enqueue();
        // The poll that follows serves everything that has woken the connection by now.
        self.state.fetch_and(!WOKEN, Ordering::AcqRel);
        if self.poll(&mut driver).is_ready() {
            // The task has to see the end, too.
            self.state.fetch_or(WOKEN, Ordering::AcqRel);
        }
        outcome
    }

    fn poll(self: &Arc<Self>, driver: &mut Option<Driver>) -> Poll<()> {
        // The future is put back while it is pending. A future that panics is gone, which ends the
        // connection.
        let Some(mut running) = driver.take() else { return Poll::Ready(()) };
        let waker = Waker::from(Arc::clone(self));
        // The budget of the polling task does not apply to the connection.
        let polled = std::pin::pin!(unconstrained(running.as_mut()));
        let poll = polled.poll(&mut Context::from_waker(&waker));
        if poll.is_pending() {
            *driver = Some(running);
        }
        poll
    }

    fn driver(&self) -> MutexGuard<'_, Option<Driver>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_driver(&self) -> Option<MutexGuard<'_, Option<Driver>>> {
        match self.driver.try_lock() {
            Ok(driver) => Some(driver),
            Err(TryLockError::Poisoned(driver)) => Some(driver.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The waker for the connection's future, whichever task or request polls it.
impl Wake for Mover {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & INLINE == 0 {
            self.task.wake();
        }
    }
}

/// While this value lives, waking the connection waits: its thread is about to poll the connection.
struct Inline<'a>(&'a Mover);

impl<'a> Inline<'a> {
    fn begin(mover: &'a Mover) -> Self {
        mover.state.fetch_or(INLINE, Ordering::AcqRel);
        Self(mover)
    }
}

impl Drop for Inline<'_> {
    fn drop(&mut self) {
        let woken = self.0.state.fetch_and(!INLINE, Ordering::AcqRel) & WOKEN != 0;
        // The connection itself may have panicked, and the task has to see its end.
        if woken || thread::panicking() {
            self.0.task.wake();
        }
    }
}

/// Ends the connection together with its task, so that no request waits for a reply that no task is going
/// to read.
struct Hangup(Arc<Mover>);

impl Drop for Hangup {
    fn drop(&mut self) {
        let driver = self.0.driver().take();
        drop(driver);
    }
}

/// Counts one request while this value lives.
struct UnderWay<'a> {
    requests: &'a AtomicUsize,
    alone: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(requests: &'a AtomicUsize) -> Self {
        Self { requests, alone: requests.fetch_add(1, Ordering::AcqRel) == 0 }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::task::{JoinHandle, yield_now};
    use tokio::time;

    use super::*;

    /// A connection that panics when it is polled after it was broken, and the task that polls it.
    async fn breakable() -> (Arc<Mover>, Arc<AtomicBool>, JoinHandle<()>) {
        let broken = Arc::new(AtomicBool::new(false));
        let is_broken = Arc::clone(&broken);
        let mover = Mover::new(Box::pin(std::future::poll_fn(move |_| {
            assert!(!is_broken.load(Ordering::SeqCst), "the connection panics");
            Poll::Pending
        })));
        let task = tokio::spawn(Arc::clone(&mover).run());
        yield_now().await;
        (mover, broken, task)
    }

    async fn panics<F: Future>(request: F) -> bool {
        AssertUnwindSafe(request).catch_unwind().await.is_err()
    }

    #[tokio::test]
    async fn a_connection_that_panics_has_ended() {
        let (mover, broken, task) = breakable().await;
        broken.store(true, Ordering::SeqCst);
        assert!(panics(mover.carry(pin!(async {}))).await);
        time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
        // The connection is not polled again.
        mover.carry(pin!(async {})).await;
    }

    #[tokio::test]
    async fn after_a_request_that_panics_the_connection_is_woken_as_before() {
        let (mover, broken, task) = breakable().await;
        assert!(panics(mover.carry(pin!(async { panic!("the request panics") }))).await);
        assert_eq!(mover.state.load(Ordering::SeqCst) & INLINE, 0);
        broken.store(true, Ordering::SeqCst);
        mover.wake_by_ref();
        let ended = time::timeout(Duration::from_secs(20), task).await.unwrap();
        assert!(ended.unwrap_err().is_panic());
    }
}
