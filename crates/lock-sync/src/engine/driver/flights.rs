//! The count of the requests under way.

use std::sync::Arc;

use crate::foreign::Bell;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests, so that a shutdown can wait until the last one has its answer.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    count: AtomicUsize,
    landed: Bell,
}

/// One request under way, from before it is sent until after its answer is used.
#[derive(Debug)]
pub(crate) struct Flight(Arc<Flights>);

impl Flights {
    pub(crate) fn begin(self: &Arc<Self>) -> Flight {
        self.count.fetch_add(1, Ordering::Relaxed);
        Flight(Arc::clone(self))
    }

    /// Waits for a moment in which no request is under way.
    pub(crate) async fn all_landed(&self) {
        loop {
            let landed = self.landed.listen();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            landed.await;
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.landed.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_waits_for_the_last() {
        let flights = Arc::new(Flights::default());
        flights.all_landed().await;
        let (first, second) = (flights.begin(), flights.begin());
        let waiting = tokio::spawn({
            let flights = Arc::clone(&flights);
            async move { flights.all_landed().await }
        });
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }
}
