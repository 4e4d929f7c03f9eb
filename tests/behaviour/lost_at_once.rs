//! A holder hears at once that its key is gone, for whatever reason.
//!
//! The lease is half a minute long and renewed every ten seconds. Only a message of the server can
//! tell the holder within the bound.

use std::time::{Duration, Instant};

use lock_redis::{Builder, Notifications};
use lock_sync::{LossReason, MutexGuard};
use lock_tests::{RedisServer, RedisServerBuilder, eventually_async};

use crate::support::{LOCK, SOON, TTL, client_with, mutex, soon};

/// A third of the lease is five times as long.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The source of a holder's hints.
#[derive(Clone, Copy, Debug)]
enum Ear {
    Notifications,
    Tracking,
}

impl Ear {
    const BOTH: [Self; 2] = [Self::Notifications, Self::Tracking];

    fn server(self) -> RedisServerBuilder {
        let flags = match self {
            Self::Notifications => "Kg$xe",
            Self::Tracking => "\"\"",
        };
        RedisServer::builder().config("notify-keyspace-events", flags)
    }

    fn client(self, redis: Builder) -> Builder {
        match self {
            Self::Notifications => redis.notifications(Notifications::Require),
            Self::Tracking => redis.notifications(Notifications::Off).tracking(true),
        }
    }

    /// Whether the server reports this change of the key.
    fn is_open(self, server: &RedisServer) -> bool {
        match self {
            Self::Notifications => {
                let channel = format!("__keyspace@0__:{LOCK}");
                !server.cli(&["PUBSUB", "CHANNELS", &glob(&channel)]).array().is_empty()
            }
            Self::Tracking => {
                let info = server.cli(&["INFO", "stats"]).text();
                let keys = info.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
                keys.is_some_and(|count| count != "0")
            }
        }
    }
}

/// A pattern that means these characters.
fn glob(text: &str) -> String {
    text.replace('{', "\\{").replace('}', "\\}")
}

/// Changes the key of a holder, who must hear of it.
async fn told_of(ear: Ear, server: RedisServer, what: &str, act: impl Fn(&RedisServer)) {
    let locks = client_with(server.url(), |redis| ear.client(redis), |locks| locks.ttl(TTL));
    let mutex = mutex(&locks);
    let guard = soon(mutex.lock()).await.unwrap();
    // Only a holder that has held for some time listens.
    eventually_async("the holder listens", SOON, async || ear.is_open(&server)).await;
    assert!(MutexGuard::lease(&guard).is_valid());

    act(&server);
    let begin = Instant::now();
    let Ok(lost) = tokio::time::timeout(AT_ONCE, MutexGuard::lease(&guard).lost()).await else {
        panic!("{ear:?}: not told that the key was {what} within {AT_ONCE:?}");
    };
    assert!(begin.elapsed() < AT_ONCE);
    assert_eq!(lost.reason(), LossReason::Revoked, "{ear:?}, {what}");
    assert!(
        !MutexGuard::lease(&guard).is_valid() && MutexGuard::lease(&guard).check().is_err(),
        "{ear:?}, {what}"
    );
}

async fn told_of_by_both(what: &str, act: &[&str]) {
    for ear in Ear::BOTH {
        told_of(ear, ear.server().start(), what, |server| drop(server.cli(act))).await;
    }
}

#[tokio::test]
async fn a_deleted_key() {
    told_of_by_both("deleted", &["DEL", LOCK]).await;
}

#[tokio::test]
async fn an_overwritten_key() {
    told_of_by_both("overwritten", &["SET", LOCK, "theirs", "PX", "60000"]).await;
}

#[tokio::test]
async fn a_renamed_key() {
    told_of_by_both("renamed", &["RENAME", LOCK, "elsewhere"]).await;
}

#[tokio::test]
async fn a_key_that_was_made_to_expire() {
    for ear in Ear::BOTH {
        told_of(ear, ear.server().start(), "expired", |server| {
            // A renewal may come in between. A server also reports the expiry when it looks.
            lock_tests::eventually("it has expired", SOON, || {
                server.cli(&["PEXPIRE", LOCK, "1"]);
                server.cli(&["EXISTS", LOCK]).int() == 0
            });
        })
        .await;
    }
}

#[tokio::test]
async fn an_evicted_key() {
    for ear in Ear::BOTH {
        let server = ear.server().config("maxmemory-policy", "volatile-lru").start();
        told_of(ear, server, "evicted", |server| {
            assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]).text(), "OK");
        })
        .await;
    }
}

/// No notification reports it.
#[tokio::test]
async fn a_flushed_server() {
    for command in ["FLUSHALL", "FLUSHDB"] {
        let server = Ear::Tracking.server().start();
        told_of(Ear::Tracking, server, "flushed", |server| drop(server.cli(&[command]))).await;
    }
}

#[tokio::test]
async fn an_alarm_without_a_loss_is_looked_into_and_nothing_else() {
    let ear = Ear::Notifications;
    let server = ear.server().start();
    let locks = client_with(server.url(), |redis| ear.client(redis), |locks| locks.ttl(TTL));
    let mutex = mutex(&locks);
    let guard = soon(mutex.lock()).await.unwrap();
    eventually_async("the holder listens", SOON, async || ear.is_open(&server)).await;
    let owner = server.cli(&["GET", LOCK]).text();
    let before = MutexGuard::lease(&guard).valid_until();
    // The guard is still valid.
    server.cli(&["SET", LOCK, &owner, "PX", "60000"]);
    let asked = async || MutexGuard::lease(&guard).valid_until() > before;
    eventually_async("the holder has asked", AT_ONCE, asked).await;
    assert!(MutexGuard::lease(&guard).is_valid());
    soon(MutexGuard::release(guard)).await.unwrap();
}
