//! A barrier at which processes wait for one another.
//!
//! Three names in the store make a barrier:
//!
//! - the *round* is the fencing token of the value beside the lock `name`, or zero if there is no value. To begin the
//!   next round, the holder of that lock writes a value;
//! - an *arrival* is one of the `n` permits of `name:arrivals:<round>`. A participant keeps it until the round is
//!   over. The permit of a dead participant goes back when its lease ends. The store forgets the name after an hour
//!   without use;
//! - the *door* is the lock `name:door`. A participant that arrives holds the door while it loads the round,
//!   takes its permit and counts the arrivals.
//!
//! A participant that counts `n` arrivals begins the next round, and is the leader. The others wait for the round to
//! move.
//!
//! # What could go wrong
//!
//! - *A participant takes a permit of a round that is over.* Participants end rounds and take permits under the door.
//!   If a participant finds the lease of the door lost after it has got the permit, it gives the permit back.
//! - *Two participants begin the next round.* They do so under the lock `name`, one after the other, and the second
//!   participant finds that the round has moved. A leader that stood still meanwhile cannot write: the store compares
//!   its claim in the step that writes.
//! - *The leader dies.* If it has not written, its permit goes back with its lease, and the participant that takes its
//!   place counts again. If it has written, the others pass, and the door and the lock are free when its leases have
//!   ended.
//! - *The lease of a participant ends while it waits.* If the round has moved, the participant passes: `n`
//!   participants had arrived, with this participant or with another in its place. Otherwise the participant
//!   withdraws its arrival, so that it does not count twice, and arrives again.
//! - *The store forgets.* The round is then lower than the round in which the participants arrived, and the permits
//!   are gone. The participants arrive again, in the present round.
//! - *Some participants see that the round has moved, and others do not.* This can happen in a store of several
//!   servers ([`Cell::settled`]). But such a store cannot count permits, so it has no barriers.
//! - *An answer is lost* when the leader writes. The leader writes again, which changes nothing, or finds
//!   its own token in the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Backend, Capability, Cell, CellBackend, Claim, Error, ErrorKind, Key, Mode, PermitBackend,
};

use crate::bare::{BareLock, Denial, Hold, Limit, Retries, Wait};
use crate::error::LockError;
use crate::lease::Lease;
use crate::locks::Locks;
use crate::options::options;
use crate::recipes::cell::{RemoteCell, Unstored};

/// The shortest pause after which a waiter loads the round again without a hint.
const LOOK: Duration = Duration::from_secs(1);

/// A barrier like [`tokio::sync::Barrier`], at which `n` participants of any processes wait for one another.
///
/// [`Locks::barrier`] makes a barrier, and gives it a name and the number of participants. A barrier can be used again
/// and again: when `n` participants have arrived, all of them pass, and the next participant begins a new round.
///
/// # Participants that die
///
/// An arrival has a *lease*, which the driver renews while the participant waits. A dead participant counts until its
/// lease ends. Then the others wait for another participant in its place. So a long-dead participant never opens the
/// barrier. But the others may wait for ever for a participant that does not come: use a [limit](Self::wait_timeout)
/// where this can happen.
///
/// If the store is out of reach, a living participant may lose its lease before it passes. The participant then
/// arrives again by itself.
///
/// # Differences from `tokio::sync::Barrier`
///
/// - [`Locks::barrier`] makes it, and [`wait`](Self::wait) returns a `Result`.
/// - Dropping the future of [`wait`](Self::wait) withdraws the arrival.
/// - If the [leader](BarrierWaitResult::is_leader) of a round dies at the moment when it lets the others
///   pass, they pass without a leader.
/// - Additional: [`wait_timeout`](Self::wait_timeout), [`key`](Self::key).
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::Locks;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = MemoryBackend::new();
/// let mut workers = Vec::new();
/// for _ in 0..3 {
///     // In three processes, say:
///     let locks = Locks::new(store.client());
///     workers.push(tokio::spawn(async move {
///         let barrier = locks.barrier("migration", 3)?;
///         // ... the part before ...
///         let leads = barrier.wait().await?.is_leader();
///         // ... the part that begins when all are done with it ...
///         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(leads)
///     }));
/// }
/// let mut leaders = 0;
/// for worker in workers {
///     leaders += u32::from(worker.await?.map_err(|error| error.to_string())?);
/// }
/// assert_eq!(leaders, 1);
/// # Ok(())
/// # }
/// ```
pub struct Barrier {
    /// The name without the prefix. Every name that is made from it gets the prefix.
    name: Key,
    remote: RemoteCell,
    door: BareLock,
    counting: Arc<dyn PermitBackend>,
    n: u32,
}

/// The result for a participant that passes a [`Barrier`].
#[derive(Clone, Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether this participant is the leader of its round. Each round has at most one leader.
    ///
    /// The leader has no lease after it passes, and no call reports whether it still lives. For work that must not run
    /// twice at once, use a [`Mutex`](crate::Mutex) or an [`Election`](crate::Election).
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl<B: ?Sized> Locks<B> {
    /// Makes the barrier with this name, at which `n` participants wait for one another. Zero counts as one.
    ///
    /// All participants must give one number. The call sends no request. Do not use the name of a barrier for
    /// another lock. The barrier also uses names that begin with its name and a colon.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`] if the name, with the [prefix](crate::Builder::prefix) and some 30 bytes
    ///   more, is too long;
    /// - [`ErrorKind::InvalidConfig`] for more than 2³² - 1 participants.
    pub fn barrier<K>(&self, name: K, n: usize) -> Result<Barrier, Error>
    where
        B: PermitBackend + CellBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let n = u32::try_from(n.max(1)).map_err(|_| {
            let message = format!("{n} participants are too many: at most {}", u32::MAX);
            Error::new(ErrorKind::InvalidConfig, message)
        })?;
        Barrier::new(self, name.try_into()?, n)
    }
}

impl Barrier {
    fn new<B>(locks: &Locks<B>, name: Key, n: u32) -> Result<Self, Error>
    where
        B: PermitBackend + CellBackend + ?Sized,
    {
        locks.backend.require(Capability::Count)?;
        let barrier = Self {
            remote: RemoteCell::new(locks, &name)?,
            door: locks.bare_lock(derived(&name, "door")?)?,
            counting: Arc::new(Arc::clone(&locks.backend)),
            name,
            n,
        };
        // No round has a longer number.
        barrier.arrivals(u64::MAX)?;
        Ok(barrier)
    }

    options!(leases: "of a participant", "locks.barrier(\"migration\", 3)?", |this, change| {
        this.remote = this.remote.clone().with_policy(change);
        this.door = this.door.clone().with_policy(change);
    });

    /// The [name](crate::Key) of the barrier.
    pub fn key(&self) -> &Key {
        self.remote.key()
    }

    /// Arrives, and waits until `n` participants have arrived.
    ///
    /// Two calls count as two arrivals, also in one process. The [wait limit](crate::Builder::wait_limit) of the
    /// [`Locks`] bounds the wait.
    ///
    /// # Cancel safety
    ///
    /// The call is not cancel safe in tokio's sense: after a drop, the caller cannot know whether this arrival let the
    /// others pass. If it did not, the drop withdraws the arrival. The arrival counts until the store has received the
    /// withdrawal, a moment later.
    ///
    /// # If the lease is lost
    ///
    /// The participant arrives again, in the present round. If the round has moved on meanwhile, the call passes. So if
    /// another participant has come in its place, one more than `n` participants may pass one round.
    ///
    /// # Errors
    ///
    /// Each error withdraws the arrival, as a drop of the future does.
    ///
    /// - [`LockError::Timeout`] if the wait limit was reached;
    /// - [`LockError::Backend`] if the store refused, or, without a wait limit, if the store was out of reach for
    ///   longer than a lease lives. It has [`ErrorKind::InvalidConfig`] and both numbers in the message if another
    ///   participant of the round has given another `n`;
    /// - [`LockError::Closed`] after [`Locks::shutdown`].
    pub async fn wait(&self) -> Result<BarrierWaitResult, LockError> {
        self.wait_for(self.bare().default_wait()).await
    }

    /// Arrives, and waits for at most `limit` until `n` participants have arrived.
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
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
    /// let barrier = locks.barrier("start", 2)?;
    /// let alone = barrier.wait_timeout(Duration::from_millis(10)).await;
    /// assert!(matches!(alone, Err(LockError::Timeout { .. })));
    ///
    /// let (one, other) = tokio::join!(barrier.wait(), barrier.wait());
    /// assert_ne!(one?.is_leader(), other?.is_leader());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_timeout(&self, limit: Duration) -> Result<BarrierWaitResult, LockError> {
        self.wait_for(Wait::AtMost(limit)).await
    }

    async fn wait_for(&self, wait: Wait) -> Result<BarrierWaitResult, LockError> {
        let limit = Limit::of(wait, self.bare());
        let passed: Result<_, Denial> = limit.bound(self.bare(), self.pass(limit)).await;
        Ok(BarrierWaitResult(passed?))
    }

    /// Arrives, and arrives again if need be, until the participant passes. Returns whether this
    /// participant leads.
    async fn pass(&self, limit: Limit) -> Result<bool, Denial> {
        loop {
            let Arrival { door, round, permit, claim } = self.arrive(limit).await?;
            if self.count(round, limit).await? >= self.n && self.lead(round, limit).await? {
                return Ok(true);
            }
            drop(door);
            let mut watcher = self.remote.watcher(self.interval());
            let mut lost = Lease::of(&permit).lost();
            loop {
                tokio::select! {
                    () = watcher.changed() => {}
                    _ = &mut lost => {}
                }
                // In this order: if the lease is valid before the load of the round, the arrival
                // counted until then.
                let is_lost = permit.check().is_err();
                let now = self.round(limit).await?;
                if now > round {
                    return Ok(false);
                }
                if is_lost || now < round {
                    break;
                }
            }
            self.withdraw(&claim, limit).await?;
        }
    }

    /// Takes a permit of the present round.
    async fn arrive(&self, limit: Limit) -> Result<Arrival, Denial> {
        let mut retries = Retries::new(self.bare(), limit);
        let mut watcher = None;
        loop {
            let door = self.door.acquire(Mode::Exclusive, limit.wait(&self.door)).await?;
            let round = self.round(limit).await?;
            let arrivals = self.arrivals(round).map_err(Denial::Failed)?;
            let mode = Mode::Permits { take: 1, of: self.n };
            match arrivals.acquire(mode, Wait::Try).await {
                Ok(permit) => match permit.claim() {
                    Some(claim) if door.check().is_ok() => {
                        return Ok(Arrival { door, round, permit, claim });
                    }
                    // The round may be over.
                    _ => {}
                },
                // All permits are taken, but no leader has begun the next round: the last
                // participant is dead, or about to lead.
                Err(Denial::WouldBlock) => {
                    drop(door);
                    let watch = || self.remote.watcher(self.interval());
                    watcher.get_or_insert_with(watch).changed().await;
                }
                Err(Denial::Failed(error)) => {
                    drop(door);
                    retries.after(error).await?;
                }
                Err(denial) => return Err(denial),
            }
        }
    }

    /// The number of arrivals in this round.
    async fn count(&self, round: u64, limit: Limit) -> Result<u32, Denial> {
        let arrivals = self.arrivals(round).map_err(Denial::Failed)?;
        let mut retries = Retries::new(self.bare(), limit);
        loop {
            match arrivals.ask(self.counting.permits(arrivals.key(), self.n)).await {
                Ok(permits) => return Ok(permits.held),
                Err(error) => retries.after(error).await?,
            }
        }
    }

    /// Begins the next round, if no other participant has begun it. Returns whether this
    /// participant has begun it.
    async fn lead(&self, round: u64, limit: Limit) -> Result<bool, Denial> {
        let value = self.n.to_string();
        loop {
            let lock = self.remote.lock(limit.wait(self.bare())).await?;
            if self.round(limit).await? != round {
                return Ok(false);
            }
            let failed = match self.remote.store(&lock, Some(value.as_bytes())).await {
                Ok(()) => return Ok(true),
                Err(unstored) => unstored,
            };
            // The value may have been stored although no answer came.
            let now = self.round(limit).await?;
            match failed {
                _ if now != round => return Ok(now == lock.fencing_token().get()),
                Unstored::Lost(..) => {}
                Unstored::Failed(error, _) => return Err(Denial::Failed(error)),
            }
        }
    }

    /// Releases the permit of an arrival, if the store still has it.
    async fn withdraw(&self, claim: &Claim, limit: Limit) -> Result<(), Denial> {
        let mut retries = Retries::new(self.bare(), limit);
        while let Err(error) = self.bare().withdraw(claim).await {
            retries.after(error).await?;
        }
        Ok(())
    }

    async fn round(&self, limit: Limit) -> Result<u64, Denial> {
        let cell: Option<Cell> = self.remote.load_patiently(limit).await?;
        Ok(cell.map_or(0, |cell| cell.token.get()))
    }

    /// The semaphore of the permits of this round.
    fn arrivals(&self, round: u64) -> Result<BareLock, Error> {
        self.door.sibling(derived(&self.name, &format!("arrivals:{round}"))?)
    }

    fn interval(&self) -> Duration {
        self.remote.interval().max(LOOK)
    }

    fn bare(&self) -> &BareLock {
        self.remote.bare()
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("key", self.key())
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}

/// One participant's part in a round.
struct Arrival {
    /// Held until this arrival was counted.
    door: Hold,
    round: u64,
    permit: Hold,
    /// The claim under which the store knows the permit.
    claim: Claim,
}

/// A further name of the barrier, made from its name.
fn derived(name: &Key, part: &str) -> Result<Key, Error> {
    let bytes = [name.as_bytes(), b":", part.as_bytes()].concat();
    if name.is_as_is() { Key::raw(bytes) } else { Key::new(bytes) }
}
