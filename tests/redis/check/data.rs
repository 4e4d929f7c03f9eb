//! What a server keeps, and what it throws away.

use lock_redis::check::Severity;
use lock_tests::{SOON, eventually, eventually_async};

use super::{codes, healthy, only, report};
use crate::support::{Client, Server};

#[tokio::test]
async fn a_server_that_keeps_nothing_is_told_from_one_that_keeps_snapshots() {
    let server = Server::with(&["--notify-keyspace-events", "AK"]);
    assert_eq!(codes(&report(&server).await), ["no-persistence"]);
    server.client().command::<()>(&["CONFIG", "SET", "save", "3600 1"]);
    let report = report(&server).await;
    assert_eq!(codes(&report), ["snapshots-only"]);
    assert!(only(&report, "snapshots-only").1.contains("`3600 1`"), "{report}");
}

#[tokio::test]
async fn how_often_the_log_reaches_the_disk_is_told() {
    let server = healthy(&[]);
    let mut raw = server.client();
    for (setting, expected) in
        [("no", &["appendfsync-no"][..]), ("everysec", &["appendfsync-everysec"]), ("always", &[])]
    {
        raw.command::<()>(&["CONFIG", "SET", "appendfsync", setting]);
        assert_eq!(codes(&report(&server).await), expected);
    }
}

#[tokio::test]
async fn a_snapshot_that_failed_is_told() {
    let server = healthy(&[]);
    // A folder is where the file should be.
    let place = server.folder().join("dump.rdb");
    std::fs::create_dir(&place).unwrap();
    let mut raw = server.client();
    let mut snapshot = |status: &str| {
        raw.command::<String>(&["BGSAVE"]);
        eventually("the snapshot has ended", SOON, || {
            let info: String = raw.command(&["INFO", "persistence"]);
            info.contains("rdb_bgsave_in_progress:0")
                && info.contains(&format!("rdb_last_bgsave_status:{status}"))
        });
    };
    snapshot("err");
    assert_eq!(codes(&report(&server).await), ["snapshot-failed"]);
    std::fs::remove_dir(&place).unwrap();
    snapshot("ok");
    assert_eq!(codes(&report(&server).await), [""; 0]);
}

#[tokio::test]
async fn a_policy_that_evicts_locks_is_worse_with_a_limit() {
    let server = healthy(&["--maxmemory-policy", "allkeys-lru"]);
    let unlimited = report(&server).await;
    let (severity, text) = only(&unlimited, "eviction-policy");
    assert!(severity == Severity::Warning && text.contains("`allkeys-lru`"), "{text}");
    assert_eq!(codes(&unlimited), ["eviction-policy"]);

    let mut raw = server.client();
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "1gb"]);
    let limited = report(&server).await;
    assert_eq!(only(&limited, "eviction-policy").0, Severity::Critical);
    assert_eq!(limited.worst(), Some(Severity::Critical));

    raw.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(codes(&report(&server).await), [""; 0]);
}

#[tokio::test]
async fn a_server_that_is_full_or_has_evicted_keys_is_told() {
    const FULL: usize = 40_000_000;
    let server = healthy(&[]);
    let mut raw = server.client();
    raw.command::<()>(&["SET", "big", &"x".repeat(FULL)]);
    let leave_room = |raw: &mut Client| {
        let info: String = raw.command(&["INFO", "memory"]);
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        let used: usize = used.unwrap().parse().unwrap();
        raw.command::<()>(&["CONFIG", "SET", "maxmemory", &(used + used / 20).to_string()]);
    };
    // The server gives back the buffers of a large value a moment later.
    eventually_async("the server is almost full", SOON, async || {
        leave_room(&mut raw);
        codes(&report(&server).await) == ["memory-almost-full"]
    })
    .await;

    raw.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    // Each new key evicts an old one, the large one sooner or later.
    eventually("the large key is evicted", SOON, || {
        leave_room(&mut raw);
        raw.command::<()>(&["SET", "other", &"x".repeat(FULL / 10)]);
        raw.command::<()>(&["DEL", "other"]);
        !raw.command::<bool>(&["EXISTS", "big"])
    });
    raw.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let evicted = report(&server).await;
    assert_eq!(codes(&evicted), ["keys-evicted"], "{evicted}");
}
