//! Quorums of different kinds of stores by URL.

use lock_any::doctor::{Severity, doctor};
use lock_any::lock_sync::{ErrorKind, TryLockError};
use lock_tests::{EtcdServer, PostgresServer, RedisServer, SOON, eventually_async, soon};

use crate::support::{clients, exclude_each_other, share};

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_of_three_kinds_by_url() {
    let redis = RedisServer::builder().password("hunter2").start();
    let (postgres, etcd) = (PostgresServer::start(), EtcdServer::start());
    let name = postgres.database();
    let nodes = [format!("redis://:hunter2@{}/0", redis.addr()), postgres.url(&name), etcd.locks()];
    let url = format!("redlock:{}", nodes.join(" "));

    // The stores are new, and an operator says so. The database gets its schema.
    lock_any::init(&url).await.unwrap();
    let clients = clients(&url).await;
    exclude_each_other(&clients).await;
    share(&clients).await;
    let error = clients[0].semaphore("permits", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");

    let report = doctor(&url).await.unwrap();
    assert_eq!(report.servers.len(), 3, "{report}");
    assert!(report.worst() < Some(Severity::Critical), "{report}");
    for secret in ["hunter2", "kit:kit"] {
        assert!(!report.to_string().contains(secret), "{report}");
    }

    redis.kill();
    exclude_each_other(&clients).await;
    etcd.kill();
    let [one, _] = &clients;
    let mut failure = None;
    // The release of before may still be on its way to the last node.
    eventually_async("the request fails", SOON, async || {
        match soon(one.try_lock("it")).await {
            Err(TryLockError::Backend(error)) => failure = Some(error),
            Err(TryLockError::WouldBlock) => {}
            other => panic!("without a majority: {other:?}"),
        }
        failure.is_some()
    })
    .await;
    let error = failure.unwrap();
    assert!(error.is_retryable(), "{error:?}");
    // Nodes are named by their URLs, without the secrets.
    let text = error.to_string();
    assert!(text.contains(&format!("redis://{}/0", redis.addr())), "{text}");
    assert!(text.contains("etcd://") && !text.contains("hunter2"), "{text}");
}
