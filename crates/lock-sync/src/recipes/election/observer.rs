//! Seeing who leads.

use std::fmt;
use std::sync::Arc;

use futures::stream::{Stream, unfold};
use lock_core::Error;

use super::LeaderInfo;
use crate::bare::{Denial, Limit};
use crate::recipes::cell::{RemoteCell, Watcher};

/// Tells who leads an [`Election`](crate::Election), and each change of it: what
/// [`Election::observe`](crate::Election::observe) returns.
///
/// A change is told when the store gives a hint of it. In case that is lost, or cannot be given, because a
/// leader has died for instance, the observer looks every third of a [lease](crate::Builder::ttl). It sees
/// the state of each look: of changes that follow one another faster it may see the last alone.
pub struct Observer {
    remote: Arc<RemoteCell>,
    watcher: Watcher,
    /// There may be something new that was not looked at yet.
    stale: bool,
    /// What was told last.
    told: Option<Option<LeaderInfo>>,
}

impl Observer {
    pub(super) fn new(remote: Arc<RemoteCell>) -> Self {
        let watcher = remote.watcher(remote.interval());
        Self { remote, watcher, stale: false, told: None }
    }

    /// Who leads now, with the first call; afterwards who leads when that has changed, or `None` if nobody
    /// does.
    ///
    /// It reconnects by itself. After an error, call it again to go on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does, if time does not cure it or did not within a lease.
    pub async fn next(&mut self) -> Result<Option<LeaderInfo>, Error> {
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

    /// The same as a stream, which has no end.
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
        unfold(self, async |mut observer| Some((observer.next().await, observer)))
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
        // Looking is neither limited nor refused.
        other => Error::new(lock_core::ErrorKind::Other, format!("cannot look: {other:?}")),
    }
}
