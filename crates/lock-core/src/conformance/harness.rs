//! How the suite handles a store.

use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

use crate::memory::MemoryBackend;
use crate::{Backend, Error, Limits, Ttl};

/// How the suite handles a store: the hooks that only the store's author can write.
///
/// One harness may serve several laws one after another, on one store, because each law uses keys of its
/// own.
///
/// # Examples
///
/// A harness for a backend of your own. `Mine` stands for that backend.
///
/// ```
/// # use lock_core::memory::MemoryBackend as Mine;
/// use lock_core::conformance::{Harness, Hook, Verdict, laws, run};
///
/// struct MyHarness(Mine);
///
/// #[async_trait::async_trait]
/// impl Harness for MyHarness {
///     type Client = Mine;
///
///     async fn client(&self) -> lock_core::Result<Mine> {
///         // A connection of its own, not a clone.
///         Ok(self.0.client())
///     }
///
///     async fn cut(&self, client: &Mine) -> Hook {
///         client.faults().cut();
///         Hook::Done
///     }
///
///     async fn heal(&self, client: &Mine) {
///         client.faults().heal();
///     }
///
///     async fn forget(&self) -> Hook {
///         Hook::NotApplicable("this store keeps what it has")
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let harness = MyHarness(Mine::new());
/// for law in laws() {
///     let verdict = run(law.name(), &harness).await;
///     assert!(!matches!(verdict, Verdict::Broken(_)), "{}: {verdict:?}", law.name());
/// }
/// # }
/// ```
#[async_trait]
pub trait Harness: Send + Sync {
    /// The backend under test.
    type Client: Backend;

    /// Makes a client that shares only the store with the other clients, as if it lived in another
    /// process.
    ///
    /// # Errors
    ///
    /// Any error that prevents this. It breaks the law that asked for a client.
    async fn client(&self) -> Result<Self::Client, Error>;

    /// Makes a client of this store, or of a store of its own, for which no more than `waiters`
    /// requests for a key are queued.
    ///
    /// `None` by default, for a backend whose queue has no such limit, or no queue.
    ///
    /// # Errors
    ///
    /// Any error that prevents this.
    ///
    /// The [example](Harness#examples) of a harness keeps the default.
    async fn limited_client(&self, _waiters: NonZeroU32) -> Result<Option<Self::Client>, Error> {
        Ok(None)
    }

    /// Makes a client of a server that no other client uses or has used: another node of
    /// a quorum.
    ///
    /// `None` by default, for a harness that has one server.
    ///
    /// # Errors
    ///
    /// Any error that prevents this.
    ///
    /// The [example](Harness#examples) of a harness keeps the default.
    async fn other_server(&self) -> Result<Option<Self::Client>, Error> {
        Ok(None)
    }

    /// Breaks a client's connection to the store.
    ///
    /// The connection may stay broken until [`heal`](Self::heal), or come back as soon as the client connects
    /// anew. The laws allow for both.
    async fn cut(&self, client: &Self::Client) -> Hook;

    /// Lets a client that was cut reach the store again.
    ///
    /// Does nothing by default. That fits a [`cut`](Self::cut) that closes a connection and does
    /// not prevent the next one.
    async fn heal(&self, _client: &Self::Client) {}

    /// Makes the store forget everything, counters included: FLUSHALL, an empty disk.
    async fn forget(&self) -> Hook;

    /// Restarts the server with all its data. Clients may reach the server only after a while.
    ///
    /// Not applicable by default.
    ///
    /// The [example](Harness#examples) of a harness keeps the default.
    async fn restart(&self) -> Hook {
        Hook::NotApplicable("this harness does not restart its server")
    }

    /// Lets `time` pass.
    ///
    /// By default sleeps, which under a paused tokio clock takes no time.
    ///
    /// The [example](Harness#examples) of a harness keeps the default.
    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets time pass until a lease, a place or a record of this length is over for the store as well.
    ///
    /// By default [pauses](Self::pause) for `time` and 20 ms more. If the [limits](Backend::limits) of the store differ
    /// from the default, pause for [`Limits::lease`](crate::Limits::lease) and for the lag.
    ///
    /// The [example](Harness#examples) of a harness keeps the default.
    async fn outlast(&self, time: Duration) {
        self.pause(time + Limits::default().lag).await;
    }

    /// The lease time of the laws that wait for a lease to end: half a second by default.
    ///
    /// Choose a time that is many times longer than a request with its answer, and short enough to wait for.
    ///
    /// The [example](Harness#examples) of a harness keeps the default.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_millis(500)).unwrap_or(Ttl::MIN)
    }

    /// The longest time that a single request or hint may take: ten seconds by default.
    ///
    /// The [example](Harness#examples) of a harness keeps the default.
    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// The outcome of a hook of a [`Harness`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a law that needs the hook is not applicable without it"]
pub enum Hook {
    /// The hook has done its work.
    Done,
    /// This store or this harness cannot do it, for the given reason.
    NotApplicable(&'static str),
}

/// The store is its own harness. Each [`client`](MemoryBackend::client) is a client.
#[async_trait]
impl Harness for MemoryBackend {
    type Client = Self;

    async fn client(&self) -> Result<Self, Error> {
        Ok(Self::client(self))
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<Self>, Error> {
        Ok(Some(Self::with_queue_limit(waiters)))
    }

    async fn other_server(&self) -> Result<Option<Self>, Error> {
        Ok(Some(Self::new()))
    }

    async fn cut(&self, client: &Self) -> Hook {
        client.faults().cut();
        Hook::Done
    }

    async fn heal(&self, client: &Self) {
        client.faults().heal();
    }

    async fn forget(&self) -> Hook {
        Self::forget(self);
        Hook::Done
    }

    async fn restart(&self) -> Hook {
        Self::restart(self);
        Hook::Done
    }

    /// Short, because there is no network between a client and this store.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_millis(250)).unwrap_or(Ttl::MIN)
    }
}
