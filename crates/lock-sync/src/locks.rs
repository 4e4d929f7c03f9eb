//! The handle that an app keeps, and how it is built.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Backend, Error, ErrorKind, Key, Ttl};
use tokio::runtime::Handle;

use crate::bare::{BareLock, alarm};
use crate::engine::{Choices, Home, Shared};
use crate::handoff::Handoff;

/// The locks of one backend: what an app builds once and keeps.
///
/// It names locks, carries their defaults, and owns the driver, a thread that renews leases,
/// releases what dropped guards gave up, and listens for releases elsewhere. Clones share all of it.
/// The driver starts with the first lock that is asked for, and ends when the last handle, lock and
/// guard is gone.
///
/// Within one process, everything made by one `Locks` and its clones under one name is one lock, with
/// one queue. Two separate `Locks` over the same store contend like two processes.
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
/// The type parameter is the backend, so that asking for what it cannot do is an error of the compiler's:
/// [`mutex`](Self::mutex) is there over every [`Backend`], [`rwlock`](Self::rwlock) over a
/// [`SharedBackend`](lock_core::SharedBackend), and so on. The locks themselves do not carry it: a
/// `Mutex<T>` is one type whatever it stands on.
///
/// Code that is to work over any backend takes `&Locks<B>` with the ability that it needs as the bound of
/// `B`, or a handle with that ability alone: `Locks`, without a parameter, is `Locks<dyn Backend>`, which
/// [`erase`](Self::erase) makes of any other.
pub struct Locks<B: ?Sized = dyn Backend> {
    pub(crate) shared: Arc<Shared>,
    /// The same as in `shared`, with all its abilities.
    pub(crate) backend: Arc<B>,
}

impl<B: Backend> Locks<B> {
    /// Locks over this backend, with the defaults of the [`Builder`].
    pub fn new(backend: B) -> Self {
        // The defaults are valid.
        Builder::new(Arc::new(backend)).build_with(Ttl::DEFAULT)
    }

    /// Begins to build locks over this backend.
    pub fn builder(backend: B) -> Builder<B> {
        Builder::new(Arc::new(backend))
    }

    /// The same locks, of which only the mutex is left.
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
    /// ```
    pub fn erase(&self) -> Locks {
        Locks { shared: Arc::clone(&self.shared), backend: Arc::clone(&self.shared.backend) }
    }
}

impl<B: ?Sized> Locks<B> {
    /// Refuses every further acquisition, and waits until the store has heard of every release.
    ///
    /// Waiting tasks get [`LockError::Closed`](crate::LockError::Closed). Guards that are still alive
    /// stay valid, are renewed, and release when they are dropped; they are not waited for.
    ///
    /// Call it before the process ends: what the driver has not sent by then is not sent at all, and
    /// the store frees such a lock only at the end of its lease. It returns as soon as nothing is
    /// under way, and in any case after one [lease](Builder::ttl), when there is nothing left to
    /// release.
    ///
    /// # Cancel safety
    ///
    /// The locks stay closed; calling it again waits again.
    pub async fn shutdown(&self) {
        for entry in self.shared.close() {
            entry.close();
        }
        if !self.shared.is_driven() {
            return;
        }
        // The driver's clock serves callers without a runtime, too; a driver that goes away rings.
        let bell = alarm(&self.shared, self.shared.policy.ttl.duration());
        tokio::select! {
            () = self.shared.flights.all_landed() => {}
            () = bell => {}
        }
    }

    /// The lock with this name, without data.
    pub(crate) fn bare_lock<K>(&self, name: K) -> Result<BareLock, Error>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        BareLock::named(&self.shared, name.try_into()?)
    }
}

impl<B: ?Sized> Clone for Locks<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), backend: Arc::clone(&self.backend) }
    }
}

impl<B: ?Sized> fmt::Debug for Locks<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("ttl", &self.shared.policy.ttl.duration())
            .finish_non_exhaustive()
    }
}

/// Builds [`Locks`].
///
/// | option | default |
/// | --- | --- |
/// | [`ttl`](Self::ttl) | 30 s |
/// | [`renewal`](Self::renewal) | on |
/// | [`wait_limit`](Self::wait_limit) | none |
/// | [`max_hold`](Self::max_hold) | none |
/// | [`handoff`](Self::handoff) | [`Handoff::default`] |
/// | [`prefix`](Self::prefix) | empty |
/// | [`on_runtime`](Self::on_runtime) | a thread of its own |
/// | [`requests_on_driver`](Self::requests_on_driver) | off |
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<B: ?Sized = dyn Backend> {
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
            handoff: Handoff::default(),
            prefix: Vec::new(),
            runtime: None,
            home: Home::Asker,
        };
        Self { backend, ttl: None, choices }
    }

    /// How long a lease lives unless it is renewed: how long others wait for a crashed holder.
    ///
    /// Renewed every third of it. A short lease is noticed sooner when it is lost, and survives
    /// shorter outages. 10 ms to 24 h.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Whether leases are renewed while a guard lives. Without it a guard is lost after one
    /// [`ttl`](Self::ttl).
    pub fn renewal(mut self, renew: bool) -> Self {
        self.choices.renew = renew;
        self
    }

    /// How long `lock` waits at most, unless the call says otherwise.
    ///
    /// Without a limit `lock` waits for other holders as long as it takes, and for a store out of
    /// reach as long as one lease lives. With a limit it waits for both until the limit is reached.
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.choices.wait_limit = Some(limit);
        self
    }

    /// How long a guard may hold the lock at most: a cap on renewal, against tasks that hang.
    ///
    /// At its end the guard is lost and the lock is released.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.choices.max_hold = Some(limit);
        self
    }

    /// How far the locks are passed on inside this process while others wait elsewhere. For one of
    /// them, see [`Mutex::with_handoff`](crate::Mutex::with_handoff).
    pub fn handoff(mut self, handoff: Handoff) -> Self {
        self.choices.handoff = handoff;
        self
    }

    /// What is put before every name, other than those made with [`Key::as_is`]: a namespace of the
    /// app, the same over every backend.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.choices.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Runs the driver on this runtime instead of a thread of its own.
    ///
    /// Saves the thread, and makes tests under tokio's paused time possible. On a runtime with one thread, a hand-over
    /// from another process is faster by up to a third, because it wakes one thread of this process instead of two.
    /// In exchange leases are renewed only while that runtime is not blocked. When the runtime shuts down, every guard
    /// is lost, each waiter gets an error, and leases that were not released by then end by themselves. The runtime
    /// needs a timer.
    pub fn on_runtime(mut self, runtime: Handle) -> Self {
        self.choices.runtime = Some(runtime);
        self
    }

    /// Sends every request from the driver's runtime, also those for which a task waits.
    ///
    /// By default a task asks on its own runtime, where the answer reaches it without waking another
    /// thread, and a backend may keep a connection there: `lock-redis` has one for each runtime that
    /// asks. If the runtime has several threads, the process also listens to the store there. The runtime
    /// needs I/O and time, as `#[tokio::main]` gives it. Switch this on for one connection in all, at the
    /// price of two wake-ups for each request and each grant, or if your runtime has no I/O or time.
    pub fn requests_on_driver(mut self, on_driver: bool) -> Self {
        self.choices.home = if on_driver { Home::Driver } else { Home::Asker };
        self
    }

    /// Builds the locks. Nothing is sent and nothing is started yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTtl`] for a lease out of range; [`ErrorKind::InvalidConfig`] for a limit of
    /// zero; [`ErrorKind::InvalidKey`] for a prefix that leaves no room for a name.
    pub fn build(self) -> Result<Locks<B>, Error> {
        let ttl = self.ttl.map_or(Ok(Ttl::DEFAULT), Ttl::new)?;
        for (name, limit) in
            [("wait limit", self.choices.wait_limit), ("maximum hold", self.choices.max_hold)]
        {
            if limit == Some(Duration::ZERO) {
                return Err(Error::new(
                    ErrorKind::InvalidConfig,
                    format!("a {name} of zero: leave it out, or use try_lock"),
                ));
            }
        }
        if self.choices.prefix.len() >= Key::MAX_LEN {
            return Err(Error::new(ErrorKind::InvalidKey, "the prefix leaves no room for a name"));
        }
        Ok(self.build_with(ttl))
    }

    fn build_with(self, ttl: Ttl) -> Locks<B> {
        let Self { backend, choices, .. } = self;
        Locks { shared: Arc::new(Shared::new(Arc::clone(&backend) as _, ttl, choices)), backend }
    }
}

impl<B: ?Sized> fmt::Debug for Builder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("ttl", &self.ttl)
            .field("renewal", &self.choices.renew)
            .field("wait_limit", &self.choices.wait_limit)
            .field("max_hold", &self.choices.max_hold)
            .field("handoff", &self.choices.handoff)
            .finish_non_exhaustive()
    }
}
