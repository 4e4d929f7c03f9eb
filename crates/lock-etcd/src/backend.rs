//! The four verbs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Capabilities, Claim, ClientMark, Clock, Error, Key, Label,
    Limits, Released, Renew, Renewal, Watch,
};

use crate::builder::Builder;
use crate::core::Core;
use crate::shared::Shared;

/// Locks in an etcd cluster.
///
/// `Clone` gives another handle of the same client. The first request opens the connection, on a thread of its own.
///
/// # Examples
///
/// ```no_run
/// use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
/// use lock_etcd::EtcdBackend;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = EtcdBackend::open("etcd://one.example,two.example,three.example")?;
///
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// let AcquireOutcome::Granted(grant) = store.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?
/// else {
///     panic!("another client holds the lock")
/// };
/// println!("every write carries {}", grant.tokens.first());
/// store.release(&claim).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EtcdBackend {
    pub(crate) shared: Arc<Shared>,
}

impl EtcdBackend {
    /// A client of the cluster at this URL, with the default options. Opens no connection yet.
    ///
    /// The URL is `etcd://[user:password@]host[:port][,host[:port]…][/prefix]`, or the same with `etcds` for TLS. Each
    /// host is a member of the cluster. The client uses one of them at a time. The URL may end with the option
    /// `?allow_unsafe_version=true`: see [`allow_unsafe_version`](Builder::allow_unsafe_version). Any other option is
    /// an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) if the URL is not valid.
    pub fn open(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Options for a client of the cluster at this URL: see [`open`](Self::open).
    ///
    /// The [example](Builder#examples) of the builder sets some.
    pub fn builder(url: impl AsRef<str>) -> Builder {
        Builder::new(url)
    }

    /// Connects to a member, and checks its version. Without this call, the first request does both.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](lock_core::ErrorKind::Unsupported) if the member has a version that may end leases
    /// too early: see [`allow_unsafe_version`](Builder::allow_unsafe_version).
    /// [`ErrorKind::Denied`](lock_core::ErrorKind::Denied) if the cluster does not know the user. Else any error of the
    /// connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the connection as it is.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> lock_core::Result<()> {
    /// let store = lock_etcd::EtcdBackend::open("etcd://one.example")?;
    /// store.connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(&self) -> Result<(), Error> {
        self.ask(|core| async move { core.link.wire().await.map(drop) }).await
    }

    /// Runs a request to its end, even if the caller is dropped.
    pub(crate) fn ask<T, W, R>(&self, work: W) -> impl Future<Output = Result<T, Error>> + Send
    where
        T: Send + 'static,
        W: FnOnce(Arc<Core>) -> R,
        R: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.shared.run(work(Arc::clone(&self.shared.core)))
    }
}

/// Shows the prefix, and a number that tells this client from the others of the process.
impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdBackend({}, client {})", self.shared.core.names.prefix(), self.shared.me)
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        let request = request.clone();
        self.ask(|core| async move { core.acquire(&request).await }).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let request = request.clone();
        let renewal = self.ask(|core| async move { core.renew(&request).await }).await;
        renewal.unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let claim = claim.clone();
        self.ask(|core| async move { core.release(&claim).await }).await
    }

    async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        let (claim, next) = (claim.clone(), next.clone());
        self.ask(|core| async move { core.release_and_requeue(&claim, &next).await }).await
    }

    async fn try_acquire_all(
        &self,
        requests: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        let requests = requests.to_vec();
        self.ask(|core| async move { core.acquire_all(&requests).await }).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        let key = key.clone();
        self.ask(|core| async move { core.listen(&key).await.map(Watch::new) }).await
    }

    async fn introduce(
        &self,
        client: ClientMark,
        label: &Label,
        keep: Duration,
    ) -> Result<(), Error> {
        let label = label.clone();
        self.ask(|core| async move { core.bounded(core.introduce(client, &label, keep)).await })
            .await
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn limits(&self) -> Limits {
        crate::limits()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let all = Capabilities::none().sharing(self).joining(self).converting(self);
        all.counting(self).keeping(self).inspecting(self)
    }
}
