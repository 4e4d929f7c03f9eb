//! An observer that uses the store whose events it hears. The library must call it outside all of its own locks.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use futures::FutureExt as _;
use lock_core::observer::{Connected, Disconnected, Observer, StoreAnswered};
use lock_core::{AnyBackend, Ttl};
use lock_postgres::PostgresBackend;
use lock_redis::RedisBackend;
use lock_sync::{LockGuard, Locks};
use lock_tests::{PostgresServer, Proxy, RedisServer, SOON, eventually_async, soon};

/// At each event, the observer begins a request to the store, and drops the request.
#[derive(Default)]
struct Meddles {
    locks: OnceLock<Locks>,
    /// The request may be an event as well.
    is_meddling: AtomicBool,
    /// How often it has meddled in each event.
    meddled: Mutex<BTreeMap<&'static str, u32>>,
}

/// How often it meddles in events of one kind. The answer to its own request is an event, too.
const OFTEN: u32 = 50;

impl Meddles {
    fn meddle(&self, event: &'static str) {
        let Some(locks) = self.locks.get() else { return };
        if self.count(event) >= OFTEN || self.is_meddling.swap(true, Ordering::Acquire) {
            return;
        }
        // No release of this lock is on its way. So the first poll gives the request to the backend.
        let _ = locks.inspect("another").now_or_never();
        self.is_meddling.store(false, Ordering::Release);
        *self.meddled.lock().unwrap().entry(event).or_default() += 1;
    }

    fn count(&self, event: &str) -> u32 {
        self.meddled.lock().unwrap().get(event).copied().unwrap_or_default()
    }
}

impl Observer for Meddles {
    fn store_answered(&self, _: &StoreAnswered<'_>) {
        self.meddle("answered");
    }

    fn connected(&self, _: &Connected<'_>) {
        self.meddle("connected");
    }

    fn disconnected(&self, _: &Disconnected<'_>) {
        self.meddle("disconnected");
    }
}

/// Uses a lock, also after its connection was cut, while the observer meddles in each event.
async fn an_observer_may_ask_the_store(
    open: impl FnOnce(Arc<dyn Observer>) -> AnyBackend,
    proxy: Proxy,
) {
    let meddler = Arc::new(Meddles::default());
    let locks = Locks::new(open(meddler.clone()));
    meddler.locks.set(locks.clone()).unwrap();
    let guard = soon(locks.lock("it")).await.unwrap();
    let longer = Ttl::new(6 * SOON).unwrap();
    soon(LockGuard::lease(&guard).extend(longer)).await.unwrap();
    soon(LockGuard::release(guard)).await.unwrap();
    proxy.cut();
    for event in ["answered", "connected", "disconnected"] {
        eventually_async(event, SOON, async || {
            // A connection may notice its end only in the next request.
            let _ = soon(locks.try_lock("it")).await;
            meddler.count(event) > 0
        })
        .await;
    }
    locks.shutdown().await;
}

/// As above, on a thread of its own: a thread that locks a mutex twice never ends.
fn in_time(open: impl FnOnce(Arc<dyn Observer>) -> AnyBackend + Send + 'static, proxy: Proxy) {
    let (done, is_done) = mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(an_observer_may_ask_the_store(open, proxy));
        done.send(()).unwrap();
    });
    let waited = is_done.recv_timeout(3 * SOON);
    assert_ne!(
        waited,
        Err(RecvTimeoutError::Timeout),
        "the observer and the library block each other"
    );
    thread.join().unwrap();
}

#[test]
fn an_observer_may_ask_redis_in_each_event() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let builder = RedisBackend::builder(server.url_through(proxy.addr()));
    let open = |observer| AnyBackend::new(builder.observer(observer).build().unwrap());
    in_time(open, proxy);
}

#[test]
fn an_observer_may_ask_a_database_in_each_event() {
    let server = PostgresServer::start();
    let proxy = Proxy::start(server.addr());
    let url = server.locks().replace(&server.addr().to_string(), &proxy.addr().to_string());
    // The observer asks on the connection whose events it hears.
    let builder = PostgresBackend::builder(url).connections(NonZeroUsize::MIN);
    let open = |observer| AnyBackend::new(builder.observer(observer).build().unwrap());
    in_time(open, proxy);
}
