//! What observers hear when the driver of the locks comes late, with one server.

use std::sync::mpsc::channel;
use std::time::Duration;

use lock_redis::RedisBackend;
use lock_sync::Locks;
use lock_tests::{RedisServer, SOON, eventually, soon};
use tokio::runtime::Builder;

use crate::diary::Diary;

#[tokio::test]
async fn a_runtime_that_stands_still_makes_a_renewal_late() {
    const TTL: Duration = Duration::from_secs(6);
    let (server, diary) = (RedisServer::start(), Diary::new());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let backend = RedisBackend::builder(server.url()).observer(diary.clone()).build().unwrap();
    let locks = Locks::builder(backend).ttl(TTL).observer(diary.clone());
    let locks = locks.on_runtime(runtime.handle().clone()).build().unwrap();
    let guard = soon(locks.lock("it")).await.unwrap();
    diary.until_lock("renewed").await;
    const LATE: &str = "late, and the lease lasts";
    assert!(!diary.of_driver().contains(&LATE.to_owned()), "this renewal left in time");

    // The renewal is due when a third of the lease is over. It is late when half of the lease is over.
    let (go_on, waits) = channel::<()>();
    let standing = runtime.spawn(async move { waits.recv().unwrap() });
    let lease = guard.lease();
    eventually("half of the lease is over", SOON, || lease.remaining() < TTL * 2 / 5);
    assert_eq!((diary.of_locks(), diary.of_driver()), (vec![], vec![]), "the driver stands still");
    go_on.send(()).unwrap();
    soon(standing).await.unwrap();
    diary.until_lock("renewed").await;
    assert_eq!(diary.of_driver(), ["stalled", LATE]);
    assert!(lease.is_valid());
    soon(guard.release()).await.unwrap();
    runtime.shutdown_background();
}
