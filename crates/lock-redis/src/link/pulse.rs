//! Deadlines for many requests from one timer.
//!
//! A timer per request costs a lock on the runtime's timer wheel and, from another thread, a wake-up
//! of whoever drives that wheel: as much as the request itself. Here one task per connection beats
//! while requests are under way; each beat lets them look at the clock. It also means that a request
//! needs no runtime on the thread that polls it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{Clock, Instant};
use tokio::sync::Notify;
use tokio::time;

/// How much finer than the time limit the beat is.
const BEATS: u32 = 16;

/// The deadline of one request has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// One timer for the deadlines of many requests, all with the same time limit.
#[derive(Debug)]
pub(crate) struct Pulse {
    limit: Duration,
    beat: Notify,
    /// A request began since the last beat.
    busy: AtomicBool,
    /// The beating task waits for a request.
    asleep: AtomicBool,
    wake: Notify,
}

impl Pulse {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            beat: Notify::new(),
            busy: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// Runs a request that began at `sent`, until the limit is over.
    pub(crate) async fn within<F: Future>(
        &self,
        clock: Clock,
        sent: Instant,
        mut request: Pin<&mut F>,
    ) -> Result<F::Output, Elapsed> {
        self.quicken();
        loop {
            tokio::select! {
                biased;
                outcome = &mut request => return Ok(outcome),
                () = self.beat.notified() => {
                    if clock.now().saturating_duration_since(sent) >= self.limit {
                        return Err(Elapsed);
                    }
                }
            }
        }
    }

    /// Beats while there are requests, for as long as it is polled.
    pub(crate) async fn run(&self) {
        let mut quiet = 0;
        loop {
            if self.busy.swap(false, Ordering::SeqCst) {
                quiet = 0;
            } else {
                quiet += 1;
            }
            // By then the last request has been told that its time is over.
            if quiet > BEATS + 2 {
                self.sleep().await;
                quiet = 0;
            }
            time::sleep(self.limit / BEATS).await;
            self.beat.notify_waiters();
        }
    }

    /// Makes sure that somebody beats.
    fn quicken(&self) {
        if self.busy.load(Ordering::Relaxed) {
            return;
        }
        // Either this sees that the task sleeps, or the task sees before it sleeps that this is
        // busy: hence the one order of all four operations.
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
    use std::sync::Arc;

    use super::*;

    const CLOCK: Clock = Clock::boot();

    fn pulse(limit: Duration) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse::new(limit));
        tokio::spawn({
            let pulse = Arc::clone(&pulse);
            async move { pulse.run().await }
        });
        pulse
    }

    #[tokio::test]
    async fn a_request_without_a_reply_ends_at_the_limit() {
        let limit = Duration::from_millis(160);
        let pulse = pulse(limit);
        let sent = CLOCK.now();
        assert_eq!(pulse.within(CLOCK, sent, pin!(pending::<()>())).await, Err(Elapsed));
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
        assert_eq!(pulse.within(CLOCK, CLOCK.now(), pin!(pending::<()>())).await, Err(Elapsed));
    }
}
