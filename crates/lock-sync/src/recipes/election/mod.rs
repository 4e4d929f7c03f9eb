//! The election of one process of many.

mod info;
mod leadership;
mod observer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Cell, CellBackend, Error, Key};

pub use info::LeaderInfo;
pub use leadership::Leadership;
pub use observer::Observer;

use crate::bare::{Denial, Limit, Wait};
use crate::error::{LockError, TryLockError};
use crate::handoff::Handoff;
use crate::locks::Locks;
use crate::options::options;
use crate::recipes::cell::{RemoteCell, Unstored};

/// How often an elected candidate begins again because it lost its lease before it had stored its value.
const ATTEMPTS: u32 = 3;

/// An election: one of the candidates that [campaign](Self::campaign) leads, and all processes can see which one.
///
/// [`Locks::election`] makes an election and gives it a name. The leader holds the lock with that name, and stores a
/// value beside the lock, for example its address. All processes can [ask](Self::leader) for this value or
/// [observe](Self::observe) it. The value may have up to 64 KiB, and every client of the store can read it.
///
/// # What leading means
///
/// A [`Leadership`] has a *lease*, as a [guard](crate::Mutex#what-the-guard-means) has: there is at most one *valid*
/// leadership at a time. The driver renews the lease in the background while the leadership lives, and the leadership
/// reports its loss. When a leader crashes, another candidate leads after the lease has ended. A leader that stood
/// still may not know yet that it has a successor. So a leader should send its
/// [`fencing_token`](crate::Lease::fencing_token) with every change to the outside world. Every later leader has a
/// higher token.
///
/// Observers learn of a change a little late, and may take a former leader for the present one. So send requests to the
/// leader that you have observed, and let that process check [`is_valid`](crate::Lease::is_valid) itself. Over a
/// quorum, some processes may see the value of a new leader earlier than others: all see it once a majority has stored
/// it.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::Locks;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let election = locks.election("scheduler")?;
///
/// let leadership = election.campaign("10.0.0.7:80").await?;
/// let leader = election.leader().await?.ok_or("there is no leader")?;
/// assert_eq!(leader.value, b"10.0.0.7:80");
/// assert_eq!(leader.token, leadership.lease().fencing_token());
///
/// // The work of the leader, as long as it leads:
/// leadership.lease().while_held(async { /* ... */ }).await?;
///
/// leadership.resign().await?;
/// assert_eq!(election.leader().await?, None);
/// # Ok(())
/// # }
/// ```
pub struct Election {
    remote: Arc<RemoteCell>,
}

impl<B: ?Sized> Locks<B> {
    /// Makes the election with this name.
    ///
    /// Do not use the name of an election for another lock. The call sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if the name, with the
    /// [prefix](crate::Builder::prefix), is too long.
    pub fn election<K>(&self, name: K) -> Result<Election, Error>
    where
        B: CellBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        // The lease goes back to the store after every leadership. If the process handed the lease off, the value
        // of the former leader would stay beside it for a moment.
        let remote = RemoteCell::new(self, name)?.with_handoff(Handoff::Never);
        Ok(Election { remote: Arc::new(remote) })
    }
}

impl Election {
    options!("of a leader", "locks.election(\"report\")?", |this, change| {
        this.remote = Arc::new((*this.remote).clone().with_policy(change))
    });

    /// The [name](crate::Key) of the election.
    pub fn key(&self) -> &Key {
        self.remote.key()
    }

    /// Campaigns until elected, and then leads with this value.
    ///
    /// Candidates are elected in the order in which they came, in this process and among all processes. The
    /// [wait limit](crate::Builder::wait_limit) of the [`Locks`] bounds the wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the candidacy. If the candidate had just been elected, the leadership goes to the
    /// next candidate. Observers may have seen the value of the dropped candidate by then.
    ///
    /// # If the lease is lost
    ///
    /// If the lease is lost before the value is stored, the candidate campaigns again, a few times.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached;
    /// - [`LockError::Backend`] if the store refused, or, without a wait limit, if the store was out of reach for
    ///   longer than a lease lives. It has [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) if the
    ///   value is too long;
    /// - [`LockError::Lost`] if the lease was lost again and again before the value was stored;
    /// - [`LockError::Closed`] after [`Locks::shutdown`].
    pub async fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, LockError> {
        Ok(self.run(value.as_ref(), self.remote.bare().default_wait()).await?)
    }

    /// Campaigns for at most `limit`.
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    ///
    /// # Errors
    ///
    /// As [`campaign`](Self::campaign).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let election = locks.election("indexer")?;
    /// let first = election.campaign("first").await?;
    /// let second = election.campaign_timeout("second", Duration::from_millis(10)).await;
    /// assert!(matches!(second, Err(LockError::Timeout { .. })));
    /// # drop(first);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn campaign_timeout(
        &self,
        value: impl AsRef<[u8]>,
        limit: Duration,
    ) -> Result<Leadership, LockError> {
        Ok(self.run(value.as_ref(), Wait::AtMost(limit)).await?)
    }

    /// Leads with this value if there is no leader and no other candidate.
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if there is a leader or another candidate;
    /// - [`TryLockError::Backend`], [`TryLockError::Lost`] and [`TryLockError::Closed`] as
    ///   [`campaign`](Self::campaign).
    pub async fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, TryLockError> {
        Ok(self.run(value.as_ref(), Wait::Try).await?)
    }

    /// The present leader, if there is one. Asks the store.
    ///
    /// The answer is also `None` while a new leader has not yet stored its value.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it.
    pub async fn leader(&self) -> Result<Option<LeaderInfo>, Error> {
        Ok(self.remote.load().await?.and_then(LeaderInfo::of))
    }

    /// Observes the leader: [`Observer::next`] returns the present state first, and then each change.
    ///
    /// The call sends no request. The caller need not be a candidate, and the observer borrows nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let election = locks.election("primary")?;
    /// let mut observer = election.observe();
    /// assert_eq!(observer.next().await?, None);
    ///
    /// let _leadership = election.campaign("me").await?;
    /// let leader = observer.next().await?.ok_or("there is no leader")?;
    /// assert_eq!(leader.value, b"me");
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(&self) -> Observer {
        Observer::new(self.remote.clone())
    }

    async fn run(&self, value: &[u8], wait: Wait) -> Result<Leadership, Denial> {
        Cell::check_len(value).map_err(Denial::Failed)?;
        let (remote, bare) = (&self.remote, self.remote.bare());
        let limit = Limit::of(wait, bare);
        let mut attempts = 0;
        loop {
            let hold = remote.lock(limit.wait(bare)).await?;
            attempts += 1;
            let storing = async { Ok::<_, Denial>(remote.store(&hold, Some(value)).await) };
            let stored = limit.bound(bare, storing).await?;
            match stored {
                Ok(()) => return Ok(Leadership::new(remote.clone(), hold)),
                Err(Unstored::Lost(..)) if attempts < ATTEMPTS => {}
                Err(Unstored::Lost(lost, _)) => return Err(Denial::Lost(lost)),
                Err(Unstored::Failed(error, _)) => return Err(Denial::Failed(error)),
            }
        }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("key", self.key()).finish_non_exhaustive()
    }
}
