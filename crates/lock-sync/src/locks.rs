//! The handle that an app keeps, and how it is built.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::{Observer, Observers};
use lock_core::{AnyBackend, Backend, Error, ErrorKind, Key, Label, Ttl};
use tokio::runtime::Handle;

use crate::bare::{BareLock, Policy, alarm};
use crate::engine::{Choices, Home, Keyed, Sampling, Shared};
use crate::handoff::Handoff;
use crate::options::{check_limit, options};

/// The locks of one backend. An app builds this handle once and keeps it.
///
/// The handle makes locks by name, has their defaults, and owns the driver. The driver is a thread that renews
/// leases, sends the releases of dropped guards, and listens for releases by other processes. Clones share the
/// driver and the defaults. The driver starts with the first request for a lock, and ends when the last handle,
/// lock and guard is gone.
///
/// Within one process, all locks that one `Locks` and its clones make under one name are one lock, with
/// one line of waiters. Two separate `Locks` over one store contend like two processes.
///
/// # Other options for some locks
///
/// A clone of the handle can have options of its own for the locks that it makes: [`with_ttl`](Self::with_ttl),
/// [`with_max_hold`](Self::with_max_hold), [`with_renewal`](Self::with_renewal),
/// [`with_outage_limit`](Self::with_outage_limit) and [`with_label`](Self::with_label). In this way,
/// [`lock`](Self::lock) and [`lock_all`](Self::lock_all) get options. A single lock takes these options as well, for
/// example [`Mutex::with_ttl`](crate::Mutex::with_ttl).
///
/// ```
/// # use std::time::Duration;
/// # use lock_core::{Ttl, memory::MemoryBackend};
/// # use lock_sync::Locks;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let transfers = locks.clone().with_ttl(Ttl::new(Duration::from_secs(5))?);
/// let guard = transfers.lock_all(["account/7", "account/9"]).await?;
/// assert!(guard.lease().remaining() <= Duration::from_secs(5));
/// # Ok(())
/// # }
/// ```
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
/// let counter = locks.mutex("counter", 0)?;
///
/// *counter.lock().await? += 1;
/// assert_eq!(*counter.lock().await?, 1);
/// locks.shutdown().await;
/// # Ok(())
/// # }
/// ```
///
/// # What the backend must be able to do
///
/// The type parameter is the backend. So a call that the backend cannot serve does not compile:
/// [`mutex`](Self::mutex) exists over every [`Backend`], [`rwlock`](Self::rwlock) over a
/// [`SharedBackend`](lock_core::SharedBackend), and so on. The locks themselves do not have this parameter:
/// `Mutex<T>` is one type over all backends.
///
/// Code for any backend takes `&Locks<B>`, and bounds `B` by the capability that it needs. Code without the parameter
/// takes `Locks`, which is `Locks<AnyBackend>` and has every primitive. A primitive that the store cannot serve then
/// fails with [`ErrorKind::Unsupported`], before anything is sent. [`erase`](Self::erase) turns any other handle into
/// a `Locks<AnyBackend>`.
pub struct Locks<B: ?Sized = AnyBackend> {
    pub(crate) shared: Arc<Shared>,
    /// The backend that `shared` has as well, here with all its capabilities.
    pub(crate) backend: Arc<B>,
    /// The policy of the locks that this handle makes.
    policy: Policy,
}

impl<B: Backend> Locks<B> {
    /// Locks over this backend, with the defaults of the [`Builder`].
    pub fn new(backend: B) -> Self {
        // The defaults are valid.
        Builder::new(Arc::new(backend)).build_with(Ttl::DEFAULT)
    }

    /// Begins to build locks over this backend.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_core::memory::MemoryBackend;
    /// use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::builder(MemoryBackend::new())
    ///     .ttl(Duration::from_secs(10))
    ///     .max_hold(Duration::from_secs(60))
    ///     .build()?;
    /// let guard = locks.lock("report").await?;
    /// assert!(guard.lease().remaining() <= Duration::from_secs(10));
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(backend: B) -> Builder<B> {
        Builder::new(Arc::new(backend))
    }

    /// A handle to these locks without the type of the backend. Both handles make the same locks.
    ///
    /// The handle has every primitive whose capability the backend [names](Backend::capabilities). The other primitives
    /// fail with [`ErrorKind::Unsupported`], before anything is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_sync::Locks;
    ///
    /// struct App {
    ///     locks: Locks,
    /// }
    ///
    /// let app = App { locks: Locks::new(MemoryBackend::new()).erase() };
    /// assert!(app.locks.mutex("a", ()).is_ok());
    /// assert!(app.locks.rwlock("b", ()).is_ok());
    /// ```
    pub fn erase(&self) -> Locks {
        let backend = Arc::new(AnyBackend::from(Arc::clone(&self.shared.backend)));
        Locks { shared: Arc::clone(&self.shared), backend, policy: self.policy.clone() }
    }
}

impl<B: ?Sized> Locks<B> {
    options!("of the locks that this handle makes", "locks.clone()", |this, change| {
        change(&mut this.policy, &this.shared.labels)
    });

    /// Refuses every further acquisition, and waits until the store has answered every release.
    ///
    /// Waiters get [`LockError::Closed`](crate::LockError::Closed). Guards that are still alive
    /// stay valid. The driver renews their leases, and releases them when the guards are dropped. `shutdown` does
    /// not wait for these guards.
    ///
    /// Call `shutdown` before the process ends. Otherwise some releases may never leave, and the store frees these
    /// locks only at the end of their leases. `shutdown` returns as soon as no request is under way, and at the latest
    /// after its [limit](Builder::shutdown_limit). It returns whether the store has answered every release by then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the locks stay closed. Another call waits again.
    pub async fn shutdown(&self) -> bool {
        self.shutdown_timeout(self.shared.shutdown_limit).await
    }

    /// As [`shutdown`](Self::shutdown), but waits for `limit` at most.
    ///
    /// # Cancel safety
    ///
    /// As [`shutdown`](Self::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// drop(locks.lock("report").await?);
    /// assert!(locks.shutdown_timeout(Duration::from_secs(2)).await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown_timeout(&self, limit: Duration) -> bool {
        for entry in self.shared.close() {
            entry.close();
        }
        if !self.shared.is_driven() {
            return true;
        }
        // The clock of the driver also serves callers without a runtime. If the driver ends, the bell rings.
        let bell = alarm(&self.shared, limit);
        tokio::select! {
            biased;
            () = self.shared.flights.all_landed() => true,
            () = bell => false,
        }
    }

    /// The lock with this name, without data.
    pub(crate) fn bare_lock<K>(&self, name: K) -> Result<BareLock, Error>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        BareLock::named(&self.shared, name.try_into()?, self.policy.clone())
    }
}

impl<B: ?Sized> Clone for Locks<B> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            backend: Arc::clone(&self.backend),
            policy: self.policy.clone(),
        }
    }
}

impl<B: ?Sized> fmt::Debug for Locks<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("ttl", &self.policy.ttl.duration()).finish_non_exhaustive()
    }
}

/// Builds [`Locks`].
///
/// | option | default |
/// | --- | --- |
/// | [`ttl`](Self::ttl) | 30 s |
/// | [`renewal`](Self::renewal) | on |
/// | [`wait_limit`](Self::wait_limit) | none |
/// | [`outage_limit`](Self::outage_limit) | one `ttl`, or the limit of a caller that has one |
/// | [`max_hold`](Self::max_hold) | none |
/// | [`shutdown_limit`](Self::shutdown_limit) | one `ttl` |
/// | [`handoff`](Self::handoff) | [`Handoff::default`] |
/// | [`label`](Self::label) | [`Label::of_process`] |
/// | [`prefix`](Self::prefix) | empty |
/// | [`on_runtime`](Self::on_runtime) | a thread of its own |
/// | [`requests_in_background`](Self::requests_in_background) | off |
/// | [`observer`](Self::observer) | none |
/// | [`observe_one_in`](Self::observe_one_in) | all acquisitions of a lock, or one in 256 while it is acquired more than 100 000 times a second |
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<B: ?Sized = AnyBackend> {
    backend: Arc<B>,
    ttl: Option<Duration>,
    choices: Choices,
}

impl<B: Backend> Builder<B> {
    fn new(backend: Arc<B>) -> Self {
        let choices = Choices {
            renew: true,
            wait_limit: None,
            max_hold: None,
            outage_limit: None,
            shutdown_limit: None,
            handoff: Handoff::default(),
            label: None,
            prefix: Vec::new(),
            runtime: None,
            home: Home::Asker,
            observers: Observers::none(),
            sampling: Sampling::ByPace,
        };
        Self { backend, ttl: None, choices }
    }

    /// How long a lease lives unless the driver renews it. After the crash of a holder, other
    /// processes wait for this time at most.
    ///
    /// The ttl is between 10 ms and 24 h. The driver renews a lease after each third of its ttl. With a shorter
    /// ttl, the holder notices a loss sooner, but a shorter outage of the store ends the lease.
    ///
    /// The [example](Locks::builder) of the builder sets it.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Whether the driver renews leases while a guard lives. Without renewal, the lease of a guard
    /// ends after one [`ttl`](Self::ttl).
    ///
    /// A conversion starts this time anew: an upgrade, a downgrade, or the return of a part of the permits of a lease.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::builder(MemoryBackend::new()).renewal(false).build()?;
    /// let guard = locks.lock("report").await?;
    /// // The lease ends by then in any case.
    /// let _end = guard.lease().valid_until();
    /// # Ok(())
    /// # }
    /// ```
    pub fn renewal(mut self, renew: bool) -> Self {
        self.choices.renew = renew;
        self
    }

    /// How long a call waits at most, unless the call has a limit of its own.
    ///
    /// Without a limit, a call waits for other holders without end. [`outage_limit`](Self::outage_limit) says how long
    /// a call waits for a store that is out of reach.
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.choices.wait_limit = Some(limit);
        self
    }

    /// How long a call waits for a store that is out of reach, no matter how long the call may wait for other holders.
    ///
    /// The time counts from the first failed request for the name, so a later caller may wait for less time. When the
    /// time is over, the error is [`LockError::Backend`](crate::LockError::Backend) with the failure. With zero, the
    /// first failure ends the wait. A request without an answer fails when the backend gives the request up. A store
    /// that says when it is ready is not out of reach.
    ///
    /// Without this option, a call with a limit of its own or a [`wait_limit`](Self::wait_limit) waits for the store
    /// until that limit, and every other call waits for as long as one lease lives. For a single lock, see
    /// [`Mutex::with_outage_limit`](crate::Mutex::with_outage_limit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::{ErrorKind, memory::MemoryBackend};
    /// # use lock_sync::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryBackend::new();
    /// let locks = Locks::builder(store.clone()).outage_limit(Duration::ZERO).build()?;
    /// store.faults().cut();
    /// assert!(matches!(locks.lock("report").await, Err(LockError::Backend(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn outage_limit(mut self, limit: Duration) -> Self {
        self.choices.outage_limit = Some(limit);
        self
    }

    /// How long [`shutdown`](Locks::shutdown) waits at most for the answers to releases.
    ///
    /// By default `shutdown` waits for one [`ttl`](Self::ttl): by then every lease that was given up has ended. Choose
    /// a shorter limit if your service has less time to end.
    pub fn shutdown_limit(mut self, limit: Duration) -> Self {
        self.choices.shutdown_limit = Some(limit);
        self
    }

    /// How long a guard may hold the lock at most. This limit bounds the damage of a task that
    /// hangs.
    ///
    /// When the time is over, the lease is lost and the lock is released.
    ///
    /// The [example](Locks::builder) of the builder sets it.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.choices.max_hold = Some(limit);
        self
    }

    /// How long this process hands a lock off among its own tasks while other processes wait. For a
    /// single lock, see [`Mutex::with_handoff`](crate::Mutex::with_handoff).
    pub fn handoff(mut self, handoff: Handoff) -> Self {
        self.choices.handoff = handoff;
        self
    }

    /// The label by which people know the holders and the waiters of this process. An
    /// [inspection](Locks::inspect) shows it. By default it is [`Label::of_process`]: program, host and process id. For
    /// a single lock, see [`Mutex::with_label`](crate::Mutex::with_label).
    ///
    /// The driver writes the label to the store a tenth of a second after its start, and then every five minutes. The
    /// label makes no grant and no release slower. A store that does not keep labels shows none, and is otherwise not
    /// affected.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::{Label, memory::MemoryBackend};
    /// # use lock_sync::Locks;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let label = Label::new("billing, blue deployment")?;
    /// let locks = Locks::builder(MemoryBackend::new()).label(label).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: Label) -> Self {
        self.choices.label = Some(label);
        self
    }

    /// A prefix for every name except the names made with [`Key::raw`]: a namespace of the app. It works
    /// over every backend.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.choices.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Runs the driver on this runtime instead of a thread of its own.
    ///
    /// This option saves the thread, and makes tests under tokio's paused time possible. On a runtime with one thread,
    /// a hand-over from another process is faster by up to a third, because it wakes one thread of this process
    /// instead of two. But the driver then renews leases only while no task blocks that runtime. When the runtime
    /// shuts down, the lease of every guard is lost, each waiter gets an error, and the store keeps unreleased leases
    /// until they end. The runtime needs a timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_sync::Locks;
    /// use tokio::runtime::Handle;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::builder(MemoryBackend::new()).on_runtime(Handle::current()).build()?;
    /// locks.lock("report").await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_runtime(mut self, runtime: Handle) -> Self {
        self.choices.runtime = Some(runtime);
        self
    }

    /// Sends every request from the runtime of the driver, even if a task waits for the answer.
    ///
    /// By default a task sends the request on its own runtime, and the answer reaches the task without waking another
    /// thread. That runtime needs I/O and time, as `#[tokio::main]` provides. A backend may keep a connection for each
    /// such runtime, and `lock-redis` does. If the runtime has several threads, the process also listens to the store
    /// there. Switch this option on if your runtime has no I/O or time, or if the process is to have only one
    /// connection. The option costs two wake-ups for each request and each grant.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_sync::Locks;
    ///
    /// let locks = Locks::builder(MemoryBackend::new()).requests_in_background(true).build()?;
    /// # let _: Locks<MemoryBackend> = locks;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn requests_in_background(mut self, on_driver: bool) -> Self {
        self.choices.home = if on_driver { Home::Driver } else { Home::Asker };
        self
    }

    /// Adds an observer of acquisitions, holds, leases and the driver.
    ///
    /// Give the observer to the builder of the backend as well: the backend reports requests and connections. The page
    /// [`observing`](crate::guide::observing) says what the events mean.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::observer::{AcquireBegun, Observer};
    /// use lock_sync::Locks;
    ///
    /// #[derive(Default)]
    /// struct Acquisitions(AtomicU32);
    ///
    /// impl Observer for Acquisitions {
    ///     fn acquire_begun(&self, event: &AcquireBegun<'_>) {
    ///         self.0.fetch_add(event.stands_for, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let count = Arc::new(Acquisitions::default());
    /// let locks = Locks::builder(MemoryBackend::new()).observer(count.clone()).build()?;
    /// drop(locks.lock("report").await?);
    /// assert_eq!(count.0.load(Ordering::Relaxed), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.choices.observers.add(observer);
        self
    }

    /// Makes the observers hear of one in this many acquisitions, chosen at random, with all its events. With 1, they
    /// hear of all acquisitions.
    ///
    /// Without this call, the observers hear of all acquisitions of a lock until it is acquired very often. The events
    /// of one acquisition cost some 100 ns, a quarter of which is a look at the clock. That matters only for a lock
    /// that goes from task to task within the process all the time. So when a thousand acquisitions of a lock take less
    /// than ten milliseconds, the observers hear of one in 256 of its acquisitions from then on. When the lock is
    /// acquired fewer than about 50 000 times a second, they hear of all acquisitions again. They may miss the first
    /// acquisition after the burst, and the acquisitions that begin before the first one has its outcome.
    ///
    /// An event about an acquisition or a hold says how many acquisitions it
    /// [stands for](lock_core::observer::AcquireEnded::stands_for). The observers hear of every renewal, loss and
    /// hand-over to another process. A loss may name holds of which they have not heard.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::observer::Observer;
    /// use lock_sync::Locks;
    ///
    /// struct Quiet;
    ///
    /// impl Observer for Quiet {}
    ///
    /// let locks = Locks::builder(MemoryBackend::new()).observer(Arc::new(Quiet)).observe_one_in(64);
    /// # let _: Locks<MemoryBackend> = locks.build()?;
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn observe_one_in(mut self, acquisitions: u32) -> Self {
        self.choices.sampling = Sampling::OneIn(acquisitions);
        self
    }

    /// Builds the locks. This call sends no request and does not start the driver.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidTtl`] for a [`ttl`](Self::ttl) out of range;
    /// - [`ErrorKind::InvalidConfig`] for a [`wait_limit`](Self::wait_limit) or [`max_hold`](Self::max_hold) of zero;
    /// - [`ErrorKind::InvalidKey`] for a [`prefix`](Self::prefix) that leaves no room for a name.
    pub fn build(self) -> Result<Locks<B>, Error> {
        let ttl = self.ttl.map_or(Ok(Ttl::DEFAULT), Ttl::new)?;
        check_limit("wait limit", self.choices.wait_limit)?;
        check_limit("maximum hold", self.choices.max_hold)?;
        if self.choices.prefix.len() >= Key::MAX_LEN {
            return Err(Error::new(ErrorKind::InvalidKey, "the prefix leaves no room for a name"));
        }
        Ok(self.build_with(ttl))
    }

    fn build_with(self, ttl: Ttl) -> Locks<B> {
        let Self { backend, choices, .. } = self;
        let shared = Arc::new(Shared::new(Arc::clone(&backend) as _, ttl, choices));
        Locks { policy: shared.policy.clone(), shared, backend }
    }
}

impl<B: ?Sized> fmt::Debug for Builder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("ttl", &self.ttl)
            .field("renewal", &self.choices.renew)
            .field("wait_limit", &self.choices.wait_limit)
            .field("outage_limit", &self.choices.outage_limit)
            .field("max_hold", &self.choices.max_hold)
            .field("handoff", &self.choices.handoff)
            .finish_non_exhaustive()
    }
}
