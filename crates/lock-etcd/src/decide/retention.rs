//! The lease of etcd with which documents at rest go.

use std::time::Duration;

use lock_core::{Clock, Instant};
use tokio::sync::Mutex;

use crate::link::Link;

/// The time of the lease that is asked for. A document at rest is kept for half of this time at least.
const TIME: Duration = Duration::from_secs(2 * 60 * 60);

/// The lease that this client has now, and until when it lives for half of its time at least.
#[derive(Default)]
pub(crate) struct Retention(Mutex<Option<(i64, Instant)>>);

impl Retention {
    /// The number of a lease that lives for half of its time at least. 0 if etcd grants none: then the documents stay.
    pub(super) async fn obtain(&self, link: &Link) -> i64 {
        let mut current = self.0.lock().await;
        let now = Clock::boot().now();
        if let Some((id, until)) = *current
            && until > now
        {
            return id;
        }
        let granted = link.grant(i64::try_from(TIME.as_secs()).unwrap_or(i64::MAX)).await;
        let until =
            |given| now + TIME.min(Duration::from_secs(u64::try_from(given).unwrap_or(0))) / 2;
        *current = granted.as_ref().ok().map(|(id, given)| (*id, until(*given)));
        drop(current);
        match granted {
            Ok((id, _)) => id,
            Err(fault) => {
                tracing::debug!(error = %fault.error, "no lease for documents at rest");
                0
            }
        }
    }

    /// This lease may be over.
    pub(super) async fn forget(&self, id: i64) {
        let mut current = self.0.lock().await;
        if current.is_some_and(|(it, _)| it == id) {
            *current = None;
        }
    }
}
