//! Parts of a server, and short forms of requests.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::{AcquireOutcome, Backend, Claim, Clock, FencingToken, Grant, Instant, Ttl};
use lock_etcd::{Builder, EtcdBackend};
use lock_sync::{Locks, MutexGuard, ReleaseError};
pub(crate) use lock_tests::requests::{attempt, claim, granted, long, until_ok};
use lock_tests::{EtcdServer, SOON, eventually_async, soon};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The server of all tests that do it no harm. Each has a prefix of its own.
static SERVER: LazyLock<EtcdServer> = LazyLock::new(EtcdServer::start);
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The leases of the store end no later than so long after their time.
pub(crate) const LATE: Duration = Duration::from_secs(10);

/// The keys of a server that have one prefix.
pub(crate) struct Part {
    pub(crate) server: &'static EtcdServer,
    pub(crate) prefix: String,
}

impl Part {
    pub(crate) fn new() -> Self {
        let prefix = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { server: &SERVER, prefix }
    }

    pub(crate) fn builder(&self) -> Builder {
        builder(self.server.url()).prefix(&self.prefix)
    }

    pub(crate) fn open(&self) -> EtcdBackend {
        self.builder().build().unwrap()
    }

    /// The URL of this part, for another process.
    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.server.url(), self.prefix)
    }

    /// What the keys of this part begin with.
    pub(crate) fn folder(&self) -> String {
        format!("{}/", self.prefix)
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.server.keys(&self.folder())
    }
}

/// A client of a server of any version: Debian has one that lacks a fix for leaders that stand still.
pub(crate) fn builder(url: impl AsRef<str>) -> Builder {
    EtcdBackend::builder(url).allow_unsafe_version()
}

pub(crate) fn open(url: impl AsRef<str>) -> EtcdBackend {
    builder(url).build().unwrap()
}

/// Locks over this client, with leases of this time.
pub(crate) fn locks(store: EtcdBackend, ttl: Duration) -> Locks<EtcdBackend> {
    Locks::builder(store).ttl(ttl).build().unwrap()
}

pub(crate) fn seconds(seconds: u64) -> Ttl {
    Ttl::new(Duration::from_secs(seconds)).unwrap()
}

/// Waits until so many waiters of the lock "it" have a place in the queue. The server may be away meanwhile.
pub(crate) async fn until_waiting(locks: &Locks<EtcdBackend>, count: u64) {
    eventually_async(&format!("{count} wait"), SOON, async || {
        locks.inspect("it").await.is_ok_and(|it| it.waiting == count)
    })
    .await;
}

/// Waits for the lock "it" in a task, which returns the time and the token of the grant.
pub(crate) fn waits(locks: &Locks<EtcdBackend>) -> JoinHandle<(Instant, FencingToken)> {
    let mutex = locks.mutex("it", ()).unwrap();
    tokio::spawn(async move {
        let guard = mutex.lock().await.unwrap();
        (Clock::boot().now(), MutexGuard::lease(&guard).fencing_token())
    })
}

/// A guard outlives what happens to the server, and the waiter behind the guard gets the lock.
pub(crate) async fn passes_on_over(url: &str, happens: impl AsyncFnOnce(&EtcdBackend)) {
    let (one, other) = (open(url), open(url));
    let here = locks(one, Duration::from_secs(60));
    let there = locks(other.clone(), Duration::from_secs(60));
    let mutex = here.mutex("it", ()).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let waiting = waits(&there);
    until_waiting(&here, 1).await;
    happens(&other).await;
    let busy = until_ok("it answers", async || attempt(&other, &claim("it"), long()).await).await;
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
    let lease = MutexGuard::lease(&guard);
    assert!(lease.is_valid() && !waiting.is_finished());
    let_go(guard).await;
    let (_, token) = timeout(SOON * 3, waiting).await.expect("it passes on").unwrap();
    assert!(token > lease.fencing_token());
}

/// Releases a lock through a connection that may have ended. If the release fails, the client repeats it in the
/// background.
pub(crate) async fn let_go<T>(guard: MutexGuard<'_, T>) {
    match MutexGuard::release(guard).await {
        Ok(()) => {}
        Err(ReleaseError::Backend(error)) => assert!(error.is_retryable(), "{error:?}"),
        Err(error) => panic!("{error:?}"),
    }
}

/// Asks until the lease is granted. The key may be held meanwhile, and the server away.
pub(crate) async fn until_granted(backend: &impl Backend, claim: &Claim, ttl: Ttl) -> Grant {
    let mut grant = None;
    eventually_async("it is granted", Duration::from_secs(60), async || {
        match attempt(backend, claim, ttl).await {
            Ok(AcquireOutcome::Granted(given)) => grant = Some(given),
            Ok(AcquireOutcome::Busy { .. }) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        grant.is_some()
    })
    .await;
    grant.unwrap()
}
