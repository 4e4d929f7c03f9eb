//! What hinders locks altogether.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Backend as _, ErrorKind};
use lock_redis::check::Severity;
use lock_redis::{Notifications, RedisBackend};

use super::{codes, examine, healthy, only, report};
use crate::support::{Server, claim, granted, soon};

#[tokio::test]
async fn what_hinders_locks_is_critical() {
    let server = Server::start();
    let strict = RedisBackend::builder(server.url()).notifications(Notifications::Require);
    let found = examine(strict).await;
    let (severity, text) = only(&found, "notifications-required");
    assert!(severity == Severity::Critical && text.contains("Kg$xe"), "{text}");

    let mut raw = server.client();
    raw.command::<()>(&["ACL", "SETUSER", "poor", "on", "nopass", "~lock:*", "-@all", "+get"]);
    let url = format!("redis://poor:x@127.0.0.1:{}", server.port());
    let found = examine(RedisBackend::builder(url)).await;
    assert_eq!(only(&found, "scripts-refused").0, Severity::Critical);

    raw.command::<()>(&["SET", "lock:{lock-redis/check}:state", "x"]);
    let found = report(&server).await;
    assert_eq!(only(&found, "lock-refused").0, Severity::Critical);
    assert!(found.to_string().contains("delete the keys `lock:{lock-redis/check}*`"), "{found}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error() {
    let server = Server::start();
    server.kill();
    let error = RedisBackend::open(server.url()).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_lock_that_does_not_stay_is_critical() {
    let server = Server::start();
    let backend = RedisBackend::builder(server.url()).release_messages(false).build().unwrap();
    let (over, mut raw) = (Arc::new(AtomicBool::new(false)), server.client());
    let deleting = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            while !over.load(Ordering::Relaxed) {
                raw.command::<()>(&["DEL", "lock:{lock-redis/check}"]);
            }
        }
    });
    // Now and then the key is not deleted in time.
    let found = soon(async {
        loop {
            let found = backend.check().await.unwrap();
            if found.with_code("lock-vanished").count() > 0 {
                return found;
            }
        }
    })
    .await;
    over.store(true, Ordering::Relaxed);
    deleting.join().unwrap();
    assert_eq!(only(&found, "lock-vanished").0, Severity::Critical);
}

#[tokio::test]
async fn a_rehearsal_that_another_client_hinders_is_unknown() {
    let server = healthy(&[]);
    let other = RedisBackend::open(server.url()).unwrap();
    let held = claim("lock-redis/check");
    granted(&other, &held).await;
    assert_eq!(codes(&report(&server).await), ["rehearsal-busy"]);
    other.release(&held).await.unwrap();
    assert_eq!(codes(&report(&server).await), [""; 0]);
}

#[tokio::test]
async fn a_rehearsal_that_fails_half_way_leaves_no_lock() {
    let server = healthy(&[]);
    let mut raw = server.client();
    let rules = ["ACL", "SETUSER", "alone", "on", "nopass", "~*", "&*", "+@all", "-rpush"];
    raw.command::<()>(&rules);
    // A user without the rights to write the queue is refused only when it has to wait.
    let url = format!("redis://alone:x@127.0.0.1:{}", server.port());
    let found = examine(RedisBackend::builder(url)).await;
    assert_eq!(codes(&found), ["lock-refused", "rights-missing"], "{found}");
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{lock-redis/check}"]));
}
