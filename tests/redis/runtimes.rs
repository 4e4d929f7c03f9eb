//! Runtimes come and go; the backend stays.

use std::time::Duration;

use lock_core::{AcquireOutcome, Backend, Claim, ErrorKind, Hint, Key, OwnerToken, Released};
use lock_redis::{Protocol, RedisBackend};
use lock_tests::{Proxy, RedisServer, SOON, eventually_async};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Server, Waiter, attempt, claim, granted, soon};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A new watch hears of a release.
async fn wakes(backend: &RedisBackend, key: &Key) {
    let mut watch = backend.watch(key).await.unwrap();
    let claim = Claim::exclusive(key.clone(), OwnerToken::generate().unwrap());
    granted(backend, &claim).await;
    backend.release(&claim).await.unwrap();
    assert_eq!(soon(watch.next()).await, Some(Hint::Released));
}

#[test]
fn opening_needs_no_runtime_and_no_server() {
    assert!(RedisBackend::open("redis://127.0.0.1:1").is_ok());
}

#[test]
fn the_next_request_connects_anew_when_its_runtime_is_gone() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let backend = RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let claim = claim(format!("{protocol:?}"));
        for _ in 0..3 {
            let runtime = runtime();
            runtime.block_on(granted(&backend, &claim));
            runtime.block_on(granted(&backend, &claim));
        }
    }
}

#[test]
fn watches_end_with_their_runtime_and_begin_on_the_next() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let backend = RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let key = Key::new("a").unwrap();
        let first = runtime();
        let mut watch = first.block_on(backend.watch(&key)).unwrap();
        drop(first);
        assert_eq!(runtime().block_on(async { soon(watch.next()).await }), None);
        drop(watch);
        runtime().block_on(async {
            wakes(&backend, &key).await;
        });
    }
}

#[test]
fn outside_a_runtime_the_connections_of_others_are_left_alone() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let idle = Builder::new_current_thread().enable_all().build().unwrap();
    idle.block_on(granted(&backend, &claim("first")));
    // No thread drives that runtime now: a request on its connection would never be answered.
    let error = futures::executor::block_on(attempt(&backend, &claim("a"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

/// A server may have no room for another client.
#[test]
fn a_runtime_that_cannot_connect_borrows_the_connection_of_another() {
    let runs = Builder::new_multi_thread().enable_all().build().unwrap();
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let backend = RedisBackend::open(proxy.url()).unwrap();
    let held = claim("a");
    runs.block_on(granted(&backend, &held));
    proxy.refuse();
    runtime().block_on(async {
        for _ in 0..3 {
            assert_ne!(backend.release(&held).await.unwrap(), Released::NotHeld);
            granted(&backend, &held).await;
        }
        assert_eq!(proxy.open(), 1);
    });
}

/// The connection of a runtime that no thread drives is of no use.
#[test]
fn a_request_on_a_borrowed_connection_ends_in_time() {
    let (server, stands_still) = (RedisServer::start(), runtime());
    let proxy = Proxy::before(&server);
    let limit = Duration::from_millis(500);
    let backend = RedisBackend::builder(proxy.url()).command_timeout(limit).build().unwrap();
    let held = claim("a");
    stands_still.block_on(granted(&backend, &held));
    proxy.refuse();
    runtime().block_on(async {
        let error = soon(backend.release(&held)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        proxy.pass();
        eventually_async("a connection is opened", SOON, async || {
            backend.release(&held).await.is_ok()
        })
        .await;
    });
}

#[test]
fn a_watch_does_not_depend_on_an_idle_runtime() {
    let server = Server::start();
    let backend = RedisBackend::builder(server.url())
        .command_timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let key = Key::new("a").unwrap();
    let idle = Builder::new_current_thread().enable_all().build().unwrap();
    let _first = idle.block_on(backend.watch(&key)).unwrap();
    runtime().block_on(async {
        // The task of all watches is on the idle runtime. That costs one watch its time limit.
        assert_eq!(backend.watch(&key).await.unwrap_err().kind(), ErrorKind::Timeout);
        wakes(&backend, &key).await;
    });
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let error = futures::executor::block_on(attempt(&backend, &claim("a"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let key = Key::new("a").unwrap();
    let error = futures::executor::block_on(backend.watch(&key)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn dropping_everything_outside_a_runtime_is_harmless() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let runtime = runtime();
        let backend = RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let watch = runtime.block_on(backend.watch(&Key::new("a").unwrap())).unwrap();
        drop(watch);
        drop(backend);
        drop(runtime);
    }
}

#[test]
fn a_dropped_backend_leaves_no_connection_behind() {
    let server = Server::start();
    let runtime = runtime();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        runtime.block_on(async {
            let backend = RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
            let watch = backend.watch(&Key::new("a").unwrap()).await.unwrap();
            granted(&backend, &claim("a")).await;
            drop((backend, watch));
            let mut raw = server.client();
            soon(async {
                while raw.command::<String>(&["CLIENT", "LIST"]).lines().count() > 1 {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            })
            .await;
            raw.command::<()>(&["FLUSHALL"]);
        });
    }
}

#[test]
fn a_runtime_that_goes_late_takes_only_its_own_watches_with_it() {
    let server = Server::start();
    let limit = Duration::from_secs(2);
    let backend = RedisBackend::builder(server.url()).command_timeout(limit).connect_timeout(limit);
    let backend = backend.build().unwrap();
    let holder = RedisBackend::open(server.url()).unwrap();
    let (stalled, alive) = (runtime(), runtime());
    let key = Key::new("a").unwrap();
    let watch = stalled.block_on(backend.watch(&key)).unwrap();
    // From here on no thread drives the first runtime, and the hub moves to the second.
    let held = claim("a");
    let mut waiter = alive.block_on(async {
        granted(&holder, &held).await;
        assert!(backend.watch(&key).await.is_err());
        Waiter::queue(&backend, claim("a")).await
    });
    drop(watch);
    drop(stalled);
    alive.block_on(async {
        assert!(matches!(waiter.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
        holder.release(&held).await.unwrap();
        waiter.told().await;
        waiter.asks_and_has().await;
    });
}
