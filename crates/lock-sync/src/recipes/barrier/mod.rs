//! Waiting for one another.
//!
//! Three names in the store make a barrier:
//!
//! - the *round* is the fencing token of the value beside the lock `name`: zero if there is none. Whoever
//!   holds that lock and writes anything there begins the next round;
//! - an *arrival* is one of the `n` permits of `name:arrivals:<round>`, kept until the round is over. A
//!   dead participant's goes back when its lease ends, and the name is forgotten when nobody has used it for
//!   an hour;
//! - the *door* is the lock `name:door`. Whoever arrives holds it while it looks for the round, takes its
//!   permit and counts.
//!
//! Whoever counts `n` begins the next round, and is the leader. The others wait for the round to move.
//!
//! # What could go wrong
//!
//! - *Somebody takes a permit of a round that is over.* Rounds end under the door, and permits are taken
//!   under it. If the door's lease is found lost after the permit came, that is given back.
//! - *Two begin the next round.* They do so under the lock `name`, one after the other, and the second finds
//!   the round moved. A leader that was stopped meanwhile cannot write: the store compares its claim in the
//!   same step.
//! - *The leader dies* before it writes: its permit goes back with its lease, and whoever takes its place
//!   counts again. After it wrote: the others pass; the door and the lock are free when its leases have
//!   ended.
//! - *Somebody's lease ends while it waits.* If the round has moved it passes, whether it was counted or
//!   somebody in its place: `n` were there. Otherwise it gives back what the store may still have of its
//!   arrival, so that it is not counted twice, and arrives again.
//! - *The store forgets.* The round is then lower than the one that they wait for the end of, and the permits
//!   are gone: they arrive again, in the round that is now.
//! - *Some see that the round has moved, and others do not.* A store that is several may have it so
//!   ([`Cell::settled`]), but cannot count permits, so no barrier is kept there.
//! - *An answer is lost* when the leader writes. It writes again, which changes nothing, or finds its own
//!   token in the store.

mod error;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Cell, CellBackend, Claim, Error, ErrorKind, Key, Mode, PermitBackend};

pub use error::BarrierError;

use crate::bare::{BareLock, Denial, Hold, Limit, Retries, Wait};
use crate::locks::Locks;
use crate::recipes::cell::{RemoteCell, Unstored};

/// How often those who wait look, at most, if they hear nothing.
const LOOK: Duration = Duration::from_secs(1);

/// A barrier at which `n` participants wait for one another, as [`tokio::sync::Barrier`] is one, in whatever
/// processes they are.
///
/// It is made by [`Locks::barrier`], which gives it a name and says how many take part. It can be used again
/// and again: when `n` have arrived all of them pass, and whoever arrives next waits for the next `n`.
///
/// # Participants that die
///
/// An arrival is a *lease*, renewed while its participant waits. One that crashes stops counting when its
/// lease has ended, and the others wait for somebody in its place. So a barrier is never passed because of
/// somebody who was long dead, but it may wait for ever for somebody who will not come: give it a
/// [limit](Self::wait_timeout) where that can happen.
///
/// Between arriving and passing a participant may lose its lease although it lives, when the store is out of
/// reach. It then arrives again by itself.
///
/// # Differences from `tokio::sync::Barrier`
///
/// - It is made by [`Locks::barrier`], and [`wait`](Self::wait) returns a `Result`.
/// - Dropping the future of `wait` withdraws the arrival: see there.
/// - If the [leader](BarrierWaitResult::is_leader) of a round dies in the moment in which it lets the others
///   pass, they pass without one.
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
    /// Without the prefix, which every name made from it gets.
    name: Key,
    remote: RemoteCell,
    door: BareLock,
    counting: Arc<dyn PermitBackend>,
    n: u32,
}

/// What a participant of a [`Barrier`] learns when it passes.
#[derive(Clone, Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether this participant is the one of its round that may do what only one should.
    ///
    /// It is a participant like any other: nothing tells whether it still lives. For work that only one may
    /// do for as long as it takes, use a [`Mutex`](crate::Mutex) or an [`Election`](crate::Election).
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl<B: ?Sized> Locks<B> {
    /// The barrier with this name, at which `n` participants wait for one another. None counts as one.
    ///
    /// Every participant has to give the same number. Nothing is sent until somebody waits. A name that a
    /// barrier has should not be that of another lock; it also uses names that begin with it and a colon.
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
        let barrier = Self {
            remote: RemoteCell::new(locks, &name)?,
            door: locks.bare_lock(derived(&name, "door")?)?,
            counting: Arc::new(Arc::clone(&locks.backend)),
            name,
            n,
        };
        // No round has a longer name.
        barrier.arrivals(u64::MAX)?;
        Ok(barrier)
    }

    /// The name of the barrier.
    pub fn key(&self) -> &Key {
        self.remote.key()
    }

    /// Arrives, and waits until `n` participants have.
    ///
    /// Two calls count twice, also in one process. Waits for as long as the
    /// [wait limit](crate::Builder::wait_limit) of the [`Locks`] says.
    ///
    /// # Cancel safety
    ///
    /// It is not cancel safe in tokio's sense: whether the others were let pass by this arrival cannot be
    /// known any more. Dropping the future withdraws the arrival, unless they were; it counts until the
    /// store has heard of that, a moment later.
    ///
    /// # If the lease is lost
    ///
    /// it arrives again, in the round that is then.
    ///
    /// # Errors
    ///
    /// After each of them the arrival is withdrawn, as if the future had been dropped.
    ///
    /// - [`BarrierError::Timeout`] if the wait limit was reached;
    /// - [`BarrierError::Backend`] if the store refused or could not be reached for longer than a lease
    ///   lives, and there is no limit that says to wait longer; with [`ErrorKind::InvalidConfig`] and both
    ///   numbers in the message, if another participant of the round has given another `n`;
    /// - [`BarrierError::Closed`] after [`Locks::shutdown`].
    pub async fn wait(&self) -> Result<BarrierWaitResult, BarrierError> {
        self.wait_for(self.bare().default_wait()).await
    }

    /// Arrives, and waits for at most `limit` until `n` participants have.
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
    /// # use lock_sync::{BarrierError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let barrier = locks.barrier("start", 2)?;
    /// let alone = barrier.wait_timeout(Duration::from_millis(10)).await;
    /// assert!(matches!(alone, Err(BarrierError::Timeout { .. })));
    ///
    /// let (one, other) = tokio::join!(barrier.wait(), barrier.wait());
    /// assert_ne!(one?.is_leader(), other?.is_leader());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_timeout(&self, limit: Duration) -> Result<BarrierWaitResult, BarrierError> {
        self.wait_for(Wait::AtMost(limit)).await
    }

    async fn wait_for(&self, wait: Wait) -> Result<BarrierWaitResult, BarrierError> {
        let limit = Limit::of(wait, self.bare());
        let passed: Result<_, Denial> = limit.bound(self.bare(), self.pass(limit)).await;
        Ok(BarrierWaitResult(passed?))
    }

    /// Arrives as often as it takes to pass. Returns whether it leads.
    async fn pass(&self, limit: Limit) -> Result<bool, Denial> {
        loop {
            let Arrival { door, round, permit, claim } = self.arrive(limit).await?;
            if self.count(round, limit).await? >= self.n && self.lead(round, limit).await? {
                return Ok(true);
            }
            drop(door);
            let mut watcher = self.remote.watcher(self.interval());
            let mut lost = permit.lost();
            loop {
                tokio::select! {
                    () = watcher.changed() => {}
                    _ = &mut lost => {}
                }
                // In this order: if the lease was there still when the round was looked for, the arrival
                // counts until then.
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
                // All have arrived, but the last is dead, or about to lead.
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

    /// How many have arrived in this round.
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

    /// Begins the next round, if nobody has. Returns whether this participant did.
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
            // It may have been stored although no answer came.
            let now = self.round(limit).await?;
            match failed {
                _ if now != round => return Ok(now == lock.fencing_token().get()),
                Unstored::Lost(_) => {}
                Unstored::Failed(error) => return Err(Denial::Failed(error)),
            }
        }
    }

    /// Ends what the store may still have of an arrival.
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

    /// Of what those take a permit who take part in this round.
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
    /// Under which the store knows the permit.
    claim: Claim,
}

/// A name of the barrier's own beside its name.
fn derived(name: &Key, part: &str) -> Result<Key, Error> {
    let bytes = [name.as_bytes(), b":", part.as_bytes()].concat();
    if name.is_as_is() { Key::as_is(bytes) } else { Key::new(bytes) }
}
