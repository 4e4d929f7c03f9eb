//! A primary that is replaced while it has a request to release or to renew, and that carries it out afterwards.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{AcquireOutcome, Hint, Released};
use lock_redis::RedisBackend;
use lock_sync::{MutexGuard, OwnedMutexGuard};
use lock_tests::requests::attempt;
use lock_tests::{RedisServer, SOON, Sentinels, eventually, soon};
use tokio::task::block_in_place;

use crate::support::{Waiter, claim, granted, locks, long, released, renewed};

/// How long servers may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A primary that stands still, and its replica.
struct Paused(Sentinels);

impl Paused {
    fn start() -> Self {
        Self(Sentinels::start(1, 3))
    }

    fn client(&self) -> RedisBackend {
        let builder = RedisBackend::builder(self.0.url());
        builder.command_timeout(Duration::from_secs(1)).build().unwrap()
    }

    fn old(&self) -> &RedisServer {
        &self.0.servers()[0]
    }

    /// Stops the primary once the replica has everything. A request that begins now stays in its socket.
    fn stop(&self) {
        eventually("the replica has everything", LIMIT, || {
            self.old().cli(&["SET", "marker", "1"]);
            self.old().cli(&["WAIT", "1", "1000"]).int() == 1
        });
        self.old().stop();
    }

    fn replaced(&self) {
        block_in_place(|| self.0.replaces(0));
    }

    /// The old primary carries out what it was sent, and becomes a replica.
    fn cont(&self) {
        self.old().cont();
        block_in_place(|| {
            eventually("the old primary is a replica", LIMIT, || {
                let info = self.old().cli(&["INFO", "replication"]).text();
                info.contains("role:slave") && info.contains("master_link_status:up")
            });
        });
    }
}

async fn is_refused(backend: &RedisBackend) -> bool {
    matches!(attempt(backend, &claim("a"), long()).await, Ok(AcquireOutcome::Busy { .. }))
}

/// The old primary hands the lock over, too, and may tell the waiter of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_that_two_primaries_carry_out_has_one_heir() {
    let servers = Paused::start();
    let [here, there, other] = [(); 3].map(|()| servers.client());
    let held = claim("a");
    let token = granted(&here, &held).await.tokens.last();
    let mut heir = Waiter::queue(&there, claim("a")).await;
    block_in_place(|| servers.stop());
    let releasing = {
        let (backend, held) = (here.clone(), held.clone());
        tokio::spawn(async move { released(&backend, &held).await })
    };
    servers.replaced();
    soon(releasing).await.unwrap();
    // The heir has not heard of it yet, and has its turn.
    assert!(is_refused(&other).await, "another claim overtook");
    let grant = heir.gets_it().await;
    assert!(grant.tokens.first() > token);
    renewed(&there, &heir.request.claim).await;
    servers.cont();
    assert!(is_refused(&other).await && is_refused(&here).await);
    renewed(&there, &heir.request.claim).await;
    assert!(matches!(released(&there, &heir.request.claim).await, Released::Freed { .. }));
    let next = granted(&other, &claim("a")).await;
    assert!(next.tokens.first() > grant.tokens.last());
}

/// A renewal whose first attempt the old primary carries out late is a renewal at the new one, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_two_primaries_carry_out_keeps_one_lease() {
    let servers = Paused::start();
    let [here, there] = [(); 2].map(|()| servers.client());
    let held = claim("a");
    granted(&here, &held).await;
    let mut waiter = Waiter::queue(&there, claim("a")).await;
    block_in_place(|| servers.stop());
    let renewing = {
        let (backend, held) = (here.clone(), held.clone());
        tokio::spawn(async move { renewed(&backend, &held).await })
    };
    servers.replaced();
    soon(renewing).await.unwrap();
    waiter.hears(Hint::Resync).await;
    soon(waiter.is_queued()).await;
    servers.cont();
    assert!(is_refused(&there).await);
    renewed(&here, &held).await;
    soon(waiter.is_queued()).await;
    assert!(matches!(released(&here, &held).await, Released::Freed { .. }));
    waiter.gets_it().await;
}

/// As the hand-over above, with guards: the task that waits gets one, and it stays valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_is_released_during_a_failover_passes_to_the_waiter() {
    let servers = Paused::start();
    let locks = [(); 2].map(|()| locks(servers.client()));
    let [here, there] = locks.map(|locks| Arc::new(locks.mutex("a", ()).unwrap()));
    let guard = soon(here.lock()).await.unwrap();
    let token = MutexGuard::lease(&guard).fencing_token();
    let waiting = tokio::spawn(async move { there.lock_owned().await });
    eventually("the other process waits", SOON, || {
        servers.old().cli(&["LLEN", "lock:{a}:queue"]).int() == 1
    });
    block_in_place(|| servers.stop());
    drop(guard);
    servers.replaced();
    let heir = soon(waiting).await.unwrap().unwrap();
    assert!(OwnedMutexGuard::lease(&heir).fencing_token() > token);
    servers.cont();
    assert!(here.try_lock().await.is_err(), "there are two holders");
    assert!(OwnedMutexGuard::lease(&heir).is_valid());
    OwnedMutexGuard::release(heir).await.unwrap();
    drop(soon(here.lock()).await.unwrap());
}
