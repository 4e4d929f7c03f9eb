//! Counted permits that hold across processes.

mod acquire;
mod error;
mod holds;
mod methods;
mod permit;
mod poll;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Error, ErrorKind, Key, PermitBackend, Permits, Resize};

pub use acquire::{Acquire, AcquireOwned};
pub use error::{AcquireError, TryAcquireError};
pub use permit::{OwnedSemaphorePermit, SemaphorePermit};
pub use poll::PollSemaphore;

use crate::Locks;
use crate::bare::{BareLock, Denial, Wait};
use crate::foreign::Bell;
use crate::handoff::Handoff;

/// A counting semaphore, as [`tokio::sync::Semaphore`] is one, whose permits are counted over all
/// processes.
///
/// It is made by [`Locks::semaphore`], which gives it a name and says how many permits there are.
/// Every semaphore of that name, in any process that uses the same store, draws on the same permits. The
/// first user stores their number. A later user that names another number gets an error that tells both.
///
/// # What a permit means
///
/// A permit is a *lease*, as a [guard](crate::Mutex#what-the-guard-means) is: it is renewed in the
/// background while it lives, and tells when it is lost. The permits of a process that crashed come back
/// at the end of their leases.
///
/// Tasks of one process that take permits at about the same time may have them under one lease, which they
/// lose together. A process that uses permits again and again keeps permits that its tasks just gave up for
/// a millisecond or two, unless another process waits. A `try_acquire` of another process may miss them.
///
/// # Fencing tokens
///
/// A permit's fencing token is unique, and it is higher than every token of a grant that ended before
/// the permit's own grant was asked for. A permit's grant is the grant of the lease that the permit is a
/// part of; a process passes the permits of one lease from task to task. Tokens of grants that overlap
/// in time have no order.
///
/// # Order
///
/// Permits are given out in the order in which they were asked for, in this process and across all. A
/// request that waits for many permits gathers what is given back until it has them all. No later request
/// overtakes it, however little that asks for. Until then
/// [`available_permits`](Self::available_permits) is zero. A request that is dropped gives back what it
/// had gathered.
///
/// # Closing
///
/// [`close`](Self::close) closes this handle, and nobody else's: it is for a task that shuts a part of
/// its own process down. [`close_for_all`](Self::close_for_all) closes the semaphore for every process,
/// and for good.
///
/// # Differences from `tokio::sync::Semaphore`
///
/// - It is made by [`Locks::semaphore`]. There is no `new` and no `const_new`, because a semaphore needs
///   a name and a store.
/// - `try_acquire` and its siblings, [`available_permits`](Self::available_permits),
///   [`add_permits`](Self::add_permits) and [`forget_permits`](Self::forget_permits) are `async`, and the
///   last three return a `Result`: they ask the store.
/// - Too many permits are an error, not a panic.
/// - A permit can be lost, and giving it back on drop is *enqueued*: see [`SemaphorePermit`].
/// - Additional: [`acquire_timeout`](Self::acquire_timeout) and its siblings,
///   [`close_for_all`](Self::close_for_all), [`key`](Self::key), and the permits' lease.
///
/// # Examples
///
/// At most two of however many processes send at once:
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, TryAcquireError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let senders = locks.semaphore("mail/senders", 2)?;
///
/// let first = senders.acquire().await?;
/// let _second = senders.acquire().await?;
/// let third = senders.try_acquire().await;
/// assert_eq!(third.err(), Some(TryAcquireError::NoPermits));
///
/// drop(first);
/// assert!(senders.acquire().await?.is_valid());
/// # Ok(())
/// # }
/// ```
pub struct Semaphore {
    lock: BareLock,
    /// The same store as the entry's, with the ability to count.
    backend: Arc<dyn PermitBackend>,
    /// How many permits every user of this name says that there are.
    declared: u32,
    /// No permit is given out through this handle any more.
    closed: AtomicBool,
    /// Rings when it is closed.
    bell: Arc<Bell>,
}

impl<B: ?Sized> Locks<B> {
    /// The semaphore with this name, which has so many permits.
    ///
    /// Every user of a name has to give the same number: it is stored by whoever comes first, and later
    /// changes by [`add_permits`](Semaphore::add_permits) and the like leave open what it was declared
    /// with. Nothing is sent until somebody asks for a permit.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`] if the name, with the [prefix](crate::Builder::prefix), is too long;
    /// - [`ErrorKind::InvalidConfig`] for more than [`Semaphore::MAX_PERMITS`].
    pub fn semaphore<K>(&self, name: K, permits: usize) -> Result<Semaphore, Error>
    where
        // Here, and not on the block, so that a backend that lacks it is told how to get it.
        B: PermitBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let declared = u32::try_from(permits).map_err(|_| too_many(permits))?;
        let counting = &self.shared.counting;
        Ok(Semaphore {
            lock: self.bare_lock(name)?,
            backend: Arc::clone(counting.get_or_init(|| Arc::new(Arc::clone(&self.backend)))),
            declared,
            closed: AtomicBool::new(false),
            bell: Arc::default(),
        })
    }
}

impl Semaphore {
    /// The most permits that a semaphore can have: every number up to it is exact, whatever the store.
    pub const MAX_PERMITS: usize = Permits::MAX as usize;

    /// The name of the semaphore.
    pub fn key(&self) -> &Key {
        self.lock.key()
    }

    /// Says how far permits are passed on inside this process while others wait elsewhere, in place of
    /// what its [`Locks`](crate::Locks) say.
    ///
    /// It holds for permits of this handle: the holder that lets go decides. While another process waits,
    /// no further holder joins the holders of a lease. Permits of the lease that they do not use go back to
    /// the store, which gives them to the next request in the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Handoff, Locks};
    /// # fn main() -> Result<(), lock_core::Error> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let turnstile = locks.semaphore("turnstile", 1)?.with_handoff(Handoff::Fair);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff) -> Self {
        self.lock = self.lock.with_handoff(handoff);
        self
    }

    /// How many permits a newcomer could get at once, in whatever process. Asks the store.
    ///
    /// Zero while anybody waits, and once the semaphore is [closed for all](Self::close_for_all). The
    /// answer may be out of date when it arrives.
    ///
    /// It counts what this process has given up before, by a drop, a merge, a split or a release: the store
    /// hears of that first. If the store does not answer a release, the question waits for it no longer than a
    /// second, and no longer than the [lease](crate::Builder::ttl) lives. Then, or if a release fails, it is
    /// asked without that. Every other question about permits waits in this way.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if this name was declared with another number of permits; else
    /// whatever the store or the way to it does.
    pub async fn available_permits(&self) -> Result<usize, Error> {
        Ok(self.state().await?.available() as usize)
    }

    /// Adds permits, for everybody and for good. Those who wait are served at once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether they were added.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidConfig`] if there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS), or
    ///   if this name was declared with another number of permits;
    /// - else whatever the store or the way to it does. After a [retryable](Error::is_retryable) error
    ///   they may have been added: look before repeating it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let workers = locks.semaphore("workers", 10)?;
    /// workers.add_permits(5).await?;
    /// assert_eq!(workers.available_permits().await?, 15);
    /// assert_eq!(workers.forget_permits(20).await?, 15);
    /// assert_eq!(workers.available_permits().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add_permits(&self, n: usize) -> Result<(), Error> {
        let count = u32::try_from(n).map_err(|_| too_many(n))?;
        self.resize(Resize::Add(count)).await?;
        // Who waits here for those that others hold need not wait for the news.
        self.lock.look_again();
        Ok(())
    }

    /// Takes up to `n` free permits out of the semaphore, for everybody and for good; how many there
    /// were.
    ///
    /// Permits that are held stay, and so do all while somebody waits. For those that a holder has, see
    /// [`SemaphorePermit::forget`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether they were taken out.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if this name was declared with another number of permits; else
    /// whatever the store or the way to it does. After a [retryable](Error::is_retryable) error they may
    /// have been taken out: look before repeating it.
    pub async fn forget_permits(&self, n: usize) -> Result<usize, Error> {
        let count = u32::try_from(n).unwrap_or(u32::MAX);
        Ok(self.resize(Resize::Remove(count)).await? as usize)
    }

    /// Closes this handle: it gives out no more permits, and whoever waits through it, also already, gets
    /// [`AcquireError::Closed`].
    ///
    /// Permits that are held stay, and come back as ever. Other handles of the same name, in this process
    /// and in others, go on: see [`close_for_all`](Self::close_for_all).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{AcquireError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let pool = Arc::new(locks.semaphore("pool", 1)?);
    /// let _permit = pool.acquire().await?;
    /// let waiting = tokio::spawn(Arc::clone(&pool).acquire_owned());
    /// tokio::task::yield_now().await;
    ///
    /// pool.close();
    /// assert_eq!(waiting.await?.err(), Some(AcquireError::Closed));
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Closes the semaphore for every process: nobody is granted a permit any more, under this name, and
    /// everybody who waits gets [`AcquireError::Closed`]. That cannot be undone.
    ///
    /// Permits that are held stay, and can be given back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it was closed. Repeating is harmless.
    ///
    /// # Errors
    ///
    /// As [`available_permits`](Self::available_permits). After a [retryable](Error::is_retryable) error
    /// it may have been closed.
    pub async fn close_for_all(&self) -> Result<(), Error> {
        self.lock.ask(self.backend.close(self.key(), self.declared)).await?;
        self.close();
        Ok(())
    }

    /// Whether this handle gives out no more permits, as far as it knows: because it was
    /// [closed](Self::close), or because somebody was turned away since the semaphore was
    /// [closed for all](Self::close_for_all) or its locks were
    /// [shut down](crate::Locks::shutdown). Asks nobody.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the semaphore is [closed for all](Self::close_for_all). Asks the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// As [`available_permits`](Self::available_permits).
    pub async fn is_closed_for_all(&self) -> Result<bool, Error> {
        let closed = self.state().await?.closed;
        if closed {
            self.close();
        }
        Ok(closed)
    }

    async fn state(&self) -> Result<Permits, Error> {
        self.lock.ask_about(self.backend.permits(self.key(), self.declared)).await
    }

    async fn resize(&self, change: Resize) -> Result<u32, Error> {
        let resizing = self.backend.resize(self.key(), self.declared, change);
        Ok(self.lock.ask_about(resizing).await?.changed)
    }

    /// Learns that it gives out no more permits, if that is why somebody got none.
    fn learn(&self, denial: &Denial) {
        if AcquireError::from(denial.clone()) == AcquireError::Closed {
            self.close();
        }
    }

    fn default_wait(&self) -> Wait {
        self.lock.default_wait()
    }
}

/// Shows what this process knows, without asking the store.
impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("key", self.key())
            .field("declared", &self.declared)
            .field("closed", &self.is_closed())
            .finish()
    }
}

fn too_many(permits: usize) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("{permits} permits are too many: {} at most", Semaphore::MAX_PERMITS),
    )
}
