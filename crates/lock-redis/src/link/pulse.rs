//! Deadlines of many requests, from one timer.
//!
//! A timer per request costs a lock on the runtime's timer wheel and, from another thread, a wake-up
//! of the thread that drives that wheel: as much as the request itself. Here one task per connection
//! beats while requests are under way, and each beat makes them look at the clock. So a request also
//! needs no runtime on the thread that polls it.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{Clock, Instant};
use tokio::sync::Notify;
use tokio::time;

/// The number of beats in one time limit.
const BEATS: u32 = 16;

/// Why a request has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Its deadline has passed.
    Late,
    /// The connection has ended. A request that enters a queue while its reader is dropped never learns
    /// that from the queue.
    Ended,
}

/// One timer for the deadlines of many requests, all with one time limit.
#[derive(Debug)]
pub(crate) struct Pulse {
    limit: Duration,
    beat: Notify,
    /// A request began after the last beat.
    busy: AtomicBool,
    /// The beating task waits for a request.
    asleep: AtomicBool,
    wake: Notify,
    /// The connection has ended, and there are no more beats.
    ended: AtomicBool,
}

/// Ends the requests when the task that beats for them ends, in whatever way.
struct Last(Arc<Pulse>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.beat.notify_waiters();
    }
}

impl Pulse {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            beat: Notify::new(),
            busy: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            wake: Notify::new(),
            ended: AtomicBool::new(false),
        }
    }

    /// Runs a request that began at `sent`, until the limit is over or the connection has ended.
    pub(crate) async fn within<F: Future>(
        &self,
        clock: Clock,
        sent: Instant,
        mut request: Pin<&mut F>,
    ) -> Result<F::Output, Unanswered> {
        self.quicken();
        loop {
            let beat = self.beat.notified();
            let ended = self.ended.load(Ordering::SeqCst);
            tokio::select! {
                biased;
                outcome = &mut request => return Ok(outcome),
                () = ready(()), if ended => return Err(Unanswered::Ended),
                () = beat => {
                    if clock.now().saturating_duration_since(sent) >= self.limit {
                        return Err(Unanswered::Late);
                    }
                }
            }
        }
    }

    /// Beats while there are requests, until the connection has ended.
    pub(crate) fn run(
        self: Arc<Self>,
        ended: impl Future<Output = ()>,
    ) -> impl Future<Output = ()> {
        // A task that is never polled ends the requests as well.
        let last = Last(self);
        async move {
            tokio::select! {
                () = last.0.beat() => {}
                () = ended => {}
            }
        }
    }

    async fn beat(&self) {
        let mut quiet = 0;
        loop {
            if self.busy.swap(false, Ordering::SeqCst) {
                quiet = 0;
            } else {
                quiet += 1;
            }
            // By then every request has seen that its time is over.
            if quiet > BEATS + 2 {
                self.sleep().await;
                quiet = 0;
            }
            time::sleep(self.limit / BEATS).await;
            self.beat.notify_waiters();
        }
    }

    /// Makes sure that the task beats.
    fn quicken(&self) {
        if self.busy.load(Ordering::Relaxed) {
            return;
        }
        // Either this call sees that the task sleeps, or the task sees before it sleeps that the
        // pulse is busy: hence the sequentially consistent order of all four operations.
        self.busy.store(true, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    async fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        while !self.busy.load(Ordering::SeqCst) {
            self.wake.notified().await;
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use futures::FutureExt as _;

    use super::*;

    const CLOCK: Clock = Clock::boot();

    fn pulse(limit: Duration) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse::new(limit));
        tokio::spawn(Arc::clone(&pulse).run(pending()));
        pulse
    }

    #[tokio::test]
    async fn a_request_without_a_reply_ends_at_the_limit() {
        let limit = Duration::from_millis(160);
        let pulse = pulse(limit);
        let sent = CLOCK.now();
        assert_eq!(pulse.within(CLOCK, sent, pin!(pending::<()>())).await, Err(Unanswered::Late));
        assert!(CLOCK.now().saturating_duration_since(sent) >= limit);
    }

    #[tokio::test]
    async fn it_beats_again_after_it_slept() {
        let pulse = pulse(Duration::from_millis(32));
        assert_eq!(pulse.within(CLOCK, CLOCK.now(), pin!(async { 7 })).await, Ok(7));
        let mut patience = 10_000;
        while !pulse.asleep.load(Ordering::SeqCst) {
            patience -= 1;
            assert!(patience > 0, "it never sleeps");
            time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(
            pulse.within(CLOCK, CLOCK.now(), pin!(pending::<()>())).await,
            Err(Unanswered::Late)
        );
    }

    async fn ends(request: impl Future<Output = Result<(), Unanswered>>, end: impl FnOnce()) {
        let mut request = pin!(request);
        assert_eq!(request.as_mut().now_or_never(), None);
        end();
        assert_eq!(request.await, Err(Unanswered::Ended));
    }

    #[tokio::test]
    async fn a_request_ends_with_its_connection_or_its_task() {
        let now = CLOCK.now();
        for aborts in [false, true] {
            let pulse = Arc::new(Pulse::new(Duration::from_secs(3_600)));
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let task = tokio::spawn(Arc::clone(&pulse).run(async { drop(ended.await) }));
            let end = || if aborts { task.abort() } else { drop(end) };
            ends(pulse.within(CLOCK, now, pin!(pending())), end).await;
            // A later request ends as well, but its reply counts.
            ends_at_once(&pulse, now).await;
        }
    }

    async fn ends_at_once(pulse: &Pulse, now: Instant) {
        let silent = pulse.within(CLOCK, now, pin!(pending::<()>())).await;
        assert_eq!(silent, Err(Unanswered::Ended));
        assert_eq!(pulse.within(CLOCK, now, pin!(async { 7 })).await, Ok(7));
    }
}
