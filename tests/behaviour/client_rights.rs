//! Users who have fewer rights than the locks can use.

use std::time::{Duration, Instant};

use lock_core::ErrorKind;
use lock_redis::{Notifications, Protocol, RedisBackend};
use lock_sync::{LockError, Locks, MutexGuard, OwnedMutexGuard, ReleaseError, TryLockError};
use lock_tests::{RedisServer, eventually_async};

use crate::support::{
    LOCK, Leftovers, SOON, TTL, client, client_with, mutex, soon, ttl_of, until_heard,
    until_refused, waiting,
};

/// A lease short enough to wait for: waiters without hints have to do so.
const LEASE: Duration = Duration::from_secs(5);

/// Shorter than the lease, and longer than a busy machine needs for an answer.
const LIMIT: Duration = Duration::from_secs(4);

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

/// The rights in the docs of the backend.
fn all_rights() -> Vec<&'static str> {
    let docs = include_str!("../../crates/lock-redis/src/acl.md");
    let (_, rules) = docs.split_once("ACL SETUSER locks on >password ").unwrap();
    let (rules, _) = rules.split_once("```").unwrap();
    rules.split_whitespace().collect()
}

/// A server with a user that has all rights but these.
fn server_without(missing: &[&str]) -> RedisServer {
    let mut rules = all_rights();
    for missing in missing {
        assert!(rules.contains(missing), "{missing}");
        rules.retain(|rule| rule != missing);
    }
    let rules = format!("on >secret {}", rules.join(" "));
    RedisServer::builder().user("limited", rules).config("notify-keyspace-events", "Kg$xe").start()
}

fn limited(server: &RedisServer, protocol: Protocol) -> Locks<RedisBackend> {
    client_with(
        server.url_as("limited", "secret"),
        |redis| redis.protocol(protocol),
        |locks| locks.ttl(LEASE),
    )
}

/// When one client of the user releases, the other gets the lock, possibly late.
async fn takes_turns(server: &RedisServer, protocol: Protocol) {
    let [one, other] = [(); 2].map(|()| mutex(&limited(server, protocol)));
    let guard = soon(one.lock()).await.unwrap();
    assert!(matches!(soon(other.try_lock()).await, Err(TryLockError::WouldBlock)));
    let before = server.commandstats();
    let (waiting, token) = (waiting(&other), MutexGuard::lease(&guard).fencing_token());
    until_refused(server, &before).await;
    soon(MutexGuard::release(guard)).await.unwrap();
    let next = waiting.served().await;
    assert!(OwnedMutexGuard::lease(&next).fencing_token() > token);
    soon(OwnedMutexGuard::release(next)).await.unwrap();
    server.assert_all_free();
}

#[tokio::test]
async fn all_rights_of_the_docs_are_enough() {
    let server = server_without(&[]);
    for protocol in PROTOCOLS {
        takes_turns(&server, protocol).await;
    }
}

#[tokio::test]
async fn without_the_right_to_publish_locks_work_and_waiters_get_in() {
    let server = server_without(&["+publish"]);
    // Without notifications too, so only the timer is left for the waiter.
    server.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    for protocol in PROTOCOLS {
        takes_turns(&server, protocol).await;
    }
}

#[tokio::test]
async fn without_any_channel_locks_work_and_waiters_get_in() {
    for missing in [&["&lock:*", "&__keyspace@*__:lock:*"][..], &["+subscribe"]] {
        let server = server_without(missing);
        for protocol in PROTOCOLS {
            takes_turns(&server, protocol).await;
        }
    }
}

#[tokio::test]
async fn without_config_locks_work_with_every_choice_of_notifications() {
    let server = server_without(&[]);
    let modes = [
        Notifications::Require,
        Notifications::Enable,
        Notifications::IfPresent,
        Notifications::Off,
    ];
    for mode in modes {
        let locks = client_with(
            server.url_as("limited", "secret"),
            |redis| redis.notifications(mode),
            |locks| locks.ttl(LEASE),
        );
        // If a required source is missing, no hint comes, and the timer is left.
        let lease = if mode == Notifications::Require { LEASE } else { TTL };
        let there = client_with(server.url(), |redis| redis, |locks| locks.ttl(lease));
        let held = soon(mutex(&there).lock_owned()).await.unwrap();
        let waiting = waiting(&mutex(&locks));
        if mode != Notifications::Require {
            until_heard(&server).await;
        }
        soon(OwnedMutexGuard::release(held)).await.unwrap();
        drop(waiting.served().await);
    }
}

#[tokio::test]
async fn without_a_right_that_taking_needs_nothing_is_taken() {
    for missing in ["+evalsha", "+set", "+time", "~lock:*"] {
        let server = server_without(&[missing]);
        let mutex = limited(&server, Protocol::Auto).mutex("it", ()).unwrap();
        let denied =
            |error: &lock_core::Error| error.kind() == ErrorKind::Denied && !error.is_retryable();
        let begin = Instant::now();
        let error = soon(mutex.lock()).await.unwrap_err();
        assert!(begin.elapsed() < LIMIT, "{missing}: it is said at once");
        assert!(matches!(&error, LockError::Backend(e) if denied(e)), "{missing}: {error:?}");
        let error = soon(mutex.try_lock()).await.unwrap_err();
        assert!(matches!(&error, TryLockError::Backend(e) if denied(e)), "{missing}: {error:?}");
        assert_eq!(server.locks(), Vec::<String>::new(), "{missing}");
    }
}

#[tokio::test]
async fn without_the_right_to_look_at_time_a_held_lock_is_an_error_and_a_free_one_is_had() {
    let server = server_without(&["+pttl"]);
    let there = client(server.url()).mutex("it", ()).unwrap();
    let mutex = limited(&server, Protocol::Auto).mutex("it", ()).unwrap();
    MutexGuard::release(soon(mutex.lock()).await.unwrap()).await.unwrap();
    let held = soon(there.lock()).await.unwrap();
    let error = soon(mutex.lock()).await.unwrap_err();
    assert!(matches!(&error, LockError::Backend(e) if e.kind() == ErrorKind::Denied), "{error:?}");
    assert!(MutexGuard::lease(&held).is_valid());
    assert_eq!(server.locks(), [LOCK]);
}

#[tokio::test]
async fn without_the_right_to_delete_a_release_is_an_error_and_the_lease_ends_by_itself() {
    let server = server_without(&["+del"]);
    let there = client(server.url()).mutex("it", ()).unwrap();
    let mutex = limited(&server, Protocol::Auto).mutex("it", ()).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let error = soon(MutexGuard::release(guard)).await.unwrap_err();
    assert!(
        matches!(&error, ReleaseError::Backend(e) if e.kind() == ErrorKind::Denied),
        "{error:?}"
    );
    assert!(ttl_of(&server, LOCK).is_none_or(|left| left <= LEASE));
    drop(soon(there.lock()).await.unwrap());
    server.assert_all_free();
}

#[tokio::test]
async fn a_right_that_is_taken_away_and_given_back_is_missed_only_meanwhile() {
    let server = server_without(&[]);
    let mutex = limited(&server, Protocol::Auto).mutex("it", ()).unwrap();
    drop(soon(mutex.lock()).await.unwrap());
    server.cli(&["ACL", "SETUSER", "limited", "-evalsha"]);
    eventually_async("it is denied", SOON, async || {
        matches!(mutex.try_lock().await, Err(TryLockError::Backend(e)) if e.kind() == ErrorKind::Denied)
    })
    .await;
    server.cli(&["ACL", "SETUSER", "limited", "+evalsha"]);
    drop(soon(mutex.lock()).await.unwrap());
}
