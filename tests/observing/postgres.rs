//! Requests and connections of a PostgreSQL database.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lock_core::observer::Observer;
use lock_postgres::PostgresBackend;
use lock_sync::Locks;
use lock_tests::{PgBouncer, PostgresServer, soon};

use crate::diary::Diary;
use crate::reconnecting::reconnects;

/// Locks over a database of this server. The backend has one connection for verbs, and one that listens.
fn locks(server: &PostgresServer, diary: &Arc<Diary>) -> Locks<PostgresBackend> {
    let observer: Arc<dyn Observer> = diary.clone();
    let backend = PostgresBackend::builder(server.locks()).connections(NonZeroUsize::MIN);
    Locks::new(backend.observer(observer).build().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_is_reported_and_the_next_one_comes_again() {
    let (server, diary) = (PostgresServer::durable(), Diary::new());
    let locks = locks(&server, &diary);
    let scene = (&locks, &*diary);
    let (kill, restart) = (|| server.kill(), || server.restart());
    reconnects(scene, server.addr(), ["acquire", "release"], kill, restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_goes_away_closes_its_connections() {
    let (server, diary) = (PostgresServer::start(), Diary::new());
    let locks = locks(&server, &diary);
    let guard = soon(locks.lock("it")).await.unwrap();
    // A waiter listens, on a connection of its own.
    let waits = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.lock("it").await.map(drop) })
    };
    diary.until_store(0, &format!("watch at {}", server.addr())).await;
    drop(guard);
    soon(waits).await.unwrap().unwrap();
    locks.shutdown().await;
    drop(locks);
    let count = |what: &str| diary.of_store().iter().filter(|it| it.starts_with(what)).count();
    lock_tests::eventually("all connections are closed", lock_tests::SOON, || {
        count("connected") == count("disconnected")
    });
    assert!(count("connected") >= 2, "{:?}", diary.of_store());
}

/// The pooler and the database behind it are two servers to an observer.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_is_a_server_of_its_own() {
    let (server, diary) = (PostgresServer::start(), Diary::new());
    let url = server.locks();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let pooler = PgBouncer::before(&server, database, 2);
    let backend = PostgresBackend::builder(&url).pooler(pooler.url()).observer(diary.clone());
    let locks = Locks::new(backend.build().unwrap());
    let guard = soon(locks.lock("it")).await.unwrap();
    let waits = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.lock("it").await.map(drop) })
    };
    diary.until_store(0, &format!("connected first to {}", server.addr())).await;
    drop(guard);
    soon(waits).await.unwrap().unwrap();
    let pooled = pooler.addr();
    let said = diary.of_store();
    assert!(said.contains(&format!("connected first to {pooled}")), "{said:?}");
    assert!(said.contains(&format!("acquire at {pooled}")), "{said:?}");
    assert!(
        !said.iter().any(|it| it.starts_with(&format!("acquire at {}", server.addr()))),
        "{said:?}"
    );
}
