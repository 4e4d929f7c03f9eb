//! Waiters beside a great many keys that expire.
//!
//! A server looks for expired keys in small samples: among so many keys it may reach a certain one only
//! after minutes. So a waiter that waits for the end of a lease must keep the time itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_redis::{Builder, Notifications};
use lock_sync::{Mutex, MutexGuard, OwnedMutexGuard};
use lock_tests::{RedisServer, eventually_async};

use crate::support::{LOCK, SOON, TTL, Waiting, client_with, mutex, soon, ttl_of, waiting};

const KEYS: u32 = 200_000;

/// The lease of the waiters without messages, and of the holders that they wait for.
const SHORT: Duration = Duration::from_secs(3);

/// How often a waiter with that lease asks without a message, if it has a place in the queue.
const THIRD: Duration = Duration::from_secs(1);

/// The time that a loaded machine may add. A waiter with the long lease and without messages asks after
/// ten seconds.
const SLACK: Duration = Duration::from_secs(2);

/// The server counts in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// One source of hints, alone.
struct Listening {
    setup: fn(Builder) -> Builder,
    /// Whether the waiter has a place in the queue, and so hears of a release by this library.
    of_ours: bool,
    /// Whether the source reports what a foreign client does.
    of_theirs: bool,
}

const MESSAGES: Listening = Listening {
    setup: |redis| redis.notifications(Notifications::Off),
    of_ours: true,
    of_theirs: false,
};

const NOTIFICATIONS: Listening = Listening {
    setup: |redis| redis.release_messages(false).notifications(Notifications::Require),
    of_ours: true,
    of_theirs: true,
};

const TRACKING: Listening = Listening {
    setup: |redis| redis.release_messages(false).notifications(Notifications::Off).tracking(true),
    of_ours: true,
    of_theirs: true,
};

const TIMERS: Listening = Listening {
    setup: |redis| redis.release_messages(false).notifications(Notifications::Off),
    of_ours: false,
    of_theirs: false,
};

/// A server with many other keys, each with an end, but none that comes soon.
fn crowded() -> RedisServer {
    const FILL: &str = "for i = ARGV[1], ARGV[2] do \
                        redis.call('SET', 'other:' .. i, i, 'PX', 600000 + i) end";
    const STEP: u32 = 20_000;
    let server = RedisServer::builder().config("notify-keyspace-events", "Kg$xe").start();
    for first in (1..=KEYS).step_by(STEP as usize) {
        let last = first + STEP - 1;
        let reply = server.cli(&["EVAL", FILL, "0", &first.to_string(), &last.to_string()]);
        assert!(reply.is_nil(), "{reply:?}");
    }
    assert_eq!(server.cli(&["DBSIZE"]).int(), i64::from(KEYS));
    server
}

/// A waiter of a new client, refused once since it listens, if it does.
async fn begin(
    server: &RedisServer,
    listening: &Listening,
    told: bool,
) -> (Arc<Mutex<()>>, Waiting) {
    let lease = if told { TTL } else { SHORT };
    let locks = client_with(server.url(), listening.setup, |locks| locks.ttl(lease));
    let mutex = mutex(&locks);
    let before = server.commandstats();
    let waiting = waiting(&mutex);
    let listens = listening.of_ours || listening.of_theirs;
    // The client asks, listens, and asks again for changes in the meantime.
    let requests = if listens { 2 } else { 1 };
    let refused = async || server.commandstats().since(&before).calls("evalsha") >= requests;
    eventually_async("it was refused", SOON, refused).await;
    (mutex, waiting)
}

/// The waiter is served within this time, apart from the delays of a loaded machine.
async fn served(waiting: Waiting, limit: Duration, what: &str) {
    let begin = Instant::now();
    let guard = waiting.served().await;
    let took = begin.elapsed();
    assert!(took < limit + SLACK, "{what}: served after {took:?}, not {limit:?}");
    OwnedMutexGuard::release(guard).await.unwrap();
}

async fn woken_by_each_end(listening: &Listening) {
    let server = crowded();
    // Without a place in the queue the waiter waits for the end of the lease, as last seen.
    let lease = if listening.of_ours { TTL } else { SHORT };
    let in_time = |told| match told {
        true => Duration::ZERO,
        false if listening.of_ours => THIRD,
        false => SHORT,
    };

    let there = client_with(server.url(), listening.setup, |locks| locks.ttl(lease));
    let theirs = mutex(&there);
    let held = soon(theirs.lock()).await.unwrap();
    let (_here, waiting) = begin(&server, listening, listening.of_ours).await;
    MutexGuard::release(held).await.unwrap();
    served(waiting, in_time(listening.of_ours), "a release").await;

    server.cli(&["SET", LOCK, "a stranger", "PX", &lease.as_millis().to_string()]);
    let (_here, waiting) = begin(&server, listening, listening.of_theirs).await;
    assert_eq!(server.cli(&["DEL", LOCK]).int(), 1);
    served(waiting, in_time(listening.of_theirs), "a foreign release").await;

    // The waiter keeps the time with the long lease, too.
    server.cli(&["SET", LOCK, "a stranger that died", "PX", "4000"]);
    let (_here, waiting) = begin(&server, listening, true).await;
    let (seen, left) = (Instant::now(), ttl_of(&server, LOCK).unwrap());
    let guard = waiting.served().await;
    let waited = seen.elapsed();
    assert!(waited + ROUNDING >= left, "after {waited:?}, with {left:?} to go");
    assert!(waited < left + SLACK, "after {waited:?}, with {left:?} to go");
    OwnedMutexGuard::release(guard).await.unwrap();
    assert_eq!(server.cli(&["EXISTS", "other:1", "other:200000"]).int(), 2);
}

#[tokio::test]
async fn with_the_messages_of_releases_alone() {
    woken_by_each_end(&MESSAGES).await;
}

#[tokio::test]
async fn with_notifications_alone() {
    woken_by_each_end(&NOTIFICATIONS).await;
}

#[tokio::test]
async fn with_tracking_alone() {
    woken_by_each_end(&TRACKING).await;
}

#[tokio::test]
async fn with_timers_alone() {
    woken_by_each_end(&TIMERS).await;
}
