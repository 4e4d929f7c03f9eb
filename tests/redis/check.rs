//! What the check says about servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::ErrorKind;
use lock_redis::{Notifications, Protocol, RedisBackend};
use lock_tests::{Fate, Mediator, RedisServer, SOON, eventually};

use crate::support::{Server, soon};

#[tokio::test]
async fn a_fit_server_gives_no_cause_for_warnings() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let backend = RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let report = backend.check().await.unwrap();
        assert_eq!(report.warnings, Vec::<String>::new());
        assert_eq!(report.eviction_policy.as_deref(), Some("noeviction"));
        assert!(report.version.as_ref().is_some_and(|version| version.contains('.')));
        assert!(report.to_string().contains("notify-keyspace-events: "), "{report}");
    }
}

#[tokio::test]
async fn what_makes_locks_worse_is_warned_of() {
    let server = Server::with(&["--maxmemory-policy", "allkeys-lru"]);
    let backend = RedisBackend::open(server.url()).unwrap();
    let warnings = backend.check().await.unwrap().warnings;
    assert!(warnings.len() == 2 && warnings[0].contains("allkeys-lru"), "{warnings:?}");
    assert!(warnings[1].contains("lacks Kg$xe"), "{warnings:?}");

    let mute = RedisBackend::builder(server.url())
        .release_messages(false)
        .notifications(Notifications::Off)
        .build()
        .unwrap();
    let warnings = mute.check().await.unwrap().warnings;
    assert!(warnings.len() == 2 && warnings[1].contains("time alone"), "{warnings:?}");
}

#[tokio::test]
async fn what_hinders_locks_is_an_error() {
    let server = Server::start();
    let strict = RedisBackend::builder(server.url()).notifications(Notifications::Require);
    assert_eq!(strict.build().unwrap().check().await.unwrap_err().kind(), ErrorKind::Unsupported);

    let mut raw = server.client();
    raw.command::<()>(&["ACL", "SETUSER", "poor", "on", "nopass", "~lock:*", "-@all", "+get"]);
    let url = format!("redis://poor:x@127.0.0.1:{}", server.port());
    let error = RedisBackend::open(url).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);

    raw.command::<()>(&["SET", "lock:{lock-redis/check}:state", "x"]);
    let error = RedisBackend::open(server.url()).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignKey);
}

#[tokio::test]
async fn a_right_that_is_missed_only_after_a_restart_is_missed_now() {
    let server = Server::start();
    RedisBackend::open(server.url()).unwrap().check().await.unwrap();
    let mut raw = server.client();
    let rules = ["on", "nopass", "~*", "&*", "+@all", "-script", "-eval"];
    raw.command::<()>(&[&["ACL", "SETUSER", "brief"], &rules[..]].concat());
    // The scripts are there, since somebody else has loaded them.
    let url = format!("redis://brief:x@127.0.0.1:{}", server.port());
    let error = RedisBackend::open(url).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test]
async fn a_right_that_only_some_locks_need_is_warned_of() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    let mut raw = server.client();
    raw.command::<()>(&["ACL", "SETUSER", "plain", "on", "nopass", "~*", "&*", "+@all", "-lrange"]);
    let url = format!("redis://plain:x@127.0.0.1:{}", server.port());
    let warnings = RedisBackend::open(url).unwrap().check().await.unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("cannot be seen"), "{warnings:?}");
}

#[tokio::test]
async fn a_lock_that_does_not_stay_is_an_error() {
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
    let error = soon(async {
        loop {
            if let Err(error) = backend.check().await {
                return error;
            }
        }
    })
    .await;
    over.store(true, Ordering::Relaxed);
    deleting.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    assert!(error.to_string().contains("a moment after"), "{error}");
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_is_noticed() {
    let server = Server::start();
    let mut raw = server.client();
    let rules = ["ACL", "SETUSER", "mute", "on", "nopass", "~*", "&*", "+@all", "-publish"];
    raw.command::<()>(&rules);
    let url = format!("redis://mute:x@127.0.0.1:{}", server.port());
    let backend = RedisBackend::builder(url)
        .notifications(Notifications::Off)
        .command_timeout(std::time::Duration::from_millis(160))
        .build()
        .unwrap();
    let warnings = backend.check().await.unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("nothing was heard"), "{warnings:?}");
}

/// As a proxy does that sends subscribers to a replica: they hear what is published on the master, which does not
/// count them.
#[tokio::test]
async fn a_message_that_is_heard_and_counted_by_nobody_is_noticed() {
    let server = || RedisServer::builder().config("repl-diskless-sync-delay", "0").start();
    let (master, replica) = (server(), server());
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("the replica is up to date", SOON, || {
        replica.cli(&["INFO", "replication"]).text().contains("master_link_status:up")
    });
    let proxy = Mediator::start(&[master.addr(), replica.addr()], |words| {
        let is_subscription = words[0].to_ascii_uppercase().ends_with(b"SUBSCRIBE");
        if is_subscription { Fate::Turns } else { Fate::Passes }
    });
    let warnings = async |url: String| {
        let builder = RedisBackend::builder(url).protocol(Protocol::Resp2);
        let builder = builder.notifications(Notifications::Off);
        (builder.clone().queue_limit(0).build().unwrap().check().await.unwrap().warnings, {
            builder.build().unwrap().check().await.unwrap().warnings
        })
    };
    let (alone, in_line) = warnings(proxy.url()).await;
    assert_eq!(alone, Vec::<String>::new());
    assert!(in_line.len() == 1 && in_line[0].contains("counts no receivers"), "{in_line:?}");
    let direct = warnings(master.url()).await;
    assert_eq!(direct, (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_client_that_cannot_be_told_of_its_grants_is_noticed() {
    let server = Server::start();
    let mut raw = server.client();
    let channels = ["resetchannels", "&lock:{lock-redis/check}:released@0"];
    let rules =
        [&["ACL", "SETUSER", "alone", "on", "nopass", "~*", "+@all"][..], &channels].concat();
    raw.command::<()>(&rules);
    let url = format!("redis://alone:x@127.0.0.1:{}", server.port());
    let builder = RedisBackend::builder(url).notifications(Notifications::Off);
    let warnings = builder.clone().build().unwrap().check().await.unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("do not queue"), "{warnings:?}");
    // Whoever does not want to queue misses nothing.
    let report = builder.queue_limit(0).build().unwrap().check().await.unwrap();
    assert_eq!(report.warnings, Vec::<String>::new());

    // One that may not write what the queue consists of is refused only when it has to wait.
    raw.command::<()>(&["ACL", "SETUSER", "alone", "allchannels", "-rpush"]);
    let url = format!("redis://alone:x@127.0.0.1:{}", server.port());
    let error = RedisBackend::open(url).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{lock-redis/check}"]));
}
