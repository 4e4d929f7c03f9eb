//! Counted permits that hold across processes.

mod acquire;
mod declaration;
mod declaring;
mod error;
mod holds;
mod methods;
mod permit;
mod poll;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Backend, Capability, Error, ErrorKind, Key, PermitBackend, Permits, Resize};

pub use acquire::{Acquire, AcquireOwned};
pub use declaration::Declaration;
pub use error::{AcquireError, TryAcquireError};
pub use permit::{OwnedSemaphorePermit, SemaphorePermit};
pub use poll::PollSemaphore;

use self::declaration::Declaring;
use crate::Locks;
use crate::bare::{BareLock, ClosedForAll, Denial, Known, Wait};
use crate::foreign::Bell;
use crate::handoff::Handoff;

/// A counting semaphore like [`tokio::sync::Semaphore`], whose permits are counted over all processes.
///
/// [`Locks::semaphore`] makes a semaphore, and gives it a name and a number of permits. All semaphores with one
/// name, in all processes that use one store, share these permits. The first process stores the number of permits. A
/// later process with another number gets an error that states both numbers, or replaces the number, as
/// [`with_declaration`](Self::with_declaration) says.
///
/// # What a permit means
///
/// A permit has a *lease*, as a [guard](crate::Mutex#what-the-guard-means) has: the driver renews the lease in
/// the background while the permit lives, and the permit reports the loss of the lease. The permits of a dead
/// process return to the semaphore at the end of their leases.
///
/// If tasks of one process take permits at about the same time, they may have one lease, and lose their
/// permits together. A process that uses permits again and again keeps the permits of its tasks for a
/// millisecond or two after their drop, unless another process waits. A `try_acquire` of another process may
/// find these permits taken.
///
/// # Fencing tokens
///
/// Each acquisition has a unique fencing token. The parts of a [split](SemaphorePermit::split) permit share
/// it. The token is higher than the tokens of all leases that ended before the lease of the permit was
/// requested. A process hands the permits of one lease off from task to task, so the lease may be older than
/// the permit. The tokens of leases that overlap in time have no order.
///
/// # Order
///
/// Requests get their permits in order, within this process and among all processes. A request for many
/// permits collects the permits that holders give back until it has all of them. No later request overtakes
/// it, even if the later request needs fewer permits. Until then
/// [`available_permits`](Self::available_permits) is zero. A dropped request gives the collected permits back.
///
/// # Closing
///
/// [`close`](Self::close) closes this handle alone, for a part of the process that shuts down.
/// [`close_for_all`](Self::close_for_all) closes the semaphore for every process, permanently.
///
/// # Differences from `tokio::sync::Semaphore`
///
/// - [`Locks::semaphore`] makes it. There is no `new` and no `const_new`, because a semaphore needs
///   a name and a store.
/// - `try_acquire` and its siblings, [`available_permits`](Self::available_permits),
///   [`add_permits`](Self::add_permits) and [`forget_permits`](Self::forget_permits) are `async`, and the
///   last three return a `Result`: they ask the store.
/// - Too many permits are an error, not a panic.
/// - The lease of a permit can be lost, and dropping a permit *enqueues* its release: see [`SemaphorePermit`].
/// - Additional: [`acquire_timeout`](Self::acquire_timeout) and its siblings,
///   [`with_declaration`](Self::with_declaration), [`close_for_all`](Self::close_for_all), [`key`](Self::key), and the
///   methods of a permit that concern its lease.
///
/// # Examples
///
/// Of all processes, at most two send at once:
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
/// assert!(senders.acquire().await?.lease().is_valid());
/// # Ok(())
/// # }
/// ```
pub struct Semaphore {
    lock: BareLock,
    /// The store of the entry, with the capability to count.
    backend: Arc<dyn PermitBackend>,
    /// The number of permits that this handle declares.
    declared: u32,
    declaring: Arc<Declaring>,
    closing: Arc<Closing>,
    /// Whether the semaphore is closed for all, as far as this process knows.
    closed_for_all: Arc<ClosedForAll>,
}

/// Whether a handle gives out no more permits, and the bell that rings then.
#[derive(Debug, Default)]
struct Closing {
    is_closed: AtomicBool,
    bell: Bell,
}

impl<B: ?Sized> Locks<B> {
    /// Makes the semaphore with this name and this number of permits.
    ///
    /// All processes must declare one number for a name, unless [`with_declaration`](Semaphore::with_declaration)
    /// lets the last declaration win. The first process stores the number. A later change by
    /// [`add_permits`](Semaphore::add_permits) or a similar method does not change the declared number. The call
    /// sends no request.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`] if the name, with the [prefix](crate::Builder::prefix), is too long;
    /// - [`ErrorKind::InvalidConfig`] for more than [`Semaphore::MAX_PERMITS`].
    pub fn semaphore<K>(&self, name: K, permits: usize) -> Result<Semaphore, Error>
    where
        // Here, and not on the block: so the compiler's message for a backend without the capability says how to get
        // it.
        B: PermitBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        self.backend.require(Capability::Count)?;
        let declared = u32::try_from(permits).map_err(|_| too_many(permits))?;
        let counting = &self.shared.counting;
        let lock = self.bare_lock(name)?;
        let closed_for_all = lock.closed_for_all();
        Ok(Semaphore {
            lock,
            backend: Arc::clone(counting.get_or_init(|| Arc::new(Arc::clone(&self.backend)))),
            declared,
            declaring: Arc::new(Declaring::new(Declaration::default())),
            closing: Arc::default(),
            closed_for_all,
        })
    }
}

impl Semaphore {
    /// The greatest number of permits that a semaphore can have. Every store counts exactly up to this number.
    ///
    /// See [`Semaphore`](crate::Semaphore#examples) for an example.
    pub const MAX_PERMITS: usize = Permits::MAX as usize;

    /// The [name](crate::Key) of the semaphore.
    pub fn key(&self) -> &Key {
        self.lock.key()
    }

    /// Sets how long this process hands permits off among its own tasks while other processes wait.
    ///
    /// This setting replaces the setting of the [`Locks`](crate::Locks) for the permits of this handle: the
    /// setting of the permit that is given back decides. While another process waits, no further holder joins the
    /// holders of a lease. Unused permits of the lease go back to the store, which gives them to the next request
    /// in the queue.
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

    crate::options::options!(
        "of this semaphore",
        "locks.semaphore(\"pool\", 3)?",
        |this, change| { this.lock = this.lock.clone().with_policy(change) }
    );

    /// The number of permits that a new request could get without waiting, in any process. Asks the store.
    ///
    /// The number is zero while any request waits, and once the semaphore is [closed for
    /// all](Self::close_for_all). The answer may be out of date when it arrives.
    ///
    /// The number includes the permits that this process gave up before the call, by a drop, a merge, a split or a
    /// release: the call waits until the store has answered these releases. It waits for at most a second, and no
    /// longer than a [lease](crate::Builder::ttl) lives. After that, or if a release fails, the call asks anyway.
    /// Every other question about permits waits in this way.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidConfig`] if this name was declared with another number of permits;
    /// - any error of the store or of the connection to it.
    pub async fn available_permits(&self) -> Result<usize, Error> {
        Ok(self.state().await?.available() as usize)
    }

    /// Adds permits, for all processes and permanently. Waiters get them at once.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the permits may or may not have been added.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidConfig`] if there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS), or
    ///   if this name was declared with another number of permits;
    /// - any error of the store or of the connection to it. After a [retryable](Error::is_retryable) error
    ///   the permits may have been added: check before you repeat the call.
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
        // Waiters of this process need not wait for the hint of the store.
        self.lock.look_again();
        Ok(())
    }

    /// Removes up to `n` free permits from the semaphore, for all processes and permanently. Returns the number of
    /// permits that were removed.
    ///
    /// The call removes no held permit, and no permit at all while a request waits. For held permits, see
    /// [`SemaphorePermit::forget`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the permits may or may not have been removed.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidConfig`] if this name was declared with another number of permits;
    /// - any error of the store or of the connection to it. After a [retryable](Error::is_retryable) error
    ///   the permits may have been removed: check before you repeat the call.
    pub async fn forget_permits(&self, n: usize) -> Result<usize, Error> {
        let count = u32::try_from(n).unwrap_or(u32::MAX);
        Ok(self.resize(Resize::Remove(count)).await? as usize)
    }

    /// Closes this handle. The handle gives out no more permits, and all its present and later
    /// waiters get [`AcquireError::Closed`].
    ///
    /// Held permits stay valid, and go back as usual. The call does not affect other handles with this name,
    /// in this process and in others: see [`close_for_all`](Self::close_for_all).
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
        self.closing.is_closed.store(true, Ordering::Release);
        self.rouse();
    }

    /// Closes the semaphore for every process. The store grants no more permits under this name, and
    /// all waiters get [`AcquireError::Closed`]. Only [`Locks::destroy`](crate::Locks::destroy) undoes it.
    ///
    /// Held permits stay valid, and go back as usual.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the semaphore may or may not have been closed. A second call is harmless.
    ///
    /// # Errors
    ///
    /// As [`available_permits`](Self::available_permits). After a [retryable](Error::is_retryable) error
    /// the semaphore may have been closed.
    pub async fn close_for_all(&self) -> Result<(), Error> {
        let known = self.closed_for_all.known();
        self.asking(|| self.backend.close(self.key(), self.declared)).await?;
        self.learn(known, true);
        Ok(())
    }

    /// Whether this handle knows that it gives out no more permits. The call sends no request.
    ///
    /// The handle knows this once it was [closed](Self::close), and after the first refused request if the locks are
    /// [shut down](crate::Locks::shutdown).
    ///
    /// All handles of this name that one [`Locks`](crate::Locks) and its clones made know together whether the semaphore
    /// is [closed for all](Self::close_for_all). They learn it when `close_for_all` of one of them returns, or from an
    /// answer of the store to one of them: a refused request for permits,
    /// [`is_closed_for_all`](Self::is_closed_for_all) or [`available_permits`](Self::available_permits). They learn of
    /// the end of this state after [`Locks::destroy`](crate::Locks::destroy). If another process calls `destroy`, they
    /// hear of that with the next answer of the store: an acquisition asks before it fails.
    pub fn is_closed(&self) -> bool {
        self.is_closed_here() || self.closed_for_all.known().is_closed()
    }

    /// Whether the semaphore is [closed for all](Self::close_for_all). Asks the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Errors
    ///
    /// As [`available_permits`](Self::available_permits).
    pub async fn is_closed_for_all(&self) -> Result<bool, Error> {
        Ok(self.state().await?.closed)
    }

    async fn state(&self) -> Result<Permits, Error> {
        let known = self.closed_for_all.known();
        let state = self.asking(|| self.backend.permits(self.key(), self.declared)).await?;
        self.learn(known, state.closed);
        Ok(state)
    }

    async fn resize(&self, change: Resize) -> Result<u32, Error> {
        let resizing = || self.backend.resize(self.key(), self.declared, change);
        Ok(self.asking(resizing).await?.changed)
    }

    /// Whether this handle was closed.
    fn is_closed_here(&self) -> bool {
        self.closing.is_closed.load(Ordering::Acquire)
    }

    /// Whether a wait that began with this knowledge is over, because the handle or the semaphore was closed.
    fn ends(&self, began: Known) -> bool {
        let known = self.closed_for_all.known();
        self.is_closed_here() || (known.is_closed() && known != began)
    }

    /// The store has answered a request that began with this knowledge.
    fn learn(&self, known: Known, is_closed: bool) {
        self.closed_for_all.learn(known, is_closed);
        if is_closed && self.is_closed() {
            self.rouse();
        }
    }

    /// Notes a denial that says that no more permits are given out. The request began with this knowledge.
    fn heed(&self, denial: &Denial, known: Known) {
        match denial {
            Denial::Failed(error) if error.kind() == ErrorKind::Closed => self.learn(known, true),
            Denial::Closed if self.lock.is_closed() => self.close(),
            _ => {}
        }
    }

    /// Wakes the waiters, so that each looks whether it is closed.
    fn rouse(&self) {
        self.closing.bell.ring();
        self.lock.rouse();
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
