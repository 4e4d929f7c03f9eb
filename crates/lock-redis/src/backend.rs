//! The backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{self, join_all};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Capabilities, Claim, ClientMark, Clock, Convert,
    ConvertBackend, Error, ErrorKind, Key, Label, Released, Renew, Renewal, Ttl, Watch,
};

use crate::commit::Wish;
use crate::hub::Listening;
use crate::keys::{Layout, Names};
use crate::labels;
use crate::leases::Ended;
use crate::link::Answer;
use crate::together;
use crate::topology::{self, Fleet, Site};
use crate::verbs;
use crate::wire::{Call, Failure};

/// Leases on one Redis or Valkey server, on a cluster, or on a primary that sentinels watch.
///
/// A handle: cheap to clone, and its clones share the connections. There is one connection for each tokio runtime in
/// whose context the handle is used. It lives on that runtime, ends with it, and needs its I/O and its time enabled.
/// The first request opens the connection, and a connection that breaks is opened again without a call.
///
/// A request that finds its connection waits for the answer for at most one command timeout. Before that it may wait
/// as long for a connection. In a cluster and behind sentinels it may be sent again within that time, but
/// [never after it may have run](crate#how-requests-find-their-server). A server that has forgotten a script costs two
/// more exchanges, or three if it refuses a way to send scripts that it accepted before. No request is sent twice
/// without the caller, unless the server said that it did not run the request.
///
/// # If the lease is lost
///
/// Renewal returns [`Renewal::Lost`] when the key is gone or has another holder, for whatever reason. While the
/// server cannot be reached, renewal returns [`Renewal::Unknown`], and the last known deadline still stands.
///
/// # Differences from other libraries on one key
///
/// - An exclusive lock is one string with a time to live, set only if it is absent and deleted only if it holds the
///   owner's token, as in redis-py, redsync, node-redlock and a plain `SET NX PX`. These libraries and this one
///   exclude one another. Give their key to [`Key::raw`].
/// - Every grant has a fencing token, kept in a key beside the lock. Grants of other libraries do not increase it.
///   But the token is at least the server's clock, so it is higher after their grants too.
/// - Claims of this library wait in a queue, and a hand-over never frees the key. While another client holds the
///   lock, the first in the queue tries every 60 ms. While claims of this library take turns, other clients find the
///   lock taken, unless [`Builder::gap`](crate::Builder::gap) leaves it to them now and then.
/// - A key without a time to live is a lock that is held for ever. This library never touches it.
///
/// # Examples
///
/// ```no_run
/// use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
/// use lock_redis::RedisBackend;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = RedisBackend::builder("redis://127.0.0.1/").build()?;
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// match store.try_acquire(&Acquire::new(claim, Ttl::DEFAULT)).await? {
///     AcquireOutcome::Granted(grant) => println!("held until {:?}", grant.valid_until),
///     busy => println!("{busy:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisBackend(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    layout: Arc<Layout>,
    fleet: Fleet,
    listening: Listening,
    limits: Limits,
}

/// How many records `init` writes at once, at most.
const AT_ONCE: usize = 64;

/// What a client asks for.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Whether requests that are refused want a place in the queue.
    pub(crate) queues: bool,
    /// The longest lease, if servers sit out for as long.
    pub(crate) longest: Option<Ttl>,
    /// How grants are to be confirmed.
    pub(crate) wish: Option<Wish>,
}

impl RedisBackend {
    pub(crate) fn new(layout: Layout, fleet: Fleet, listening: Listening, limits: Limits) -> Self {
        Self(Arc::new(Inner { layout: Arc::new(layout), fleet, listening, limits }))
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.0.layout
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.0.fleet
    }

    /// Whether requests that are refused want a place in the queue.
    pub(crate) fn queues(&self) -> bool {
        self.0.limits.queues
    }

    /// The longest lease, if a server that lost its data sits out for as long.
    pub(crate) fn longest(&self) -> Option<Ttl> {
        self.0.limits.longest
    }

    /// How grants are to be confirmed.
    pub(crate) fn wish(&self) -> Option<Wish> {
        self.0.limits.wish
    }

    /// Refuses a lease for which no server would sit out long enough.
    fn check_ttl(&self, ttl: Ttl) -> Result<(), Error> {
        let Some(longest) = self.longest().filter(|longest| ttl > *longest) else {
            return Ok(());
        };
        let (ttl, longest) = (ttl.duration(), longest.duration());
        let message = format!(
            "a lease of {ttl:?} is longer than the {longest:?} for which a server that lost its data sits out: see \
             Builder::data_quarantine"
        );
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    pub(crate) fn listening(&self) -> Listening {
        self.0.listening
    }

    /// Sends a request to the server that has the lock.
    pub(crate) async fn route<T, F>(
        &self,
        names: &Names<'_>,
        request: impl Fn(Site) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let request = |site: Site| request(site.confirming(self.wish()));
        self.0.fleet.route(names.lock(), request).await
    }

    /// Sends a call to the server that has the lock.
    pub(crate) async fn run(
        &self,
        names: &Names<'_>,
        call: impl Fn() -> Call,
    ) -> Result<Answer, Error> {
        let call = &call;
        self.route(names, |site| async move { site.run(call()).await }).await
    }
}

impl RedisBackend {
    /// Says that no client holds a lock that the server may have forgotten: the server then grants locks at once,
    /// although it looks as if it had lost its data ([`Builder::data_quarantine`](crate::Builder::data_quarantine)).
    ///
    /// Call it once, when a new server is set up. **Do not call it when a process starts**: on a server that was in use
    /// it undoes the protection against lost data, and two clients can hold one lock. Without the call a new server
    /// grants locks after its quarantine.
    ///
    /// In a cluster the call vouches for all slots: it sends one small request for each of the 16 384 slots, 64 at a
    /// time. If it fails, some slots may be vouched for already.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the option is off; otherwise any error of the server or of the connection to it.
    /// While no client holds a lock, it is safe to repeat the call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the quarantine has ended.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), lock_core::Error> {
    /// use lock_core::Ttl;
    /// use lock_redis::RedisBackend;
    ///
    /// let url = "redis://127.0.0.1:6379";
    /// RedisBackend::builder(url).data_quarantine(Ttl::DEFAULT).build()?.init().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn init(&self) -> Result<(), Error> {
        if self.longest().is_none() {
            let message = "no server sits out: see Builder::data_quarantine";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let records = &self.layout().records(self.fleet().is_cluster());
        let init = |record| async move {
            let at = |site: Site| async move { site.link().end_quarantine(record).await };
            self.fleet().route(&records.key(record), at).await
        };
        let steps = stream::iter(records.all()).map(init).buffer_unordered(AT_ONCE);
        steps.try_for_each(|()| future::ready(Ok(()))).await
    }

    /// A handle whose grants count only once so many replicas have them.
    ///
    /// It shares the connections, the watches and the locks of this handle, which goes on as before. So an app confirms
    /// the few locks that need it, and pays for no other:
    ///
    /// ```no_run
    /// # fn run() -> Result<(), lock_core::Error> {
    /// use std::time::Duration;
    /// use lock_redis::RedisBackend;
    ///
    /// let redis = RedisBackend::open("redis+sentinel://s1,s2,s3/orders")?;
    /// let confirmed = redis.confirming(2, Duration::from_millis(500))?;
    /// // Give `confirmed` to one `Locks` of lock-sync, and `redis` to another one.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `replicas` and `timeout` mean what they mean in [`Builder::confirm`](crate::Builder::confirm), with the errors
    /// and the price described there. A lock is safe through a failover only if *all* its clients confirm: give each
    /// lock to one of the handles, and never to both.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if a number makes no sense, or if the
    /// [quarantine of terms](crate::Builder::term_quarantine) is off, without which a confirmed lease does not outlive
    /// a failover for certain. At a single server it is off by default: switch it on there. Sends nothing.
    pub fn confirming(&self, replicas: u32, timeout: Duration) -> Result<Self, Error> {
        self.confirming_as(replicas, timeout, false)
    }

    /// As [`confirming`](Self::confirming), and the lease has to be on the disks of the server and of its replicas
    /// ([`Builder::confirm_on_disk`](crate::Builder::confirm_on_disk)).
    ///
    /// # Errors
    ///
    /// As those of [`confirming`](Self::confirming).
    pub fn confirming_on_disk(&self, replicas: u32, timeout: Duration) -> Result<Self, Error> {
        self.confirming_as(replicas, timeout, true)
    }

    fn confirming_as(
        &self,
        replicas: u32,
        timeout: Duration,
        on_disk: bool,
    ) -> Result<Self, Error> {
        if !self.layout().has_terms() {
            let message =
                "confirmed grants need the quarantine of terms: see Builder::term_quarantine";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let wish = Wish::new(replicas, timeout, on_disk, self.fleet().command_timeout())?;
        let mut inner = Inner::clone(&self.0);
        inner.limits.wish = Some(wish);
        Ok(Self(Arc::new(inner)))
    }

    /// The error for grants that are not confirmed. They stay if a repetition of the request may be confirmed: it may
    /// be under way already, and have its answer. Otherwise they are released.
    async fn unconfirmed<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a Claim>,
        error: Error,
    ) -> Error {
        if !error.is_retryable() {
            // If this fails, the leases end by themselves.
            join_all(claims.into_iter().map(|claim| self.release(claim))).await;
        }
        error
    }

    /// Has the state of the lock say that the lock was released. Without that, a later term keeps the lock back for the
    /// time of a lease.
    pub(crate) async fn noted(&self, names: &Names<'_>, claim: &Claim, ended: Ended) -> Released {
        if !ended.is_noted
            && let Err(error) = self.run(names, || verbs::note_release(names, claim)).await
        {
            tracing::debug!(%error, "a release was not noted in the state of its lock");
        }
        ended.released
    }
}

#[async_trait]
impl Backend for RedisBackend {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        self.check_ttl(request.ttl)?;
        let names = &self.layout().names(&request.claim.key)?;
        let acquire = |site: Site| async move {
            site.confirmed(names, || site.try_acquire(names, request), is_granted).await
        };
        match self.route(names, acquire).await? {
            Err(unconfirmed) => Err(self.unconfirmed([&request.claim], unconfirmed).await),
            granted => granted,
        }
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let renewed = async {
            self.check_ttl(request.ttl)?;
            let names = &self.layout().names(&request.claim.key)?;
            let renew = |site: Site| async move {
                let is_renewed = |it: &Renewal| matches!(it, Renewal::Renewed { .. });
                site.confirmed(names, || site.renew(names, request), is_renewed).await
            };
            self.route(names, renew).await?
        };
        renewed.await.unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let names = &self.layout().names(&claim.key)?;
        let release = |site: Site| async move { site.release(names, claim).await };
        let ended = self.route(names, release).await?;
        Ok(self.noted(names, claim, ended).await)
    }

    async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        let names = &self.layout().names(&claim.key)?;
        let request =
            |site: Site| async move { site.release_and_requeue(names, claim, next).await };
        let (ended, attempt) = self.route(names, request).await?;
        Ok((self.noted(names, claim, ended).await, attempt))
    }

    /// Up to 64 exclusive locks, if their keys are in one place: always on a single server, on a cluster in one
    /// slot. A lock is not granted while a claim waits in its queue. In a refusal, a lock that is free has no known
    /// end.
    async fn try_acquire_all(
        &self,
        requests: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        requests.iter().try_for_each(|it| self.check_ttl(it.ttl))?;
        let names = requests.iter().map(|it| self.layout().names(&it.claim.key));
        let names = &names.collect::<Result<Vec<_>, _>>()?;
        together::check(names)?;
        let Some(first) = names.first().filter(|_| together::is_possible(requests)) else {
            return Ok(None);
        };
        let is_near = |other: &Names<'_>| self.fleet().are_together(first.lock(), other.lock());
        if !names.iter().all(is_near) {
            return Ok(None);
        }
        let ask = |site: Site| async move {
            let are_granted = |attempts: &Vec<AcquireOutcome>| attempts.iter().all(is_granted);
            site.confirmed(first, || site.try_acquire_all(names, requests), are_granted).await
        };
        match self.route(first, ask).await {
            Ok(Err(unconfirmed)) => {
                let claims = requests.iter().map(|request| &request.claim);
                Err(self.unconfirmed(claims, unconfirmed).await)
            }
            Ok(granted) => granted.map(Some),
            // A proxy before a cluster takes no command for keys in several places.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        topology::watch(&self.0.fleet, &self.0.layout, key).await
    }

    async fn introduce(
        &self,
        client: ClientMark,
        label: &Label,
        keep: Duration,
    ) -> Result<(), Error> {
        labels::keep((self.fleet(), self.layout()), client, label, keep).await
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let all = Capabilities::none().sharing(self).joining(self).converting(self);
        all.counting(self).keeping(self).inspecting(self)
    }
}

#[async_trait]
impl ConvertBackend for RedisBackend {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome, Error> {
        request.check()?;
        self.check_ttl(request.request.ttl)?;
        let names = &self.layout().names(&request.request.claim.key)?;
        let convert = |site: Site| async move {
            site.confirmed(names, || site.convert(names, request), is_granted).await
        };
        // An unconfirmed conversion leaves the lease. A repetition finds what became of it.
        self.route(names, convert).await?
    }
}

fn is_granted(attempt: &AcquireOutcome) -> bool {
    matches!(attempt, AcquireOutcome::Granted(_))
}

/// Hosts, ports and database, without the credentials.
impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisBackend({})", self.0.fleet)
    }
}
