//! Requests and connections.

use std::sync::Arc;

use lock_core::observer::Observer;
use lock_redis::RedisBackend;
use lock_sync::{Builder, Locks, OwnedMutexGuard};
use lock_tests::{RedisCluster, RedisServer, soon};

use crate::diary::Diary;
use crate::reconnecting::reconnects;

/// Locks over a backend that this observer hears of.
fn locks(url: String, diary: &Arc<Diary>) -> Locks<RedisBackend> {
    let observer: Arc<dyn Observer> = diary.clone();
    let backend = RedisBackend::builder(url).observer(observer).build().unwrap();
    // One runtime, and so one connection at a time for requests.
    let builder: Builder<_> = Locks::builder(backend).requests_in_background(true);
    builder.build().unwrap()
}

#[tokio::test]
async fn a_connection_that_ends_is_reported_and_the_next_one_comes_again() {
    let (server, diary) = (RedisServer::start(), Diary::new());
    let locks = locks(server.url(), &diary);
    let scene = (&locks, &*diary);
    let (kill, restart) = (|| server.kill(), || server.restart());
    reconnects(scene, server.addr(), ["acquire", "release"], kill, restart).await;
}

#[tokio::test]
async fn a_backend_that_goes_away_closes_its_connection() {
    let (server, diary) = (RedisServer::start(), Diary::new());
    let locks = locks(server.url(), &diary);
    drop(soon(locks.lock("it")).await.unwrap());
    locks.shutdown().await;
    drop(locks);
    diary.until_store(0, &format!("disconnected to {}", server.addr())).await;
    let said = diary.of_store();
    let count = |what: &str| said.iter().filter(|it| it.starts_with(what)).count();
    assert_eq!(count("connected"), count("disconnected"), "{said:?}");
}

#[tokio::test]
async fn a_slot_that_has_moved_is_a_redirection() {
    let (cluster, diary) = (RedisCluster::start(2, 0), Diary::new());
    let locks = Arc::new(locks(cluster.url(), &diary).mutex("it", ()).unwrap());
    drop(soon(Arc::clone(&locks).lock_owned()).await.unwrap());
    let from = cluster.owner_of("{it}");
    let to = 1 - from;
    cluster.move_slot("{it}", to);
    let before = diary.of_store().len();
    let guard = soon(Arc::clone(&locks).lock_owned()).await.unwrap();
    soon(OwnedMutexGuard::release(guard)).await.unwrap();
    let [from, to] = [from, to].map(|node| cluster.nodes()[node].server().addr());
    let said = diary.of_store().split_off(before);
    assert!(said.contains(&format!("redirected from {from} to {to}")), "{said:?}");
    assert!(said.iter().any(|it| *it == format!("acquire at {to}")), "{said:?}");
}
