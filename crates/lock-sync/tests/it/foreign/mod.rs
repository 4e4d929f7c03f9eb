//! Wakers, errors and values are foreign code: they own guards and waiters, ask for locks, and panic.

mod errors;
mod owning;
mod panicking;
mod values;
mod waits;

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any machine needs.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs this on a thread of its own, so that a deadlock is a failure.
fn in_time(name: &str, work: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let thread = thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match ended.recv_timeout(LIMIT * 2) {
        Err(RecvTimeoutError::Timeout) => panic!("{name}: deadlock"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    }
}

/// Waits without a runtime.
fn until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < LIMIT, "never: {what}");
        thread::yield_now();
    }
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Polls until every request has its answer, which may come from another thread.
fn poll_into_line<F: Future + ?Sized>(future: &mut Pin<Box<F>>) {
    for _ in 0..200 {
        assert!(poll(future, Waker::noop()).is_pending(), "there was nothing to wait for");
        thread::yield_now();
    }
}

/// Remembers that it was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn new() -> (Arc<Self>, Waker) {
        let flag = Arc::new(Self::default());
        (Arc::clone(&flag), Waker::from(flag))
    }

    fn is_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}
