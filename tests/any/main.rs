//! Locks by URL, over real servers. Each test has two clients.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use lock_any::lock_sync::{ErrorKind, Locks, TryLockError};
use lock_tests::{RedisServer, soon};

/// Two clients of one store.
async fn clients(url: &str) -> [Locks; 2] {
    [lock_any::connect(url).await.unwrap(), lock_any::connect(url).await.unwrap()]
}

/// One client holds the lock, and the other one waits for it.
async fn exclude_each_other([one, other]: &[Locks; 2]) {
    let (here, there) = (one.mutex("it", ()).unwrap(), other.mutex("it", ()).unwrap());
    let guard = soon(here.lock()).await.unwrap();
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    let waiting = tokio::spawn(async move { there.lock().await.map(drop) });
    drop(guard);
    soon(waiting).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_by_url() {
    let server = RedisServer::start();
    let clients = clients(&server.url()).await;
    exclude_each_other(&clients).await;

    let [one, other] = &clients;
    let (here, there) =
        (one.semaphore("permits", 1).unwrap(), other.semaphore("permits", 1).unwrap());
    let permit = soon(here.acquire()).await.unwrap();
    assert!(there.try_acquire().await.is_err());
    drop(permit);
    drop(soon(there.acquire()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_by_url() {
    let servers = [0; 3].map(|_| RedisServer::start());
    let hosts =
        servers.each_ref().map(|server| server.url().replace("redis://", "").replace("/0", ""));
    let url = format!("redlock+redis://{}/0", hosts.join(","));

    // The servers are new, and an operator says so.
    lock_any::init(&url).await.unwrap();
    let clients = clients(&url).await;
    exclude_each_other(&clients).await;
    servers[1].kill();
    exclude_each_other(&clients).await;

    let [locks, _] = &clients;
    drop(soon(locks.rwlock("shared", ()).unwrap().read()).await.unwrap());
    assert_eq!(locks.inspect("shared").await.unwrap().waiting, 0);
    // A quorum counts no permits, and says so before it asks a server.
    let error = locks.semaphore("permits", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
