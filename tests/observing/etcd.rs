//! Requests and connections of etcd.

use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::Observer;
use lock_etcd::EtcdBackend;
use lock_sync::Locks;
use lock_tests::{EtcdCluster, EtcdServer, SOON, eventually, soon};

use crate::diary::Diary;

/// Locks over the store at this URL, with a server of any version.
fn locks(url: String, diary: &Arc<Diary>) -> Locks<EtcdBackend> {
    let observer: Arc<dyn Observer> = diary.clone();
    let backend = EtcdBackend::builder(url).allow_unsafe_version().observer(observer);
    Locks::new(backend.command_timeout(Duration::from_secs(3)).build().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_is_reported_and_the_next_one_comes_again() {
    let (server, diary) = (EtcdServer::durable(), Diary::new());
    let (addr, locks) = (server.addr(), locks(server.url(), &diary));
    let guard = soon(locks.lock("it")).await.unwrap();
    soon(guard.release()).await.unwrap();
    let said = diary.of_store();
    assert_eq!(said[0], format!("connected first to {addr}"), "{said:?}");
    assert!(said.contains(&format!("Txn at {addr}")), "{said:?}");
    assert!(said.contains(&format!("LeaseGrant at {addr}")), "{said:?}");

    let before = said.len();
    server.kill();
    assert!(soon(locks.try_lock("it")).await.is_err());
    diary.until_store(before, &format!("disconnected to {addr}")).await;
    assert!(soon(locks.try_lock("it")).await.is_err());
    diary.until_store(before, &format!("no connection to {addr}")).await;
    diary.until_store(before, &format!("Txn at {addr}: Unreachable")).await;

    let before = diary.of_store().len();
    tokio::task::block_in_place(|| server.restart());
    drop(soon(locks.lock("another")).await.unwrap());
    diary.until_store(before, &format!("connected again to {addr}")).await;
    diary.until_store(before, &format!("Txn at {addr}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_goes_away_closes_its_connection() {
    let (server, diary) = (EtcdServer::start(), Diary::new());
    let (addr, locks) = (server.addr(), locks(server.url(), &diary));
    let guard = soon(locks.lock("it")).await.unwrap();
    let waits = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.lock("it").await.map(drop) })
    };
    // A waiter listens, and shows that it lives.
    diary.until_store(0, &format!("Watch at {addr}")).await;
    diary.until_store(0, &format!("LeaseKeepAlive at {addr}")).await;
    drop(guard);
    soon(waits).await.unwrap().unwrap();
    locks.shutdown().await;
    drop(locks);
    let count = |what: &str| diary.of_store().iter().filter(|it| it.starts_with(what)).count();
    eventually("the connection is closed", SOON, || count("disconnected") == 1);
    assert_eq!(count("connected"), 1, "{:?}", diary.of_store());
}

/// A client uses one member at a time, and each event names the member.
#[tokio::test(flavor = "multi_thread")]
async fn another_member_serves_after_the_first_one() {
    let (cluster, diary) = (EtcdCluster::start(), Diary::new());
    let [first, second, third] = cluster.members().each_ref().map(EtcdServer::addr);
    let locks = locks(cluster.url(), &diary);
    drop(soon(locks.lock("it")).await.unwrap());
    let before = diary.of_store().len();
    cluster.members()[0].kill();
    cluster.leader();
    let lock = lock_tests::eventually_async("a lock", SOON, async || {
        locks.try_lock("another").await.is_ok()
    });
    lock.await;
    diary.until_store(before, &format!("disconnected to {first}")).await;
    // A member that does not know the new leader yet is passed over. The connection may be told after its requests.
    eventually("another member serves", SOON, || {
        let said = diary.of_store().split_off(before);
        let serves = |member| {
            said.contains(&format!("connected again to {member}"))
                && said.contains(&format!("Txn at {member}"))
        };
        [second, third].into_iter().any(serves)
    });
}
