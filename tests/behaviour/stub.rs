//! A lock that only looks like one: the results of these tests and of the suite for it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook, Verdict, laws, run};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Error, FencingToken, Grant, Key, Released,
    Renew, Renewal, TokenRange, Ttl, Watch,
};
use lock_redis::RedisBackend;
use lock_sync::Locks;
use lock_tests::RedisServer;

use crate::support::Traffic;

/// A backend whose remote half may be stubbed: it then grants every request, without asking the
/// server.
struct Stub {
    real: RedisBackend,
    stubbed: bool,
    token: AtomicU64,
}

impl Stub {
    fn of(server: &RedisServer, stubbed: bool) -> Result<Self, Error> {
        let real = RedisBackend::open(server.url())?;
        Ok(Self { real, stubbed, token: AtomicU64::new(1) })
    }
}

#[async_trait]
impl Backend for Stub {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        if !self.stubbed {
            return self.real.try_acquire(request).await;
        }
        let token = FencingToken::new(self.token.fetch_add(1, Ordering::Relaxed));
        let valid_until = request.ttl.valid_until(self.clock().now());
        let tokens = TokenRange::new(token, NonZeroU32::MIN);
        Ok(AcquireOutcome::Granted(Grant::new(tokens, valid_until)))
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.real.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.real.release(claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.real.watch(key).await
    }

    fn clock(&self) -> Clock {
        self.real.clock()
    }
}

/// A server whose clients are stubbed, or not.
struct Stubbed {
    server: RedisServer,
    stubbed: bool,
}

#[async_trait]
impl Harness for Stubbed {
    type Client = Stub;

    async fn client(&self) -> Result<Stub, Error> {
        Stub::of(&self.server, self.stubbed)
    }

    async fn cut(&self, _client: &Stub) -> Hook {
        Hook::NotApplicable("what connections do is not the point here")
    }

    async fn forget(&self) -> Hook {
        self.server.flushall();
        Hook::Done
    }

    /// Several laws share one thread.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_secs(1)).unwrap()
    }

    /// Because of the stub, some laws wait in vain.
    fn patience(&self) -> Duration {
        Duration::from_secs(if self.stubbed { 3 } else { 10 })
    }
}

/// Returns the laws that the clients break. `stubbed` says whether the clients are stubs. Several servers share the laws,
/// because most laws wait for leases to end.
async fn broken(stubbed: bool, names: &[&'static str]) -> Vec<&'static str> {
    const SERVERS: usize = 4;
    let servers = RedisServer::start_all(vec![RedisServer::builder(); SERVERS]);
    let shares = servers.into_iter().enumerate().map(|(first, server)| async move {
        let harness = Stubbed { server, stubbed };
        let mut broken = Vec::new();
        for &name in names.iter().skip(first).step_by(SERVERS) {
            if matches!(run(name, &harness).await, Verdict::Broken(_)) {
                broken.push(name);
            }
        }
        broken
    });
    futures::future::join_all(shares).await.concat()
}

#[tokio::test]
async fn the_suite_notices_a_backend_that_does_not_ask_its_server() {
    let names: Vec<_> = laws().iter().map(|law| law.name()).collect();
    let caught = broken(true, &names).await;
    for law in [
        "a_held_key_is_refused",
        "contenders_get_exactly_one_grant",
        "holders_never_overlap",
        "a_live_lease_stays",
        "tokens_increase_with_every_grant",
    ] {
        assert!(caught.contains(&law), "not caught by {law}, but by {caught:?}");
    }
    // The failures come from the stub: the wrapper with its remote half keeps all laws.
    assert_eq!(broken(false, &caught).await, Vec::<&str>::new());
}

/// The number of lost updates when two clients count.
async fn lost_updates(stubbed: bool) -> u64 {
    let server = RedisServer::start();
    let clients = [(); 2].map(|()| Locks::new(Stub::of(&server, stubbed).unwrap()));
    let mutexes = clients.each_ref().map(|client| Arc::new(client.mutex("it", ()).unwrap()));
    let mut traffic = Traffic::start(mutexes, 2);
    for _ in 0..50 {
        traffic.goes_on().await;
    }
    let tally = traffic.stop().await;
    tally.turns - tally.counted
}

#[tokio::test]
async fn a_counter_of_two_clients_notices_it_too() {
    assert!(lost_updates(true).await > 0, "the counter would not notice a lock that is none");
    assert_eq!(lost_updates(false).await, 0);
}
