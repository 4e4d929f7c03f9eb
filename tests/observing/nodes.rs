//! The nodes of a quorum.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Ttl;
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use lock_sync::{Locks, OwnedMutexGuard};
use lock_tests::{RedisServer, soon};

use crate::diary::Diary;

const NAMES: [&str; 3] = ["a", "b", "c"];

#[tokio::test]
async fn a_node_that_dies_is_kept_out_and_comes_back_after_its_quarantine() {
    let (servers, diary) = (NAMES.map(|_| RedisServer::start()), Diary::new());
    let quorum = Redlock::builder().node_timeout(Duration::from_secs(1));
    let mut quorum = quorum.observer(diary.clone());
    for (name, server) in NAMES.into_iter().zip(&servers) {
        quorum = quorum.node(name, RedisBackend::open(server.url()).unwrap());
    }
    let longest = Duration::from_secs(4);
    let quorum = quorum.max_ttl(Ttl::new(longest).unwrap()).build().await.unwrap();
    quorum.init().await.unwrap();
    let locks = Locks::builder(quorum.clone()).ttl(Duration::from_secs(3)).build().unwrap();
    let lock = Arc::new(locks.mutex("it", ()).unwrap());
    let guard = soon(Arc::clone(&lock).lock_owned()).await.unwrap();
    // New servers are in quarantine until an operator declares them new.
    let said = diary.of_store();
    for name in NAMES {
        let of_node: Vec<_> = said.iter().filter(|it| it.starts_with(name)).collect();
        assert_eq!(of_node, [&format!("{name} out: quarantine"), &format!("{name} back")]);
    }
    let before = said.len();
    servers[1].kill();
    // A renewal finds out.
    diary.until_store(before, "b out: failed").await;
    assert!(OwnedMutexGuard::lease(&guard).is_valid(), "two of three are enough");
    let before = diary.of_store().len();
    servers[1].restart();
    let back = async {
        // The server has forgotten its leases, so it votes only after the longest of them.
        while !diary.of_store().iter().skip(before).any(|it| it == "b back") {
            drop(quorum.status().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(back).await;
    soon(OwnedMutexGuard::release(guard)).await.unwrap();
    let said = diary.of_store();
    assert!(!said.iter().any(|it| it.starts_with("a out: failed")), "{said:?}");
}
