//! A gate at which a test holds messages.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

/// Messages that a test holds back, one after another, until it lets them go.
///
/// Made by [`Faults::hold_requests`](super::Faults::hold_requests) and
/// [`Faults::hold_replies`](super::Faults::hold_replies). Dropping the gate opens it for good, so that a
/// test that fails half-way does not hang.
///
/// The [example](super::Faults#examples) of the faults shows how a store misbehaves.
#[derive(Debug)]
#[must_use = "a gate opens when it is dropped"]
pub struct Gate(Arc<Barrier>);

impl Gate {
    /// Waits until `count` messages in all have arrived. Messages that have passed, or whose future was dropped,
    /// count too.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn arrived(&self, count: usize) {
        let mut arrivals = self.0.arrivals.subscribe();
        // Fails only if the sender is gone, but the sender is borrowed here.
        let _never = arrivals.wait_for(|arrived| *arrived >= count).await;
    }

    /// Lets `count` messages pass: those that wait, or the next ones that come.
    pub fn let_through(&self, count: usize) {
        self.0.passes.add_permits(count);
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.0.open();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// The gate as messages see it.
#[derive(Debug)]
pub(super) struct Barrier {
    passes: Semaphore,
    arrivals: watch::Sender<usize>,
}

impl Barrier {
    pub(super) fn new() -> (Gate, Arc<Self>) {
        let barrier = Self { passes: Semaphore::new(0), arrivals: watch::Sender::new(0) };
        let barrier = Arc::new(barrier);
        (Gate(Arc::clone(&barrier)), barrier)
    }

    pub(super) async fn pass(&self) {
        self.arrivals.send_modify(|arrived| *arrived += 1);
        // An error means that the semaphore is closed: the gate is open for good.
        if let Ok(pass) = self.passes.acquire().await {
            pass.forget();
        }
    }

    pub(super) fn open(&self) {
        self.passes.close();
    }
}
