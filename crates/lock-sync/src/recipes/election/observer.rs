//! Observing the leader.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{Stream, unfold};
use lock_core::{Error, ErrorKind};

use super::LeaderInfo;
use crate::bare::{Denial, Limit};
use crate::recipes::cell::{RemoteCell, Watcher};

/// Reports the leader of an [`Election`](crate::Election), and each change.
/// [`Election::observe`](crate::Election::observe) returns it.
///
/// The observer asks the store after each hint. A hint can get lost, and the death of a leader sends no hint. So
/// the observer also asks every third of a [lease](crate::Builder::ttl). If there are several changes between
/// two requests, it reports only the last.
pub struct Observer {
    remote: Arc<RemoteCell>,
    watcher: Watcher,
    /// There may be a change that the observer has not loaded yet.
    stale: bool,
    /// The last reported state.
    told: Option<Option<LeaderInfo>>,
}

impl Observer {
    pub(super) fn new(remote: Arc<RemoteCell>) -> Self {
        let watcher = remote.watcher(remote.interval());
        Self { remote, watcher, stale: false, told: None }
    }

    /// The first call returns the present leader. Each later call waits for a change, and returns the new leader. The
    /// result is `None` if there is no leader.
    ///
    /// The observer reconnects by itself. After an error, call `next` again to go on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change.
    ///
    /// # Errors
    ///
    /// - an error of the kind [`ErrorKind::ShuttingDown`] after [`Locks::shutdown`](crate::Locks::shutdown), and once
    ///   the runtime of the driver has ended. A shutdown also ends a call that already waits;
    /// - an error of the store or of the connection to it, if the error is not retryable, or has lasted as long as a
    ///   lease lives.
    pub async fn next(&mut self) -> Result<Option<LeaderInfo>, Error> {
        let remote = Arc::clone(&self.remote);
        tokio::select! {
            biased;
            () = remote.bare().closed() => Err(error(Denial::Closed)),
            next = self.next_change() => next,
        }
    }

    async fn next_change(&mut self) -> Result<Option<LeaderInfo>, Error> {
        loop {
            if !self.stale {
                self.watcher.changed().await;
                self.stale = true;
            }
            let found = self.remote.load_patiently(Limit::none()).await;
            self.stale = false;
            let leader = found.map_err(error)?.and_then(LeaderInfo::of);
            if self.told.as_ref() != Some(&leader) {
                self.told = Some(leader.clone());
                return Ok(leader);
            }
        }
    }

    /// The results of [`next`](Self::next) as a stream. It ends after an error of the kind
    /// [`ErrorKind::ShuttingDown`]: no later result would differ.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::pin::pin;
    /// # use futures::StreamExt;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mut leaders = pin!(locks.election("primary")?.observe().into_stream());
    /// assert_eq!(leaders.next().await.transpose()?, Some(None));
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(
        self,
    ) -> impl Stream<Item = Result<Option<LeaderInfo>, Error>> + Send + Sync + 'static {
        unfold(Some(self), async |observer| {
            let mut observer = observer?;
            let next = observer.next().await;
            let is_last = next.as_ref().is_err_and(|error| error.kind() == ErrorKind::ShuttingDown);
            Some((next, (!is_last).then_some(observer)))
        })
        // A bare `unfold` panics if it is polled after its end.
        .fuse()
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("key", self.remote.key()).finish_non_exhaustive()
    }
}

fn error(denial: Denial) -> Error {
    match denial {
        Denial::Failed(error) | Denial::Timeout(Some(error)) => error,
        Denial::Closed => Error::new(ErrorKind::ShuttingDown, "the locks are shutting down"),
        // A load has no wait limit, and the store refuses no load.
        other => Error::new(ErrorKind::Other, format!("cannot look: {other:?}")),
    }
}
