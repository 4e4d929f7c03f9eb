//! Electing one process of many.

mod info;
mod leadership;
mod observer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Cell, CellBackend, Error, Key};

pub use info::LeaderInfo;
pub use leadership::{Leadership, UpdateError};
pub use observer::Observer;

use crate::bare::{Denial, Limit, Wait};
use crate::error::{LockError, TryLockError};
use crate::handoff::Handoff;
use crate::locks::Locks;
use crate::recipes::cell::{RemoteCell, Unstored};

/// How often a candidate who was elected begins anew because its lease was lost before it could say who
/// it is.
const ATTEMPTS: u32 = 3;

/// An election: one of those who [campaign](Self::campaign) leads, and everybody can see who.
///
/// It is made by [`Locks::election`], which gives it a name. Leading is holding the lock of that name; a
/// leader also leaves a value there, an address for instance, which says who it is to all who
/// [ask](Self::leader) or [observe](Self::observe). The value may have up to 64 KiB, and anybody who uses
/// the store can read it.
///
/// # What leading means
///
/// A [`Leadership`] is a *lease*, as a [guard](crate::Mutex#what-the-guard-means) is: there is at most one
/// *valid* one at a time. It is renewed in the background for as long as it lives, and tells when it is
/// lost. A leader that crashes is followed by another one when its lease has ended. A leader that was
/// stopped may not know yet that it has been followed: whatever it does to the outside world should carry
/// its [`fencing_token`](Leadership::fencing_token), which is higher for every later leader.
///
/// Those who observe learn of a change a little late; they may take somebody for the leader who is none any
/// more. Address a leader by what you have observed, and let it check
/// [`is_valid`](Leadership::is_valid) itself. Over a quorum, what a leader says of itself may be seen by some and
/// not by others until a majority has stored it, and then by all: it is advice, for which nobody waits.
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
/// let leader = election.leader().await?.ok_or("nobody leads")?;
/// assert_eq!(leader.value, b"10.0.0.7:80");
/// assert_eq!(leader.token, leadership.fencing_token());
///
/// // What only the leader may do, for as long as it is the leader:
/// leadership.while_held(async { /* ... */ }).await?;
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
    /// The election with this name.
    ///
    /// A name that an election has should not be that of another lock. Nothing is sent until somebody
    /// campaigns or asks.
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
        // The lease goes back to the store after every term. If the lease were handed on here, the value of the
        // former leader would stay under it for a moment.
        let remote = RemoteCell::new(self, name)?.with_handoff(Handoff::Never);
        Ok(Election { remote: Arc::new(remote) })
    }
}

impl Election {
    /// The name of the election.
    pub fn key(&self) -> &Key {
        self.remote.key()
    }

    /// Campaigns until elected, and then leads under this value.
    ///
    /// Candidates are elected in the order in which they came, in this process and across all. Waits for
    /// as long as the [wait limit](crate::Builder::wait_limit) of the [`Locks`] says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the candidacy. If it had just been elected, the leadership goes to the
    /// next candidate; others may have seen the value by then.
    ///
    /// # If the lease is lost
    ///
    /// before the value is stored, it campaigns again, a few times.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached;
    /// - [`LockError::Backend`] if the store refused or could not be reached for longer than a lease lives,
    ///   and there is no limit that says to wait longer; with
    ///   [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) for too long a value;
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

    /// Leads under this value if nobody else does or campaigns.
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    ///
    /// # Errors
    ///
    /// - [`TryLockError::WouldBlock`] if somebody leads or campaigns;
    /// - [`TryLockError::Backend`], [`TryLockError::Lost`] and [`TryLockError::Closed`] as
    ///   [`campaign`](Self::campaign).
    pub async fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, TryLockError> {
        Ok(self.run(value.as_ref(), Wait::Try).await?)
    }

    /// Who leads now, if anybody does. Asks the store.
    ///
    /// `None` also while a new leader has not yet said who it is.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does.
    pub async fn leader(&self) -> Result<Option<LeaderInfo>, Error> {
        Ok(self.remote.load().await?.and_then(LeaderInfo::of))
    }

    /// Observes who leads: [`Observer::next`] tells the present state first, and then each change.
    ///
    /// Nothing is sent until then. The observer need not be a candidate, and borrows nothing.
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
    /// let leader = observer.next().await?.ok_or("nobody leads")?;
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
                Err(Unstored::Lost(_)) if attempts < ATTEMPTS => {}
                Err(Unstored::Lost(lost)) => return Err(Denial::Lost(lost)),
                Err(Unstored::Failed(error)) => return Err(Denial::Failed(error)),
            }
        }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("key", self.key()).finish_non_exhaustive()
    }
}
