//! A store inside this process: the reference implementation, and a lock server for tests.
//!
//! [`MemoryBackend`] keeps every promise of the [`Backend`] contract, and can be made to break the
//! promises that a network breaks: see [`Faults`]. Write tests against this backend, and start with it while an
//! app has only one process.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use lock_core::memory::MemoryBackend;
//! use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> lock_core::Result<()> {
//! let (ours, theirs) = {
//!     let backend = MemoryBackend::new();
//!     (backend.client(), backend.client())
//! };
//! let key = Key::new("orders/42")?;
//! let ttl = Ttl::new(Duration::from_secs(30))?;
//!
//! let mine = Acquire::new(Claim::exclusive(key.clone(), OwnerToken::generate()?), ttl);
//! assert!(matches!(ours.try_acquire(&mine).await?, AcquireOutcome::Granted(_)));
//!
//! let rival = Acquire::new(Claim::exclusive(key, OwnerToken::generate()?), ttl);
//! assert!(matches!(theirs.try_acquire(&rival).await?, AcquireOutcome::Busy { .. }));
//!
//! // No client renews, so the lease expires: here in no time, because this runtime is paused.
//! tokio::time::sleep(ttl.duration()).await;
//! assert!(matches!(theirs.try_acquire(&rival).await?, AcquireOutcome::Granted(_)));
//! # Ok(())
//! # }
//! ```

mod capabilities;
mod connection;
mod entry;
mod faults;
mod gate;
mod labels;
mod node;
mod post;
mod quorum;
mod stats;
mod store;
mod switches;
mod together;
mod watchers;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::faults::Faults;
pub use self::gate::Gate;
pub use self::stats::{Stats, Verb};

use self::connection::Connection;
use self::store::Store;
use crate::{
    Acquire, AcquireOutcome, Backend, Capabilities, Claim, ClientMark, Clock, Error, Key, Label,
    Released, Renew, Renewal, Watch,
};

/// A store inside this process, and one client's connection to it.
///
/// `Clone` gives another handle of this client: both handles share the connection, its
/// [faults](Self::faults) and its [statistics](Self::stats). [`client`](Self::client) gives another
/// client of this store, as another process would be. The store lives as long as any of its clients.
///
/// The backend serves all modes and conversions, and has every capability for which there is a trait. A lease
/// lives until its owner releases it or it expires. The lease does not end with its client.
///
/// # Queue
///
/// A refused request that asks for a place gets one in the queue of its key, if its client
/// watches the key and can be told of the grant. A request that makes room hands the key to the first waiter,
/// or to as many waiters as there is room for. No request overtakes a waiter. The store passes over places that
/// have lapsed, and waiters whose client was cut or no longer watches the key. The store has no timers:
/// after a lease has expired, the next request for its key, from any client, serves the queue. So a hand-over
/// tells the next waiter when to ask.
///
/// A queue takes [10 000](Self::DEFAULT_QUEUE_LIMIT) requests unless the store was made
/// [with another limit](Self::with_queue_limit).
///
/// # In a quorum
///
/// A vote gives up the place in the queue that its claim has. The names of servers and quarantines are
/// unique in this process. No other process sees them.
///
/// # What stays
///
/// A semaphore's limit is forgotten an hour after its last use, unless the limit was changed or the semaphore
/// was closed. A value beside a lock stays until it is erased.
///
/// # Time
///
/// Leases are dated on [`Clock::tokio`], so under a paused runtime they end by the time of the test.
/// The thread that polls reads that clock. With paused time every user of a store must therefore
/// run on the paused runtime, because a thread outside it sees the real time. No method needs a
/// runtime, unless a fault asks for a delay.
#[derive(Clone)]
pub struct MemoryBackend {
    store: Arc<Store>,
    connection: Arc<Connection>,
}

impl MemoryBackend {
    /// How many requests may wait for one key by default: 10 000.
    ///
    /// [`with_queue_limit`](Self::with_queue_limit) has an example.
    pub const DEFAULT_QUEUE_LIMIT: NonZeroU32 = NonZeroU32::new(10_000).unwrap();

    /// An empty store, and its first client.
    pub fn new() -> Self {
        Self::with_queue_limit(Self::DEFAULT_QUEUE_LIMIT)
    }

    /// An empty store in which at most `limit` requests may wait for one key, and its first client.
    ///
    /// A further request gets [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{Acquire, Backend, Claim, ErrorKind, Key, OwnerToken, Ttl};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let backend = MemoryBackend::with_queue_limit(NonZeroU32::MIN);
    /// let key = Key::new("orders/42")?;
    /// let _watch = backend.watch(&key).await?;
    /// let request = || -> lock_core::Result<Acquire> {
    ///     let claim = Claim::exclusive(key.clone(), OwnerToken::generate()?);
    ///     Ok(Acquire::new(claim, Ttl::DEFAULT).queued())
    /// };
    /// let _granted = backend.try_acquire(&request()?).await?;
    /// let _queued = backend.try_acquire(&request()?).await?;
    /// let error = backend.try_acquire(&request()?).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::QueueFull);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_queue_limit(limit: NonZeroU32) -> Self {
        Self { store: Arc::new(Store::new(limit)), connection: Arc::default() }
    }

    /// Another client of this store, with a connection, faults and statistics of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{Acquire, Backend, Claim, Key, OwnerToken, Ttl};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let here = MemoryBackend::new();
    /// let there = here.client();
    /// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
    /// let _granted = here.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
    /// assert_eq!(there.live_leases(), 1);
    /// assert_eq!((here.stats().total(), there.stats().total()), (1, 0));
    ///
    /// here.faults().cut();
    /// assert!(here.release(&claim).await.is_err());
    /// assert!(there.release(&claim).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client(&self) -> Self {
        Self { store: Arc::clone(&self.store), connection: Arc::default() }
    }

    /// The switches that disturb this client.
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.store), Arc::clone(&self.connection))
    }

    /// The number of requests that this client has made.
    pub fn stats(&self) -> Stats {
        self.connection.stats()
    }

    /// The number of live leases in the store, of all keys and clients.
    ///
    /// Expired leases do not count. Zero at the end of a test shows that nothing leaked.
    pub fn live_leases(&self) -> usize {
        self.store.live_leases()
    }

    /// Makes the store drop every lease, every place in a queue, every limit and every value without
    /// telling any client, as a Redis server does on FLUSHALL.
    ///
    /// Watches stay. Fencing tokens go on increasing, except those that a quorum numbers. As a node of a
    /// quorum, the store is now in [quarantine](crate::QuorumNode). The method of this name that takes permits
    /// away is [`PermitBackend::forget`](crate::PermitBackend::forget).
    pub fn forget(&self) {
        self.store.forget();
    }

    /// Makes the store go on as another run of its server, with all its data, as after a restart from a
    /// file that is up to date.
    ///
    /// Every watch of every client ends. As a node of a quorum, the store is now in
    /// [quarantine](crate::QuorumNode). To imitate a restart from an old file, call [`forget`](Self::forget) as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{Membership, QuorumNode, Terms, Ttl};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let node = MemoryBackend::new();
    /// let terms = Terms::new(Membership::of(["a", "b", "c"]), Ttl::DEFAULT);
    /// let before = node.standing(&terms).await?;
    /// assert!(node.vouch(&before.quarantine, Ttl::DEFAULT).await?);
    /// assert_eq!(node.standing(&terms).await?.max_ttl, Some(Ttl::DEFAULT));
    ///
    /// node.restart();
    /// let after = node.standing(&terms).await?;
    /// assert_eq!(after.max_ttl, None);
    /// assert_ne!(after.server, before.server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn restart(&self) {
        self.store.restart();
    }

    /// Sets the clock forward by which the store ends its [quarantines](crate::QuorumNode), as an operator who sets the
    /// clock of a server does. Leases do not notice.
    ///
    /// The [example](crate::Ballot#examples) of a ballot shows a quarantine.
    pub fn set_clock_forward(&self, by: Duration) {
        self.store.lock().node.set_clock_forward(by);
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        let sent = self.clock().now();
        let Self { store, connection } = self;
        connection.carry(Verb::Acquire, || store.acquire(request, connection, sent)).await?
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let sent = self.clock().now();
        let Self { store, connection } = self;
        connection
            .carry(Verb::Renew, || store.renew(request, connection, sent))
            .await
            .unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let Self { store, connection } = self;
        connection.carry(Verb::Release, || store.release(claim, connection)).await
    }

    async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        let sent = self.clock().now();
        let Self { store, connection } = self;
        connection
            .carry(Verb::Release, || store.release_and_requeue(claim, next, connection, sent))
            .await
    }

    async fn try_acquire_all(
        &self,
        requests: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        let sent = self.clock().now();
        let Self { store, connection } = self;
        let acquire = || store.try_acquire_all(requests, connection, sent);
        connection.carry(Verb::Acquire, acquire).await?.map(Some)
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.connection.carry(Verb::Watch, || self.store.watch(key, &self.connection)).await?
    }

    async fn introduce(
        &self,
        client: ClientMark,
        label: &Label,
        keep: Duration,
    ) -> Result<(), Error> {
        let introduce = || self.store.introduce(client, label.clone(), keep);
        self.connection.carry(Verb::Introduce, introduce).await
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let all = Capabilities::none().sharing(self).joining(self).converting(self);
        all.counting(self).keeping(self).inspecting(self)
    }
}
