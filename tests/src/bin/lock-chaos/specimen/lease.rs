//! A lease, and its renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{Clock, Instant};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::flaw::Flaw;
use super::link::Failed;

/// The right of a holder until its deadline.
pub(super) struct Lease {
    ttl: Duration,
    flaw: Flaw,
    valid_until: AtomicU64,
    is_lost: watch::Sender<bool>,
}

impl Lease {
    /// Requested at this time, and granted just now.
    pub(super) fn new(ttl: Duration, flaw: Flaw, asked: Instant) -> Arc<Self> {
        let lease =
            Self { ttl, flaw, valid_until: AtomicU64::new(0), is_lost: watch::Sender::new(false) };
        lease.valid_until.store(lease.end(asked).as_nanos(), Ordering::Release);
        Arc::new(lease)
    }

    /// The deadline of a lease that was requested at this time, on the client's clock: the clock of the
    /// server may be ahead by the drift.
    fn end(&self, asked: Instant) -> Instant {
        match self.flaw {
            Flaw::MuteLoss | Flaw::NoTtl => Instant::FAR_FUTURE,
            Flaw::NoValidity => now() + self.ttl,
            _ => asked + (self.ttl - drift(self.ttl)),
        }
    }

    pub(super) fn valid_until(&self) -> Instant {
        Instant::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// Whether this much time is left, and the server has not reported the loss.
    pub(super) fn lasts(&self, time: Duration) -> bool {
        !*self.is_lost.borrow() && now() + time < self.valid_until()
    }

    /// Returns when the lease is lost.
    pub(super) async fn lost(&self) {
        let mut is_lost = self.is_lost.subscribe();
        // A sender exists as long as the lease.
        _ = is_lost.wait_for(|lost| *lost).await;
    }

    /// The next task that holds it has as much time as a task with a new grant.
    pub(super) fn pretend(&self) {
        self.valid_until.store((now() + self.ttl).as_nanos(), Ordering::Release);
    }

    /// Renews the lease until it is lost, or until this task is aborted.
    pub(super) fn keep<F>(self: &Arc<Self>, renew: impl Fn() -> F + Send + 'static) -> AbortHandle
    where
        F: Future<Output = Result<bool, Failed>> + Send,
    {
        let lease = Arc::clone(self);
        let task = tokio::spawn(async move {
            if lease.flaw == Flaw::NoTtl {
                return;
            }
            let mut pause = lease.ttl / 3;
            loop {
                tokio::time::sleep(pause).await;
                let asked = now();
                if lease.is_over(asked) {
                    break;
                }
                match renew().await {
                    Ok(true) if !lease.is_over(now()) => {
                        let end = match lease.flaw {
                            Flaw::ExtensionFromAcquire => lease.valid_until() + lease.ttl,
                            _ => lease.end(asked),
                        };
                        lease.valid_until.store(end.as_nanos(), Ordering::Release);
                        pause = lease.ttl / 3;
                    }
                    Ok(_) => break,
                    // The lease is still valid for its old time.
                    Err(Failed) => pause = lease.ttl / 20,
                }
            }
            if lease.flaw != Flaw::MuteLoss {
                lease.valid_until.fetch_min(now().as_nanos(), Ordering::AcqRel);
                lease.is_lost.send_replace(true);
            }
        });
        task.abort_handle()
    }

    /// Whether there is nothing to renew. A lease that is recreated is never over.
    fn is_over(&self, at: Instant) -> bool {
        self.flaw != Flaw::RenewRecreates && at >= self.valid_until()
    }
}

/// How far two clocks may differ at the end of a lease.
fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

pub(super) fn now() -> Instant {
    Clock::boot().now()
}
